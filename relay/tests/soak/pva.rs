//! The same records by pvAccess: a client of the second edge compares them with the answers of Channel Access.
//! A record's access security changes: a put is refused while the rules say so, and done afterwards.

use std::net::SocketAddr;

use pvwire_schema::types::{ConnectionState, Outcome};
use testbed::records::KINDS;
use testbed::{Client, Network, Pv, SoftIoc, Told, eventually};

use super::World;
use super::writes::{Entry, has_copies};

/// Kinds that both protocols serve with the same type.
const SAME: [&str; 15] = [
    "ai",
    "ao",
    "calc",
    "longin",
    "longout",
    "bi",
    "bo",
    "mbbi",
    "mbbo",
    "stringin",
    "stringout",
    "SHORT",
    "LONG",
    "FLOAT",
    "DOUBLE",
];

const SCHEME: &str = "pva://";

/// Kinds that no record of these PVs has: QSRV serves an array of enums as a single choice and fails at each update, and
/// the long string is asked for by a name that other types don't have.
pub(super) const NOT_SERVED: [&str; 2] = ["ENUM", "lso"];

/// Whether the client watches the record with this number. Those that Channel Access may hide at times are left out,
/// because QSRV checks no read access.
pub(super) fn is_watched(number: usize) -> bool {
    let first = KINDS[number % KINDS.len()];
    number % 3 == 1 && !number.is_multiple_of(14) && !NOT_SERVED.contains(&first)
}

/// The PVs to watch.
pub(super) fn names(entries: &[Entry]) -> Vec<String> {
    let watched = (entries.iter().enumerate()).filter(|(number, _)| is_watched(*number));
    watched
        .map(|(_, entry)| format!("{SCHEME}{}", entry.name))
        .collect()
}

/// The record of a PV of pvAccess.
pub(super) fn record_of(name: &str) -> Option<&str> {
    name.strip_prefix(SCHEME)
}

/// In what a client's PV differs from what Channel Access tells of its record. Of kinds whose types differ between the
/// protocols no value is compared. QSRV sends an alarm only with an update that changes it; of kinds that the IOC queues
/// no copies of, such an update may be dropped behind another one that waits.
pub(super) fn differences(kind: &str, told: Option<&Told>, pv: &Pv) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, seen: String, truth: String| {
        if seen != truth {
            found.push(format!("{what}: {seen}, truth: {truth}"));
        }
    };
    let state = pv.connection.map(|connection| connection.state);
    let is_connected = state == Some(ConnectionState::Connected);
    compare(
        "connected",
        is_connected.to_string(),
        told.is_some().to_string(),
    );
    let Some(told) = told else {
        return found;
    };
    let Some(seen) = &pv.now else {
        compare("value", "none".to_owned(), format!("{:?}", told.value));
        return found;
    };
    if has_copies(kind) {
        let (seen, truth) = (seen.alarm, told.alarm);
        compare("alarm", format!("{seen:?}"), format!("{truth:?}"));
    }
    compare(
        "time stamp",
        seen.time_ns.to_string(),
        told.time_ns.to_string(),
    );
    if SAME.contains(&kind) {
        compare(
            "value",
            format!("{:?}", seen.value),
            format!("{:?}", told.value),
        );
        let units = pv.metadata.as_ref().map(|metadata| metadata.units.as_str());
        let truth = Some(told.metadata.units.as_str());
        compare("units", format!("{units:?}"), format!("{truth:?}"));
    }
    found
}

const DATABASE: &str = r#"
record(ao, "$(P)open") { field(VAL, "1") }
record(int64out, "$(P)guarded") { field(ASG, "GUARDED") field(VAL, "9007199254740993") }
"#;

pub(super) const RESTARTS: &str = "the IOC with rights by pvAccess dies and comes back";

pub(super) struct PvaRights {
    network: Network,
    prefix: String,
    /// `None` only while it restarts.
    ioc: Option<SoftIoc>,
}

impl PvaRights {
    /// Starts the IOC; the relay lets clients write PVs with the prefix.
    pub(super) fn start(prefix: &str) -> Self {
        let mut rights = Self {
            network: Network::new(),
            prefix: format!("{prefix}pva:"),
            ioc: None,
        };
        rights.restart();
        rights
    }

    fn restart(&mut self) {
        let prefix = &self.prefix;
        let rules = format!(
            "ASG(DEFAULT) {{ RULE(1, READ) RULE(1, WRITE) }}
             ASG(GUARDED) {{
                INPA(\"{prefix}open\")
                RULE(1, READ)
                RULE(1, WRITE) {{ CALC(\"A>=1\") }}
             }}"
        );
        self.ioc = None;
        let start = SoftIoc::with_prefix_and_pv_access;
        self.ioc = Some(start(self.network, prefix, DATABASE, &rules));
    }

    /// Where the relay searches, beside these name servers.
    pub(super) fn name_servers(&self, others: &str) -> String {
        format!("{others} 127.0.0.1:{}", self.network.pva_port())
    }

    /// Takes the right away and gives it back. A new client's put has the right outcome soon, and a number beyond 2^53
    /// that one below it follows at once is not what stays.
    pub(super) fn check(&mut self, relay: SocketAddr) {
        let name = format!("pva://{}guarded", self.prefix);
        let ioc = self.ioc.as_mut().unwrap();
        for (open, is_done) in [("0", false), ("1", true)] {
            ioc.put("open", open);
            ioc.settle();
            eventually("the outcome of a put follows the rules of the IOC", || {
                let mut client = Client::connect(relay);
                client.subscribe(&[&name]);
                client.wait_state(&name, ConnectionState::Connected);
                (client.put_number(&name, 5.0).0 == Outcome::Done) == is_done
            });
        }
        let mut client = Client::connect(relay);
        client.subscribe(&[&name]);
        client.wait_state(&name, ConnectionState::Connected);
        for value in ["9007199254740993", "10"] {
            ioc.put("guarded", value);
        }
        client.wait_number(&name, 10.0);
        assert!(client.pv(&name).connection.is_some_and(|now| now.write));
    }
}

impl World {
    pub(super) fn restart_pva_rights(&mut self) {
        if let Some(rights) = &mut self.pva_rights {
            rights.restart();
            self.say(RESTARTS);
        }
    }
}
