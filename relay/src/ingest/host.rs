//! Watches the addresses of the host names in EPICS's variables.
//!
//! libca and pvxs resolve these names once, when a context is created. If a name has another
//! address later, they would search for the IOC at its old one. Therefore the relay resolves the
//! names repeatedly, and makes a source reconnect when an address has changed.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// Variables that contain host names, and the scheme of the source that reads each.
const VARIABLES: [(&str, &str); 4] = [
    ("EPICS_CA_ADDR_LIST", "ca"),
    ("EPICS_CA_NAME_SERVERS", "ca"),
    ("EPICS_PVA_ADDR_LIST", "pva"),
    ("EPICS_PVA_NAME_SERVERS", "pva"),
];

/// A name without an answer after this time counts as unknown.
const PATIENCE: Duration = Duration::from_secs(5);

/// The addresses of a name; empty if it is unknown.
type Addresses = BTreeSet<IpAddr>;

/// One name of a source's variables.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    scheme: &'static str,
    name: String,
    /// The addresses that the source uses, as far as the relay knows.
    used: Addresses,
    /// Other addresses, found by the last look.
    instead: Addresses,
    /// It has been logged that the name has no address.
    is_lost: bool,
}

impl Host {
    fn new(scheme: &'static str, name: &str) -> Self {
        Self {
            scheme,
            name: name.to_owned(),
            used: Addresses::new(),
            instead: Addresses::new(),
            is_lost: false,
        }
    }

    /// Takes the addresses of a look. Returns whether the source must reconnect, which takes two
    /// equal looks, because a name server may give different answers while it is changed. A name
    /// without an address changes nothing.
    fn found(&mut self, addresses: Addresses) -> bool {
        if addresses.is_empty() && !self.is_lost {
            log::warn!(
                "{} has no address now; its last addresses stay in use",
                self.name
            );
        }
        self.is_lost = addresses.is_empty();
        if self.is_lost || addresses == self.used {
            self.instead.clear();
            return false;
        }
        if addresses != self.instead {
            self.instead = addresses;
            return false;
        }
        log::warn!(
            "{} now has the addresses {:?} instead of {:?}: all PVs of {}:// are searched again",
            self.name,
            addresses,
            self.used,
            self.scheme
        );
        self.used = addresses;
        self.instead.clear();
        true
    }
}

/// The host names in EPICS's variables.
#[derive(Debug)]
pub struct Hosts(Vec<Host>);

impl Hosts {
    /// Reads the host names from EPICS's variables by `lookup`.
    #[must_use]
    pub fn read(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let mut hosts = Vec::<Host>::new();
        for (variable, scheme) in VARIABLES {
            let value = lookup(variable).unwrap_or_default();
            for name in value.split_whitespace().filter_map(host_name) {
                if !(hosts.iter()).any(|host| host.scheme == scheme && host.name == name) {
                    hosts.push(Host::new(scheme, name));
                }
            }
        }
        Self(hosts)
    }

    /// Resolves the names repeatedly, and calls `renew` with the scheme of a source that must
    /// reconnect. Returns at once if there are no names or the interval is zero; otherwise it never
    /// returns.
    pub async fn watch(mut self, every: Duration, renew: impl Fn(&str)) {
        if every.is_zero() || self.0.is_empty() {
            return;
        }
        for host in &mut self.0 {
            host.used = look_up(&host.name).await;
        }
        loop {
            tokio::time::sleep(every).await;
            let mut moved = BTreeSet::new();
            for host in &mut self.0 {
                let addresses = look_up(&host.name).await;
                if host.found(addresses) {
                    moved.insert(host.scheme);
                }
            }
            moved.into_iter().for_each(&renew);
        }
    }
}

/// The name in `NAME`, `NAME:PORT` or `NAME:PORT,TTL@INTERFACE`; `None` if it is an address.
fn host_name(item: &str) -> Option<&str> {
    let address = item.split([',', '@']).next()?;
    let name = address.split(':').next()?;
    let is_address = [address, name].map(|text| text.parse::<IpAddr>().is_ok());
    let is_name = !name.is_empty() && !name.starts_with('[') && is_address == [false; 2];
    is_name.then_some(name)
}

async fn look_up(name: &str) -> Addresses {
    let asked = tokio::time::timeout(PATIENCE, tokio::net::lookup_host((name, 0))).await;
    match asked {
        Ok(Ok(found)) => found.map(|address| address.ip()).collect(),
        Ok(Err(_)) | Err(_) => Addresses::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses<const N: usize>(list: [&str; N]) -> Addresses {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn host_names_are_found_among_addresses_once_per_source() {
        let hosts = Hosts::read(|variable| {
            let value = match variable {
                "EPICS_CA_ADDR_LIST" => "10.1.255.255 ioc-a ioc-b:5066",
                "EPICS_CA_NAME_SERVERS" => "ioc-a:5064 10.1.2.3:5064",
                "EPICS_PVA_ADDR_LIST" => {
                    "224.0.2.3,255@10.1.0.1 [::1]:5075 fe80::1 gateway,8@10.1.0.1"
                }
                _ => return None,
            };
            Some(value.to_owned())
        });
        let names: Vec<_> = hosts
            .0
            .iter()
            .map(|host| (host.scheme, &*host.name))
            .collect();
        assert_eq!(
            names,
            [("ca", "ioc-a"), ("ca", "ioc-b"), ("pva", "gateway")]
        );
    }

    #[test]
    fn source_reconnects_when_two_looks_find_the_same_new_addresses() {
        let mut host = Host::new("ca", "ioc-a");
        host.used = addresses(["10.0.0.1"]);
        let looks = [
            (addresses(["10.0.0.1"]), false),
            (addresses(["10.0.0.2"]), false),
            (addresses(["10.0.0.1"]), false),
            (addresses(["10.0.0.2"]), false),
            (addresses(["10.0.0.3"]), false),
            (addresses([]), false),
            (addresses([]), false),
            (addresses(["10.0.0.3"]), false),
            (addresses(["10.0.0.3"]), true),
            (addresses(["10.0.0.3"]), false),
            (addresses([]), false),
            (addresses(["10.0.0.3"]), false),
            (addresses(["10.0.0.3", "10.0.0.4"]), false),
            (addresses(["10.0.0.3", "10.0.0.4"]), true),
        ];
        for (nth, (found, reconnects)) in looks.into_iter().enumerate() {
            assert_eq!(host.found(found), reconnects, "look {nth}");
        }
    }

    #[test]
    fn name_unknown_at_the_start_is_searched_once_it_is_known() {
        let mut host = Host::new("pva", "ioc-a");
        assert!(!host.found(addresses(["10.0.0.1"])));
        assert!(host.found(addresses(["10.0.0.1"])));
    }
}
