//! The pvAccess gateway of p4p, between two networks.

use std::process::Command;

use serde_json::json;

use crate::process::Process;
use crate::{Network, file, prefix, python};

/// A running gateway; dropping it kills it.
pub struct PvaGateway(Process);

impl PvaGateway {
    /// Starts one that serves the PVs of some networks in another one, and waits until it runs.
    pub fn start<const N: usize>(behind: [Network; N], before: Network) -> Self {
        let searched = behind.map(|network| format!("127.0.0.1:{}", network.pva_search_port()));
        let config = json!({
            "version": 2,
            "clients": [{
                "name": "behind",
                "provider": "pva",
                "addrlist": searched.join(" "),
                "autoaddrlist": false,
                "bcastport": behind[0].pva_broadcast_port(),
            }],
            "servers": [{
                "name": "before",
                "clients": ["behind"],
                "interface": ["127.0.0.1"],
                "addrlist": "127.0.0.1",
                "autoaddrlist": false,
                "serverport": before.pva_port(),
                "bcastport": before.pva_broadcast_port(),
            }],
        });
        let name = format!("gateway-{}.json", prefix().replace(':', ""));
        let config = file(&name, &config.to_string());
        let mut command = Command::new(python());
        command.args(["-u", "-m", "p4p.gw"]).arg(config);
        Self(Process::start(command, "Setup GW clients"))
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}
