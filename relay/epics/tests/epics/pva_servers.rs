//! Servers are found, and list the names of their PVs.
//!
//! A soft IOC with pvAccess that restarts; found as a name server by TCP, or by a search and beacons by UDP.

use std::sync::{Arc, Mutex};

use pvwire_epics::pva::{Client, OpError, ServerFound};

use crate::support::{DEADLINE, Server, eventually, in_own_process, prefix};

const RECORDS: &str = r#"record(ai, "$(P)a") {} record(ai, "$(P)b") { alias("$(P)c") }"#;

type Seen = Arc<Mutex<Vec<ServerFound>>>;

fn discover(client: &Client) -> Seen {
    let seen = Seen::default();
    let reported = Arc::clone(&seen);
    client.discover(move |server| reported.lock().unwrap().push(server));
    seen
}

/// Waits for the next report from a number on; returns its number and the report.
fn next(seen: &Seen, from: usize, wanted: impl Fn(&ServerFound) -> bool) -> (usize, ServerFound) {
    let find = || {
        let seen = seen.lock().unwrap();
        let found = seen.iter().enumerate().skip(from);
        found
            .clone()
            .find(|(_, server)| wanted(server))
            .map(|(at, server)| (at, server.clone()))
    };
    eventually("a server is reported", || find().is_some());
    find().unwrap()
}

fn names(client: &Client, server: &str) -> Result<Vec<String>, OpError> {
    let (sender, answer) = std::sync::mpsc::channel();
    client.list_names(server, DEADLINE, move |names| sender.send(names).unwrap());
    let names = answer.recv_timeout(2 * DEADLINE).unwrap();
    names.map(|mut names| {
        names.sort();
        names
    })
}

#[test]
fn name_server_is_reported_at_each_connection_and_lists_its_names() {
    in_own_process!(
        "name_server_is_reported_at_each_connection_and_lists_its_names",
        || {
            let prefix = prefix();
            let listed: Vec<_> = ["a", "b", "c"]
                .map(|name| format!("{prefix}{name}"))
                .to_vec();
            let ioc = Server::ioc(&prefix, RECORDS);
            let client = Client::start().unwrap();
            let seen = discover(&client);
            let (at, server) = next(&seen, 0, |server| server.is_online);
            assert_eq!(names(&client, &server.address), Ok(listed.clone()));
            ioc.kill();
            let (at, _) = next(&seen, at, |server| !server.is_online);
            let _ioc = Server::ioc(&prefix, r#"record(ai, "$(P)d") {}"#);
            let (_, again) = next(&seen, at, |server| server.is_online);
            // Its identifier may be known meanwhile, from its answer to a search.
            assert_eq!(again.address, server.address);
            assert_eq!(
                names(&client, &server.address),
                Ok(vec![format!("{prefix}d")])
            );
        }
    );
}

#[test]
fn server_by_udp_is_reported_with_its_identifier_and_lists_its_names() {
    in_own_process!(
        "server_by_udp_is_reported_with_its_identifier_and_lists_its_names",
        || {
            // SAFETY: no other thread of this process reads the environment yet.
            unsafe {
                std::env::set_var("EPICS_PVA_ADDR_LIST", "127.0.0.1");
                std::env::set_var("EPICS_PVA_NAME_SERVERS", "");
            }
            let _ioc = Server::ioc(&prefix(), RECORDS);
            let client = Client::start().unwrap();
            let seen = discover(&client);
            let (_, server) = next(&seen, 0, |server| server.is_online);
            assert_eq!(server.guid.len(), 12);
            assert_eq!(names(&client, &server.address).unwrap().len(), 3);
        }
    );
}
