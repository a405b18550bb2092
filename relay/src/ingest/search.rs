//! The addresses at which the sources search for PVs, from EPICS's variables, for the status page.

use serde_json::{Value, json};

/// The variables of one protocol.
struct Protocol {
    name: &'static str,
    addresses: &'static str,
    auto: &'static str,
    servers: &'static str,
    /// Variable of the UDP port of searches, and its default.
    port: (&'static str, &'static str),
}

const PROTOCOLS: [Protocol; 2] = [
    Protocol {
        name: "Channel Access",
        addresses: "EPICS_CA_ADDR_LIST",
        auto: "EPICS_CA_AUTO_ADDR_LIST",
        servers: "EPICS_CA_NAME_SERVERS",
        port: ("EPICS_CA_SERVER_PORT", "5064"),
    },
    Protocol {
        name: "pvAccess",
        addresses: "EPICS_PVA_ADDR_LIST",
        auto: "EPICS_PVA_AUTO_ADDR_LIST",
        servers: "EPICS_PVA_NAME_SERVERS",
        port: ("EPICS_PVA_BROADCAST_PORT", "5076"),
    },
];

/// For each protocol, the addresses in its variables, which `lookup` reads, and whether the
/// broadcast addresses of this machine's networks are searched too (EPICS's default).
#[must_use]
pub fn addresses(lookup: impl Fn(&str) -> Option<String>) -> Value {
    let words = |name: &str| -> Vec<String> {
        let value = lookup(name).unwrap_or_default();
        value.split_whitespace().map(ToOwned::to_owned).collect()
    };
    let of = |protocol: &Protocol| {
        let auto = lookup(protocol.auto).unwrap_or_default();
        let (port, default_port) = protocol.port;
        json!({
            "protocol": protocol.name,
            "addresses": words(protocol.addresses),
            "broadcast": !auto.trim().eq_ignore_ascii_case("NO"),
            "nameServers": words(protocol.servers),
            "port": lookup(port).filter(|port| !port.is_empty()).unwrap_or_else(|| default_port.to_owned()),
        })
    };
    PROTOCOLS.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_searched_by_broadcast_unless_disabled() {
        let said = addresses(|_| None);
        assert_eq!(
            said[0],
            json!({ "protocol": "Channel Access", "addresses": [], "broadcast": true, "nameServers": [], "port": "5064" })
        );
        assert_eq!(said[1]["port"], "5076");
        let said = addresses(|name| match name {
            "EPICS_CA_AUTO_ADDR_LIST" => Some("no".to_owned()),
            "EPICS_CA_ADDR_LIST" => Some(" 10.0.0.255  gateway:5066 ".to_owned()),
            "EPICS_PVA_NAME_SERVERS" => Some("ioc1".to_owned()),
            "EPICS_CA_SERVER_PORT" => Some("6064".to_owned()),
            _ => None,
        });
        assert_eq!(said[0]["broadcast"], false);
        assert_eq!(said[0]["addresses"], json!(["10.0.0.255", "gateway:5066"]));
        assert_eq!(said[0]["port"], "6064");
        assert_eq!(said[1]["nameServers"], json!(["ioc1"]));
        assert_eq!(said[1]["broadcast"], true);
    }
}
