//! Which server has answered the search of a PV.
//!
//! pvxs reports a channel only when it is connected. A server that answers searches and then says
//! nothing could therefore not be named. The messages of searches, which pvxs sends and receives by
//! the functions in `socket_calls.rs`, say it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Searched names of one context; after a burst of more the map begins again.
const MOST_SEARCHED: usize = 65_536;

/// Servers of names that are not connected yet.
const MOST_ANSWERED: usize = 8_192;

/// An older answer says nothing about the present.
const VALID_FOR: Duration = Duration::from_secs(60);

const MAGIC: u8 = 0xca;
const SEARCH: u8 = 3;
const SEARCH_RESPONSE: u8 = 4;

thread_local! {
    /// The names that the context of this thread searches, by the numbers in its messages.
    static SEARCHED: RefCell<HashMap<u32, NameHash>> = RefCell::default();
}

static ANSWERED: LazyLock<Mutex<Answers>> = LazyLock::new(Mutex::default);

type NameHash = u64;

/// The server of each name, and when it answered.
type Answers = HashMap<NameHash, (SocketAddr, Instant)>;

fn hash(name: &[u8]) -> NameHash {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

fn answers() -> MutexGuard<'static, Answers> {
    ANSWERED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Address and port of the server that has answered the search of a name which is not connected.
pub(super) fn server_of(name: &str) -> Option<String> {
    let (server, at) = *answers().get(&hash(name.as_bytes()))?;
    (at.elapsed() < VALID_FOR).then(|| server.to_string())
}

/// A name is connected: what its server has answered is over.
pub(super) fn forget(name: &str) {
    answers().remove(&hash(name.as_bytes()));
}

/// Whether bytes begin with a search or the answer to one.
pub(super) fn is_of_search(bytes: &[u8]) -> bool {
    matches!(bytes, [MAGIC, _, flags, SEARCH | SEARCH_RESPONSE, ..] if flags & 1 == 0)
}

/// Reads the messages at the front of sent bytes that are searches.
pub(super) fn sent(bytes: &[u8]) {
    for_each_message(bytes, |command, mut message| {
        if command != SEARCH {
            return;
        }
        // Fails when the thread ends.
        let _ = SEARCHED.try_with(|searched| {
            if let Ok(mut searched) = searched.try_borrow_mut() {
                let _ = read_search(&mut message, |id, name| {
                    if searched.len() >= MOST_SEARCHED {
                        *searched = HashMap::new();
                    }
                    searched.insert(id, hash(name));
                });
            }
        });
    });
}

/// Reads the messages at the front of received bytes that are answers to searches. `sender` is the
/// address that they came from.
pub(super) fn received(bytes: &[u8], sender: impl Fn() -> Option<SocketAddr>) {
    for_each_message(bytes, |command, mut message| {
        if command != SEARCH_RESPONSE {
            return;
        }
        let Some((server, ids)) = read_answer(&mut message, &sender) else {
            return;
        };
        let names: Vec<_> = SEARCHED
            .try_with(|searched| {
                let searched = searched.try_borrow().ok()?;
                Some(ids.filter_map(|id| searched.get(&id).copied()).collect())
            })
            .ok()
            .flatten()
            .unwrap_or_default();
        let (now, mut answers) = (Instant::now(), answers());
        if answers.len() + names.len() > MOST_ANSWERED {
            *answers = HashMap::new();
        }
        answers.extend(names.into_iter().map(|name| (name, (server, now))));
    });
}

/// The payload of a message, which is read from the front.
struct Message<'a> {
    rest: &'a [u8],
    is_big_endian: bool,
}

impl<'a> Message<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.array()?;
        Some(match self.is_big_endian {
            true => u16::from_be_bytes(bytes),
            false => u16::from_le_bytes(bytes),
        })
    }

    fn u32(&mut self) -> Option<u32> {
        let bytes = self.array()?;
        Some(match self.is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let count = match self.byte()? {
            0xff => 0,
            0xfe => self.u32()? as usize,
            count => usize::from(count),
        };
        self.take(count)
    }
}

fn for_each_message(mut bytes: &[u8], mut call: impl FnMut(u8, Message<'_>)) {
    while is_of_search(bytes) {
        let (is_big_endian, command) = (bytes[2] & 0x80 != 0, bytes[3]);
        let mut message = Message {
            rest: &bytes[4..],
            is_big_endian,
        };
        let Some(size) = message.u32() else { return };
        let Some(payload) = message.take(size as usize) else {
            return;
        };
        bytes = message.rest;
        call(
            command,
            Message {
                rest: payload,
                is_big_endian,
            },
        );
    }
}

/// Calls with the number and the name of each searched PV.
fn read_search<'a>(message: &mut Message<'a>, mut call: impl FnMut(u32, &'a [u8])) -> Option<()> {
    // Sequence, flags, reserved bytes, address and port.
    message.take(4 + 1 + 3 + 16 + 2)?;
    for _ in 0..message.byte()? {
        message.text()?;
    }
    for _ in 0..message.u16()? {
        let id = message.u32()?;
        call(id, message.text()?);
    }
    Some(())
}

/// The server and the numbers of the PVs that it has.
fn read_answer<'a>(
    message: &mut Message<'a>,
    sender: impl Fn() -> Option<SocketAddr>,
) -> Option<(SocketAddr, impl Iterator<Item = u32> + 'a)> {
    // The server's identifier and the sequence.
    message.take(12 + 4)?;
    let address = Ipv6Addr::from(message.array::<16>()?);
    let port = message.u16()?;
    message.text()?;
    let is_found = message.byte()? != 0;
    let ipv4 = address.to_ipv4_mapped().map(IpAddr::V4);
    let mut address = ipv4.unwrap_or(IpAddr::V6(address));
    if address.is_unspecified() {
        address = sender()?.ip().to_canonical();
    }
    let count = if is_found { message.u16()? } else { 0 };
    let mut ids = Message {
        rest: message.rest,
        is_big_endian: message.is_big_endian,
    };
    let ids = (0..count).map_while(move |_| ids.u32());
    Some((SocketAddr::new(address, port), ids))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(command: u8, is_big_endian: bool, payload: &[u8]) -> Vec<u8> {
        let size = payload.len() as u32;
        let (flag, size) = match is_big_endian {
            true => (0x80, size.to_be_bytes()),
            false => (0, size.to_le_bytes()),
        };
        [&[MAGIC, 2, flag, command][..], &size, payload].concat()
    }

    fn search(names: &[(u32, &str)]) -> Vec<u8> {
        let mut payload = [&[0; 26][..], b"\x01\x03tcp"].concat();
        payload.extend((names.len() as u16).to_be_bytes());
        for (id, name) in names {
            payload.extend(id.to_be_bytes());
            payload.push(name.len() as u8);
            payload.extend(name.as_bytes());
        }
        message(SEARCH, true, &payload)
    }

    fn answer(address: [u8; 4], is_found: bool, ids: &[u32]) -> Vec<u8> {
        let mut payload = vec![0; 12 + 4];
        let address: IpAddr = address.into();
        let IpAddr::V4(address) = address else {
            unreachable!()
        };
        let address = match address.is_unspecified() {
            true => Ipv6Addr::UNSPECIFIED,
            false => address.to_ipv6_mapped(),
        };
        payload.extend(address.octets());
        payload.extend(5075_u16.to_le_bytes());
        payload.extend(b"\x03tcp");
        payload.push(u8::from(is_found));
        payload.extend((ids.len() as u16).to_le_bytes());
        payload.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        message(SEARCH_RESPONSE, false, &payload)
    }

    #[test]
    fn answer_names_the_server_of_a_searched_name_until_it_is_connected() {
        let both = [
            search(&[(1, "reply:A"), (2, "reply:B")]),
            search(&[(3, "reply:C")]),
        ];
        sent(&both.concat());
        let answers = [
            answer([10, 0, 0, 1], true, &[1, 9]),
            answer([0; 4], true, &[3]),
            answer([10, 0, 0, 2], false, &[2]),
        ];
        received(&answers.concat(), || Some(([10, 0, 0, 3], 1).into()));
        assert_eq!(server_of("reply:A").as_deref(), Some("10.0.0.1:5075"));
        assert_eq!(server_of("reply:B"), None);
        assert_eq!(server_of("reply:C").as_deref(), Some("10.0.0.3:5075"));
        forget("reply:A");
        assert_eq!(server_of("reply:A"), None);
    }

    #[test]
    fn messages_that_are_cut_or_not_of_a_search_are_ignored() {
        let whole = search(&[(7, "reply:D")]);
        (0..whole.len()).for_each(|end| sent(&whole[..end]));
        let found = answer([10, 0, 0, 1], true, &[7]);
        received(&found, || None);
        assert_eq!(server_of("reply:D"), None);
        sent(&whole);
        (0..found.len()).for_each(|end| received(&found[..end], || None));
        received(&message(13, false, &found), || None);
        assert_eq!(server_of("reply:D"), None);
    }
}
