//! Does the relay's socket speak WebSocket as RFC 6455 says?
//!
//! Topology: a relay whose clients get back what they send (feature `conformance`), and Autobahn's
//! cases as the package kosoku runs them. Left out are 9.*, which measure messages of up to 16 MiB,
//! more than a relay reads, and 12.* and 13.*, which are about compression, which it refuses.

use std::process::Command;

use testbed::{Network, Relay, python};

/// Cases of the suite that are about what the relay does.
const CASES: usize = 247;

#[test]
fn every_case_of_the_protocol_is_passed() {
    let relay = Relay::start(Network::new(), &[]);
    let reports = std::env::temp_dir().join(format!("pvwire-conformance-{}", std::process::id()));
    let run = Command::new(python().with_file_name("kosoku"))
        .args(["--parallelism", "8"])
        .args(["--exclude", "9.*", "--exclude", "12.*", "--exclude", "13.*"])
        .arg("--outdir")
        .arg(&reports)
        .arg(format!("ws://{}/ws", relay.address()))
        .output()
        .unwrap();
    let index = std::fs::read_to_string(reports.join("index.json")).unwrap_or_default();
    let _ = std::fs::remove_dir_all(&reports);
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{said}");
    let agents: serde_json::Value = serde_json::from_str(&index).unwrap();
    let cases = agents.as_object().unwrap().values().next().unwrap();
    let cases = cases.as_object().unwrap();
    assert_eq!(cases.len(), CASES, "the suite has changed");
    for (case, result) in cases {
        for verdict in ["behavior", "behaviorClose"] {
            let verdict = result[verdict].as_str().unwrap();
            let good = ["OK", "NON-STRICT", "INFORMATIONAL"].contains(&verdict);
            assert!(good, "case {case}: {verdict}");
        }
    }
    assert_eq!(relay.metric("pvwire_callback_panics_total"), 0.0);
}
