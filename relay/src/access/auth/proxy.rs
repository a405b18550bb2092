//! Trusted proxies: their networks, and the client address that they state in `X-Forwarded-For`.

use std::net::{IpAddr, SocketAddr};

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads `10.1.0.0/16`, `fd00::/8` or a single address.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
        (bits <= most).then_some(Self { address, bits })
    }

    /// Whether an address is in it. An IPv4 address counts as itself also when it comes as IPv6.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        let differing = match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                u128::from(own.to_bits() ^ other.to_bits()) << 96
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differing.leading_zeros() >= u32::from(self.bits)
    }
}

/// The address of the client of a proxy that these `networks` trust, by its `X-Forwarded-For`. Each proxy
/// adds at the end whom it was called by, so it is the last entry that isn't a trusted proxy itself: what
/// stands before it the client may have written. `None` when no entry says it.
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

    #[test]
    fn client_of_a_proxy_is_the_last_that_is_no_trusted_proxy_itself() {
        let networks = ["10.0.0.0/8", "fd00::/8"].map(|text| Network::read(text).unwrap());
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
            // What isn't an address may hide one: nothing before it is believed.
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
    fn network_holds_the_addresses_that_begin_as_it_does() {
        for (network, address, holds) in [
            ("10.1.0.0/16", "10.1.255.3", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("10.1.0.0/16", "::ffff:10.1.2.3", true),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
        ] {
            let network = Network::read(network).unwrap();
            assert_eq!(
                network.holds(address.parse().unwrap()),
                holds,
                "{network:?} {address}"
            );
        }
        for bad in [
            "",
            "10.1.0.0/33",
            "10.1.0.0/",
            "10.1/16",
            "proxy",
            "::/129",
            "10.0.0.1/-1",
        ] {
            assert_eq!(Network::read(bad), None, "{bad}");
        }
    }
}
