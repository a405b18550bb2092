//! The protocol state of one client's socket: its names, the changes to its subscriptions that the relay has
//! still to make, and its open puts.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::mem;

use pvwire_schema::limits::MAX_NAME_BYTES;
use pvwire_schema::types::{PutValue, PvId};

use crate::json;
use crate::message::{Message, Written, read};
use crate::name::{Dialect, Target, target};

/// Maximum bytes of all names of one socket together.
const MAX_NAMES_BYTES: usize = 4 << 20;

/// Settings that all sockets share.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Source of names without a prefix.
    pub default: Dialect,
    /// Whether clients may write what the relay's rules allow.
    pub writes: bool,
    /// Maximum number of subscribed names of one socket.
    pub max_names: usize,
}

/// An action that a message asks for at once.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// Send this text.
    Text(Vec<u8>),
    /// Send the message back.
    Echo,
    /// Send a WebSocket ping.
    Ping,
    /// Write a PV; `Socket::put_done` and `Socket::put_failed` take the number.
    Put {
        /// Number of the put.
        number: u32,
        /// The relay's name of the PV.
        name: String,
        /// The value.
        value: PutValue,
    },
}

/// A name to be subscribed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// As the client wrote it.
    pub spelling: String,
    /// The PV.
    pub target: Target,
}

/// A subscribed name.
#[derive(Debug)]
struct Held {
    /// `None` when this door has no such source.
    target: Option<Target>,
    /// Set when the relay has accepted the subscription.
    pv: Option<PvId>,
    is_writable: bool,
    /// Whether it is in `wanted`.
    is_wanted: bool,
}

/// The state of one socket.
#[derive(Debug)]
pub struct Socket {
    settings: Settings,
    pvs: BTreeMap<String, Held>,
    /// Bytes of the names in `pvs`.
    bytes: usize,
    wanted: VecDeque<String>,
    cleared: Vec<PvId>,
    /// Names of the PVs whose puts are not answered, by the number of the put.
    puts: HashMap<u32, String>,
    last_put: u32,
}

impl Socket {
    /// A socket without names.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pvs: BTreeMap::new(),
            bytes: 0,
            wanted: VecDeque::new(),
            cleared: Vec::new(),
            puts: HashMap::new(),
            last_put: 0,
        }
    }

    /// Reads and takes a client's message.
    pub fn take(&mut self, text: &str) -> Option<Reply> {
        self.take_read(read(text))
    }

    /// Takes a client's message that was read already.
    pub fn take_read(&mut self, message: Message) -> Option<Reply> {
        match message {
            Message::Subscribe(names) => return self.subscribe(names),
            Message::Clear(names) => self.clear(&names),
            Message::List => return Some(Reply::Text(self.list())),
            Message::Write { pv, value } => return Some(self.write(pv, value)),
            Message::Ping => return Some(Reply::Ping),
            Message::Echo => return Some(Reply::Echo),
            Message::Unknown => {}
        }
        None
    }

    fn subscribe(&mut self, mut names: Vec<String>) -> Option<Reply> {
        // Some may be subscribed already, but not more than a client may have.
        let most_useful = 2 * self.settings.max_names;
        let mut left_out = names.len().saturating_sub(most_useful);
        names.truncate(most_useful);
        for name in names {
            // No PV has a longer name, and PVWS doesn't answer names that it can't serve.
            if self.pvs.contains_key(&name) || name.len() > MAX_NAME_BYTES {
                continue;
            }
            if self.pvs.len() >= self.settings.max_names
                || self.bytes + name.len() > MAX_NAMES_BYTES
            {
                left_out += 1;
                continue;
            }
            let target = target(&name, self.settings.default);
            let is_wanted = target.is_some();
            if is_wanted {
                self.wanted.push_back(name.clone());
            }
            let held = Held {
                target,
                pv: None,
                is_writable: false,
                is_wanted,
            };
            self.bytes += name.len();
            self.pvs.insert(name, held);
        }
        let most = self.settings.max_names;
        (left_out > 0).then(|| {
            let message = format!(
                "{left_out} PVs are left out: a client may subscribe {most} (max_subscriptions), with \
                 {MAX_NAMES_BYTES} bytes of names"
            );
            Reply::Text(error(&message))
        })
    }

    fn clear(&mut self, names: &[String]) {
        for name in names {
            if let Some(held) = self.pvs.remove(name) {
                self.bytes -= name.len();
                self.cleared.extend(held.pv);
            }
        }
    }

    fn list(&self) -> Vec<u8> {
        let mut text = br#"{"type":"list","pvs":["#.to_vec();
        for (index, name) in self.pvs.keys().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            json::string(&mut text, name);
        }
        text.extend_from_slice(b"]}");
        text
    }

    /// The subscribed names, with the PV if this door serves it, and its number once the relay has accepted it.
    pub fn held(&self) -> impl Iterator<Item = (&str, Option<&Target>, Option<PvId>)> {
        let pvs = self.pvs.iter();
        pvs.map(|(name, held)| (&**name, held.target.as_ref(), held.pv))
    }

    fn write(&mut self, pv: String, value: Written) -> Reply {
        let refused = |message: &str| Reply::Text(error(message));
        let Some(held) = self.pvs.get(&pv) else {
            return refused(&format!("Cannot write unknown PV {pv}"));
        };
        if !self.settings.writes {
            return refused("PV_WRITE_SUPPORT is disabled");
        }
        let Some(target) = &held.target else {
            return refused(&format!(
                "Cannot write {pv}: this server has no such PV type"
            ));
        };
        let value = match value {
            Written::Value(value) => value,
            Written::Mixed => {
                return refused(&format!(
                    "Cannot write {pv}: a list must hold numbers only or strings only, and an object can't be written"
                ));
            }
            Written::TooLarge => {
                return refused(&format!(
                    "Cannot write {pv}: a number is too large for a 64-bit float"
                ));
            }
        };
        let name = target.name.clone();
        self.last_put = self.last_put.wrapping_add(1);
        self.puts.insert(self.last_put, pv);
        Reply::Put {
            number: self.last_put,
            name,
            value,
        }
    }

    /// A put has ended.
    pub fn put_done(&mut self, number: u32) {
        self.puts.remove(&number);
    }

    /// A put has failed; returns the text that tells the client.
    pub fn put_failed(&mut self, number: u32, why: &str) -> Vec<u8> {
        let name = self.puts.remove(&number).unwrap_or_default();
        error(&format!("Cannot write {name}: {why}"))
    }

    /// Whether a subscription has to begin or end.
    #[must_use]
    pub fn has_changes(&self) -> bool {
        !self.cleared.is_empty() || !self.wanted.is_empty()
    }

    /// Takes the subscriptions that end.
    pub fn cleared(&mut self) -> Vec<PvId> {
        mem::take(&mut self.cleared)
    }

    /// Takes the next names to subscribe, at most `most`.
    pub fn wanted(&mut self, most: usize) -> Vec<Wanted> {
        let mut wanted = Vec::new();
        while wanted.len() < most
            && let Some(spelling) = self.wanted.pop_front()
        {
            // The client may have cleared it since, and subscribed it again.
            if let Some(held) = self.pvs.get_mut(&spelling)
                && mem::take(&mut held.is_wanted)
                && let Some(target) = held.target.clone()
            {
                wanted.push(Wanted { spelling, target });
            }
        }
        wanted
    }

    /// The relay has accepted the subscription of a name.
    pub fn accepted(&mut self, spelling: &str, pv: PvId, is_writable: bool) {
        if let Some(held) = self.pvs.get_mut(spelling) {
            (held.pv, held.is_writable) = (Some(pv), is_writable);
        }
    }

    /// The relay refuses a name, which the client may subscribe again; returns the text that tells the client
    /// why.
    #[must_use]
    pub fn refused(&mut self, spelling: &str, why: &str) -> Vec<u8> {
        // The client may have cleared it since, and subscribed it again.
        if self.pvs.get(spelling).is_some_and(|held| !held.is_wanted) {
            self.pvs.remove(spelling);
            self.bytes -= spelling.len();
        }
        error(&format!("Cannot subscribe {spelling}: {why}"))
    }

    /// The text that counts further refused names.
    #[must_use]
    pub fn more_refused(count: usize) -> Vec<u8> {
        error(&format!(
            "Cannot subscribe {count} more PVs, for the same reasons"
        ))
    }

    /// The rules have changed: subscribes those PVs again for which the right to write has changed.
    pub fn rights_changed(&mut self, may_write: impl Fn(&Target) -> bool) {
        for (spelling, held) in &mut self.pvs {
            let Some(target) = &held.target else {
                continue;
            };
            if let Some(pv) = held.pv
                && may_write(target) != held.is_writable
            {
                self.cleared.push(pv);
                self.wanted.push_back(spelling.clone());
                (held.pv, held.is_wanted) = (None, true);
            }
        }
    }
}

fn error(message: &str) -> Vec<u8> {
    let mut text = br#"{"type":"error","message":"#.to_vec();
    json::string(&mut text, message);
    text.push(b'}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket() -> Socket {
        Socket::new(Settings {
            default: Dialect::Ca,
            writes: true,
            max_names: 4,
        })
    }

    fn text(reply: Option<Reply>) -> String {
        match reply {
            Some(Reply::Text(text)) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    fn wanted(socket: &mut Socket) -> Vec<String> {
        let wanted = socket.wanted(100).into_iter();
        wanted.map(|wanted| wanted.spelling).collect()
    }

    #[test]
    fn name_is_subscribed_once_and_each_spelling_for_itself() {
        let mut socket = socket();
        let subscribe = r#"{"type":"subscribe","pvs":["X","ca://X","X","nosuch://X"]}"#;
        assert_eq!(socket.take(subscribe), None);
        assert_eq!(wanted(&mut socket), ["X", "ca://X"]);
        assert_eq!(socket.take(subscribe), None);
        assert!(!socket.has_changes());
        let list = text(socket.take(r#"{"type":"list"}"#));
        assert_eq!(list, r#"{"type":"list","pvs":["X","ca://X","nosuch://X"]}"#);
    }

    #[test]
    fn cleared_name_can_be_subscribed_again() {
        let mut socket = socket();
        socket.take(r#"{"type":"subscribe","pvs":["X"]}"#);
        assert_eq!(wanted(&mut socket), ["X"]);
        socket.accepted("X", PvId(3), true);
        socket.take(r#"{"type":"clear","pvs":["Y","X"]}"#);
        socket.take(r#"{"type":"subscribe","pvs":["X"]}"#);
        assert!(socket.has_changes());
        assert_eq!(socket.cleared(), [PvId(3)]);
        assert_eq!(wanted(&mut socket), ["X"]);
    }

    #[test]
    fn name_that_is_cleared_before_its_turn_is_not_subscribed() {
        let mut socket = socket();
        socket.take(r#"{"type":"subscribe","pvs":["X","Y"]}"#);
        socket.take(r#"{"type":"clear","pvs":["X"]}"#);
        socket.take(r#"{"type":"subscribe","pvs":["X"]}"#);
        assert_eq!(wanted(&mut socket), ["X", "Y"]);
        assert_eq!(socket.cleared(), []);
    }

    #[test]
    fn names_beyond_the_limit_are_left_out_and_counted() {
        let mut socket = socket();
        let told = text(socket.take(r#"{"type":"subscribe","pvs":["a","b","c","d","e","f"]}"#));
        let expected = "2 PVs are left out: a client may subscribe 4 (max_subscriptions)";
        assert!(told.contains(expected), "{told}");
    }

    #[test]
    fn names_are_bounded_in_bytes_alone_and_together() {
        let mut socket = socket();
        socket.settings.max_names = 10_000;
        let longest = "x".repeat(MAX_NAME_BYTES);
        let subscribe = |name: &str| format!(r#"{{"type":"subscribe","pvs":["{name}"]}}"#);
        assert_eq!(socket.take(&subscribe(&format!("{longest}x"))), None);
        assert!(!socket.has_changes());
        for n in 0..MAX_NAMES_BYTES / MAX_NAME_BYTES {
            let name = format!("{n:06}{}", &longest[6..]);
            assert_eq!(socket.take(&subscribe(&name)), None);
        }
        let told = text(socket.take(&subscribe("Y")));
        assert!(told.contains("1 PVs are left out"), "{told}");
        let clear = format!(r#"{{"type":"clear","pvs":["000000{}"]}}"#, &longest[6..]);
        socket.take(&clear);
        assert_eq!(socket.take(&subscribe("Y")), None);
    }

    #[test]
    fn refused_name_can_be_subscribed_again() {
        let mut socket = socket();
        let subscribe = r#"{"type":"subscribe","pvs":["X"]}"#;
        socket.take(subscribe);
        assert_eq!(wanted(&mut socket), ["X"]);
        let told = String::from_utf8(socket.refused("X", "too fast")).unwrap();
        assert!(told.contains("Cannot subscribe X: too fast"), "{told}");
        socket.take(subscribe);
        assert_eq!(wanted(&mut socket), ["X"]);
    }

    #[test]
    fn name_that_is_refused_after_it_was_accepted_is_forgotten() {
        let mut socket = socket();
        let subscribe = r#"{"type":"subscribe","pvs":["X"]}"#;
        socket.take(subscribe);
        wanted(&mut socket);
        socket.accepted("X", PvId(3), true);
        let _ = socket.refused("X", "too many");
        socket.take(r#"{"type":"clear","pvs":["X"]}"#);
        assert_eq!(socket.cleared(), []);
        // Cleared and subscribed again before the relay refuses it: the new request is carried out.
        socket.take(subscribe);
        wanted(&mut socket);
        socket.accepted("X", PvId(3), true);
        socket.take(r#"{"type":"clear","pvs":["X"]}"#);
        socket.take(subscribe);
        let _ = socket.refused("X", "too many");
        assert_eq!(wanted(&mut socket), ["X"]);
    }

    #[test]
    fn put_goes_to_a_subscribed_name_and_its_failure_names_the_pv() {
        let mut socket = socket();
        let put = r#"{"type":"write","pv":"X","value":5}"#;
        let unknown = r#"{"type":"error","message":"Cannot write unknown PV X"}"#;
        assert_eq!(text(socket.take(put)), unknown);
        socket.take(r#"{"type":"subscribe","pvs":["X","nosuch://X"]}"#);
        let (number, name, value) = (1, "ca://X".to_owned(), PutValue::Number(5.0));
        let expected = Reply::Put {
            number,
            name,
            value,
        };
        assert_eq!(socket.take(put), Some(expected));
        let failed = String::from_utf8(socket.put_failed(1, "no")).unwrap();
        assert_eq!(failed, r#"{"type":"error","message":"Cannot write X: no"}"#);
        for (pv, value) in [("X", r#"["a",5]"#), ("X", "{}"), ("nosuch://X", "5")] {
            let put = format!(r#"{{"type":"write","pv":"{pv}","value":{value}}}"#);
            assert!(text(socket.take(&put)).contains("Cannot write"), "{put}");
        }
        socket.settings.writes = false;
        let disabled = r#"{"type":"error","message":"PV_WRITE_SUPPORT is disabled"}"#;
        assert_eq!(text(socket.take(put)), disabled);
    }

    #[test]
    fn changed_right_to_write_subscribes_again() {
        let mut socket = socket();
        socket.take(r#"{"type":"subscribe","pvs":["X","Y"]}"#);
        wanted(&mut socket);
        socket.accepted("X", PvId(1), true);
        socket.accepted("Y", PvId(2), false);
        socket.rights_changed(|_| false);
        assert_eq!(socket.cleared(), [PvId(1)]);
        assert_eq!(wanted(&mut socket), ["X"]);
    }

    #[test]
    fn echo_and_ping_are_passed_on_and_the_rest_is_silence() {
        let mut socket = socket();
        assert_eq!(socket.take(r#"{"type": "echo"}"#), Some(Reply::Echo));
        assert_eq!(socket.take(r#"{"type":"ping"}"#), Some(Reply::Ping));
        for silent in [
            "{}",
            "[]",
            "x",
            r#"{"type":"subscribe"}"#,
            r#"{"type":"x"}"#,
        ] {
            assert_eq!(socket.take(silent), None, "{silent}");
        }
    }
}
