//! Coniql's own tests, unmodified, against a relay in Coniql's place.
//!
//! The set-up installs them from Coniql's source package (tools/coniql_clients.txt). A plugin of pytest,
//! `forward.py`, leads the two functions that they import to the relay. Not run are those that look into Coniql's
//! process: `test_metrics.py`, `test_subscribe_unsubscribe` and `test_cli_version`.

use std::process::Command;

use testbed::{Network, Relay, in_repository, relay_command};

/// Searches by this address reach all IOCs of a test, which share a port.
const EVERY_IOC: &str = "127.255.255.255";

/// Runs one file of the tests; `passed` of them must pass.
fn passes(file: &str, passed: usize, left_out: &[&str]) {
    if let Err(output) = outcome(file, passed, left_out) {
        panic!("{output}");
    }
}

/// What the tests of one file write, unless `passed` of them pass.
fn outcome(file: &str, passed: usize, left_out: &[&str]) -> Result<(), String> {
    let installed = in_repository(".local/coniql");
    let tests = installed.join("tests");
    assert!(tests.exists(), "make setup installs {}", tests.display());
    let network = Network::new();
    let mut command = relay_command(network);
    command.env("EPICS_CA_ADDR_LIST", EVERY_IOC);
    let flags = [
        "--coniql",
        "--coniql-strict",
        "--enable-put",
        "--allow-put=*",
    ];
    let relay = Relay::spawn(command, &flags);
    let mut pytest = Command::new(installed.join("bin/python"));
    network.apply(&mut pytest);
    pytest
        .current_dir(&installed)
        .args([
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "forward",
        ])
        .args(["-o", "addopts=", "--asyncio-mode=auto", "--rootdir=."])
        .arg(format!("tests/{file}"))
        .env("EPICS_CA_ADDR_LIST", EVERY_IOC)
        // An IOC that listens at one address of loopback doesn't get these searches.
        .env_remove("EPICS_CAS_INTF_ADDR_LIST")
        .env("PYTHONPATH", in_repository("relay/tests/coniql"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PVWIRE_CONIQL", format!("http://{}", relay.address()));
    for test in left_out {
        pytest.args(["--deselect", &format!("tests/{file}::{test}")]);
    }
    let output = pytest.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    let all = format!("{passed} passed");
    if output.status.success() && said.contains(&all) {
        return Ok(());
    }
    Err(format!("{said}{errors}{}", relay.output()))
}

#[test]
fn ten_of_coniqls_tests_over_its_http_server_pass() {
    passes("test_aiohttp.py", 10, &[]);
}

#[test]
fn ten_of_coniqls_tests_of_channel_access_pass() {
    passes("test_caplugin.py", 10, &["test_subscribe_unsubscribe"]);
}

#[test]
fn six_of_coniqls_tests_of_its_schema_pass() {
    // Two of them compare the wall clock with bounds of 0.2 s, which a machine that runs other tests, too, can miss.
    let mut tries = (0..3).map(|_| outcome("test_coniql.py", 6, &["test_cli_version"]));
    let first = tries.next().unwrap();
    if let Err(output) = first {
        assert!(tries.any(|each| each.is_ok()), "{output}");
    }
}
