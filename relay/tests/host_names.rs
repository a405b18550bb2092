//! What users see when an IOC moves to another address behind the same host name.
//!
//! Topology: two IOCs with the same PVs at 127.0.0.2 and 127.0.0.3, one name for both in a list of
//! hosts that is the relay's own, and a client.

use std::path::{Path, PathBuf};

use pvwire_schema::types::{ConnectionState, Outcome};

use testbed::{Client, Network, Relay, SoftIoc, eventually, prefix, relay_command_with_hosts};

const RECORD: &str = r#"record(ao, "$(P)ao") { field(VAL, "1") }"#;
const HOST: &str = "ioc.pvwire.test";

/// A hosts file that contains the IOC's address.
struct Hosts(PathBuf);

impl Hosts {
    fn new(prefix: &str) -> Self {
        let name = format!("{}hosts", prefix.trim_end_matches(':'));
        let hosts = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        hosts.forget();
        hosts
    }

    fn say(&self, address: &str) {
        // Written in place, because the relay has this very file mounted.
        std::fs::write(&self.0, format!("127.0.0.1 localhost\n{address} {HOST}\n")).unwrap();
    }

    /// No host has the name.
    fn forget(&self) {
        std::fs::write(&self.0, "127.0.0.1 localhost\n").unwrap();
    }
}

struct Site {
    network: Network,
    prefix: String,
    hosts: Hosts,
    name: String,
}

impl Site {
    fn new(network: Network, scheme: &str) -> Self {
        let prefix = prefix();
        Self {
            network,
            hosts: Hosts::new(&prefix),
            name: format!("{scheme}://{prefix}ao"),
            prefix,
        }
    }

    /// An IOC at this address, whose PV has this value.
    fn ioc(&self, address: &'static str, value: u32) -> SoftIoc {
        let record = RECORD.replace("\"1\"", &format!("\"{value}\""));
        SoftIoc::with_pv_access(self.network.at(address), &self.prefix, &record)
    }

    /// A relay that knows the IOC only by its host name, in this variable.
    fn relay(&self, variable: &str, port: u16, flags: &[&str]) -> Relay {
        let mut command = relay_command_with_hosts(self.network, &self.hosts.0);
        command
            .env("EPICS_CA_ADDR_LIST", "")
            .env("EPICS_PVA_ADDR_LIST", "")
            .env("EPICS_PVA_NAME_SERVERS", "")
            .env(variable, format!("{HOST}:{port}"));
        let all = [&["--host-lookup-ms", "300"], flags].concat();
        Relay::spawn(command, &all)
    }
}

/// An IOC stops at one address and continues at another, to which its name then resolves.
fn moves(site: &Site, variable: &str, port: u16) {
    let name = &site.name;
    site.hosts.say("127.0.0.2");
    let first = site.ioc("127.0.0.2", 1);
    let flags = ["--enable-put", "--allow-put", "*"];
    let relay = site.relay(variable, port, &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[name]);
    client.wait_number(name, 1.0);

    drop(first);
    client.wait_state(name, ConnectionState::Disconnected);
    assert!(client.pv(name).is_number(1.0), "the last value is kept");
    let mut second = site.ioc("127.0.0.3", 2);
    site.hosts.say("127.0.0.3");
    client.wait_number(name, 2.0);
    client.wait_state(name, ConnectionState::Connected);
    second.put("ao", "3");
    client.wait_number(name, 3.0);
    assert_eq!(client.put_number(name, 4.0).0, Outcome::Done);
    client.wait_number(name, 4.0);
    relay.wait_metric("pvwire_sources_renewed_total", 1.0);
    assert!(
        client.closed.is_none(),
        "its own connection is as good as ever"
    );
}

#[test]
fn ioc_that_moves_behind_its_host_name_is_found_by_a_search() {
    let network = Network::new();
    let site = Site::new(network, "ca");
    moves(&site, "EPICS_CA_ADDR_LIST", network.server_port());
}

#[test]
fn ioc_that_moves_behind_its_host_name_is_found_by_name_server() {
    let network = Network::new();
    let site = Site::new(network, "ca");
    moves(&site, "EPICS_CA_NAME_SERVERS", network.server_port());
}

#[test]
fn pva_server_that_moves_behind_its_host_name_is_found() {
    let network = Network::new();
    let site = Site::new(network, "pva");
    moves(&site, "EPICS_PVA_NAME_SERVERS", network.pva_port());
}

/// While the first IOC keeps running, its name changes to the other: from then on all clients see
/// the other.
#[test]
fn name_that_another_ioc_takes_over_leads_there() {
    let network = Network::new();
    let site = Site::new(network, "ca");
    let name = &site.name;
    let relay = site.relay("EPICS_CA_NAME_SERVERS", network.server_port(), &[]);
    let mut client = Client::connect(relay.address());
    let _first = site.ioc("127.0.0.2", 1);
    client.subscribe(&[name]);
    client.wait_state(name, ConnectionState::NotFound);
    // The name was unknown when the relay started.
    site.hosts.say("127.0.0.2");
    client.wait_number(name, 1.0);
    let renewed = relay.metric("pvwire_sources_renewed_total");

    site.hosts.forget();
    eventually("it is looked up in vain", || {
        relay.output().matches("has no address now").count() >= 2
    });
    site.hosts.say("127.0.0.2");
    let _second = site.ioc("127.0.0.3", 2);
    assert_eq!(relay.metric("pvwire_sources_renewed_total"), renewed);
    assert_eq!(client.pv(name).state(), ConnectionState::Connected);

    site.hosts.say("127.0.0.3");
    client.wait_number(name, 2.0);
    relay.wait_metric("pvwire_sources_renewed_total", renewed + 1.0);
}
