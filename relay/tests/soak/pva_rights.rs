//! A record by pvAccess whose access security changes: a put is refused while the rules say so, and done afterwards.

use std::net::SocketAddr;

use pvwire_schema::types::{ConnectionState, Outcome};

use super::World;
use testbed::{Client, Network, SoftIoc, eventually};

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
