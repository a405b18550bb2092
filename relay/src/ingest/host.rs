//! Do the host names by which IOCs are found still stand for the same addresses?
//!
//! libca and pvxs look up the names in EPICS's variables once, when a context is created. A name that
//! stands for another address later leads them to where an IOC was, so the relay looks as well and has
//! the source begin anew.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

/// Variables with names of hosts, and the scheme of the source that reads each.
const VARIABLES: [(&str, &str); 4] = [
    ("EPICS_CA_ADDR_LIST", "ca"),
    ("EPICS_CA_NAME_SERVERS", "ca"),
    ("EPICS_PVA_ADDR_LIST", "pva"),
    ("EPICS_PVA_NAME_SERVERS", "pva"),
];

/// A name that isn't answered for so long is not known now.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a name stands for; nothing when nobody knows it.
type Addresses = BTreeSet<IpAddr>;

/// One name of a source's variables.
#[derive(Debug, PartialEq, Eq)]
struct Host {
    scheme: &'static str,
    name: String,
    /// What the source has, as far as the relay knows.
    used: Addresses,
    /// What was found instead at the last look.
    instead: Addresses,
    /// Whether that is said to be nothing.
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

    /// Takes what a look has found; whether the source is to begin anew. That takes two looks that agree,
    /// because a name server that is about to change may answer this and that. A name that nobody knows
    /// now says nothing of where the IOC is.
    fn found(&mut self, addresses: Addresses) -> bool {
        if addresses.is_empty() && !self.is_lost {
            log::warn!(
                "{} stands for no address now: nothing is changed",
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
            "{} stands for {:?} now and not for {:?}: all PVs of {}:// are searched again",
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

/// The names that IOCs are found by.
#[derive(Debug)]
pub struct Hosts(Vec<Host>);

impl Hosts {
    /// The names in EPICS's variables, of which `lookup` gives the values.
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

    /// Looks the names up for ever and calls `renew` with the scheme of a source that is to begin anew.
    /// Ends at once when there are none, or with an interval of zero.
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

/// The name in `NAME`, `NAME:PORT` or `NAME:PORT,TTL@INTERFACE`; nothing if it is an address.
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
    fn names_are_told_from_addresses_and_each_counts_once_for_its_source() {
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
    fn source_begins_anew_when_two_looks_agree_on_something_else_and_never_for_no_answer() {
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
        for (nth, (found, anew)) in looks.into_iter().enumerate() {
            assert_eq!(host.found(found), anew, "look {nth}");
        }
    }

    #[test]
    fn name_that_nobody_knew_at_the_start_is_searched_once_it_is_known() {
        let mut host = Host::new("pva", "ioc-a");
        assert!(!host.found(addresses(["10.0.0.1"])));
        assert!(host.found(addresses(["10.0.0.1"])));
    }
}
