//! Trusted proxies: their networks, and the client address that they state in `X-Forwarded-For`.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(IpNet);

impl From<IpNet> for Network {
    fn from(network: IpNet) -> Self {
        Self(network)
    }
}

impl Network {
    /// Whether it contains an address. An IPv4 address in IPv6 form counts as IPv4.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

/// The client's address in `X-Forwarded-For` behind trusted proxies, those of `networks`. Each
/// proxy appends the address that called it, so the client is the last entry that isn't a trusted
/// proxy; the client itself may have written the entries before. `None` when the entries don't
/// tell.
#[must_use]
pub fn forwarded<'a>(
    entries: impl DoubleEndedIterator<Item = &'a str>,
    networks: &[Network],
) -> Option<IpAddr> {
    let mut first = None;
    for entry in entries.rev() {
        let address = forwarded_address(entry.trim())?;
        if !networks.iter().any(|network| network.holds(address)) {
            return Some(address);
        }
        first = Some(address);
    }
    first
}

/// An entry of `X-Forwarded-For`: an address, with or without a port.
fn forwarded_address(entry: &str) -> Option<IpAddr> {
    let address = entry.parse().ok();
    let address = address.or_else(|| Some(entry.parse::<SocketAddr>().ok()?.ip()));
    let bare = || entry.strip_prefix('[')?.strip_suffix(']');
    address.or_else(|| bare()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse::<IpNet>().unwrap().into()
    }

    #[test]
    fn client_is_the_last_entry_that_is_no_trusted_proxy() {
        let networks = ["10.0.0.0/8", "fd00::/8"].map(network);
        for (entries, client) in [
            ("192.0.2.7", Some("192.0.2.7")),
            ("192.0.2.7:4711", Some("192.0.2.7")),
            ("2001:db8::7", Some("2001:db8::7")),
            ("[2001:db8::7]:4711", Some("2001:db8::7")),
            ("[2001:db8::7]", Some("2001:db8::7")),
            ("203.0.113.1, 192.0.2.7", Some("192.0.2.7")),
            (
                "203.0.113.1, 192.0.2.7, 10.1.2.3, fd00::1",
                Some("192.0.2.7"),
            ),
            ("10.9.9.9, 10.1.2.3", Some("10.9.9.9")),
            // An entry that isn't an address may hide one: entries before it aren't used.
            ("192.0.2.7, unknown", None),
            ("192.0.2.7, _hidden, 10.1.2.3", None),
            ("", None),
        ] {
            let found = forwarded(entries.split(','), &networks);
            assert_eq!(
                found,
                client.map(|client| client.parse().unwrap()),
                "{entries}"
            );
        }
        assert_eq!(forwarded([].into_iter(), &networks), None);
    }

    #[test]
    fn network_contains_addresses_with_its_prefix() {
        for (network, address, holds) in [
            ("10.1.0.0/16", "10.1.255.3", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.0.0/16", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("127.0.0.1/32", "127.0.0.1", true),
            ("127.0.0.1/32", "127.0.0.2", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
        ] {
            let found = self::network(network).holds(address.parse().unwrap());
            assert_eq!(found, holds, "{network} {address}");
        }
    }
}
