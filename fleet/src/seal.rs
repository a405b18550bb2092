//! Signatures of the messages between members: HMAC-SHA-256 with a key that all members of the site have. A program
//! without the key can speak neither for a member nor for a user.
//!
//! What is signed is the subject, the way back, the sender, the time and the content. The times of one sender only
//! grow, and a receiver takes none that is far from its own clock, nor an announcement from before it began: so a
//! message that was recorded can't be sent again. Messages with updates are not signed.

use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ring::hmac;

use crate::member::MemberId;
use crate::refusals::{Refusal, Refusals};

/// The clocks of two members may differ by this. A message is not taken when it is older.
pub const CLOCKS_WITHIN: Duration = Duration::from_secs(30);

/// An announcement of up to this time before the receiver began is taken, because clocks differ.
const BEFORE_BEGIN: Duration = Duration::from_secs(2);

/// Shortest key: 32 bytes as base64.
const MIN_KEY_CHARACTERS: usize = 43;

/// A random key has more different characters than this.
const MIN_DIFFERENT: usize = 8;

/// Keys at a time: a change needs two.
const MAX_KEYS: usize = 4;

/// Senders whose last time is remembered before old ones are removed.
const MANY_SENDERS: usize = 1024;

/// Begins what is signed, so that a signature means nothing elsewhere.
const PURPOSE: &str = "pvwire bus 1";

/// The keys of a site. The first signs; all are accepted.
#[derive(Clone)]
pub struct Keys(Arc<[hmac::Key]>);

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} keys", self.0.len())
    }
}

/// Why a text has no keys.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// It has no line with a key.
    #[error("no key: expected a line as `openssl rand -base64 32` writes it")]
    Empty,
    /// It has more keys than a change needs.
    #[error("{0} keys, expected at most {MAX_KEYS}, one a line")]
    TooMany(usize),
    /// A key is too short, or not random.
    #[error(
        "line {line}: expected at least 32 random bytes as text, as `openssl rand -base64 32` writes them"
    )]
    Weak {
        /// The line, from 1.
        line: usize,
    },
}

impl FromStr for Keys {
    type Err = KeysError;

    /// Reads one key a line. Empty lines and lines that begin with `#` are left out.
    fn from_str(text: &str) -> Result<Self, KeysError> {
        let lines = (1..).zip(text.lines().map(str::trim));
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let key = |(number, line): (usize, &str)| {
            let mut different: Vec<u8> = line.bytes().collect();
            different.sort_unstable();
            different.dedup();
            let is_random = line.len() >= MIN_KEY_CHARACTERS && different.len() >= MIN_DIFFERENT;
            if !is_random || !line.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(KeysError::Weak { line: number });
            }
            Ok(hmac::Key::new(hmac::HMAC_SHA256, line.as_bytes()))
        };
        let keys: Arc<[_]> = lines.map(key).collect::<Result<_, _>>()?;
        match keys.len() {
            0 => Err(KeysError::Empty),
            1..=MAX_KEYS => Ok(Self(keys)),
            many => Err(KeysError::TooMany(many)),
        }
    }
}

/// What a message is for. Messages of one sender and way arrive in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// It announces its sender.
    Announcement,
    /// It asks for something.
    Request,
    /// It answers a request.
    Answer,
}

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Where it is sent.
    pub subject: &'a str,
    /// Where the answer goes; empty for none.
    pub reply: &'a str,
    /// Which piece of a message it is; empty for a whole message.
    pub piece: &'a str,
    /// The bytes.
    pub body: &'a [u8],
}

/// Signs what a member sends, and checks what it receives.
#[derive(Debug)]
pub struct Seals {
    keys: RwLock<Option<Keys>>,
    /// When this receiver began, in microseconds past the POSIX epoch: it doesn't know what was sent before.
    began: u64,
    /// The time of the last signature, in microseconds past the POSIX epoch.
    last: Mutex<u64>,
    /// The newest time of each sender.
    heard: Mutex<HashMap<(MemberId, Way), u64>>,
    refusals: Arc<Refusals>,
}

impl Seals {
    /// Without keys nothing is signed, and everything is taken.
    pub fn new(keys: Option<Keys>, refusals: Arc<Refusals>) -> Self {
        Self {
            keys: RwLock::new(keys),
            began: micros(SystemTime::now()),
            last: Mutex::default(),
            heard: Mutex::default(),
            refusals,
        }
    }

    /// Puts other keys into effect.
    pub fn replace(&self, keys: Keys) {
        // Each change is complete before anything can panic; the same holds for the other locks.
        let mut place = self.keys.write().unwrap_or_else(PoisonError::into_inner);
        *place = Some(keys);
    }

    /// What is refused.
    pub fn refusals(&self) -> &Arc<Refusals> {
        &self.refusals
    }

    /// Whether messages must be signed.
    pub fn has_keys(&self) -> bool {
        self.keys().is_some()
    }

    fn keys(&self) -> Option<Keys> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.clone()
    }

    /// The signature of a message of `me`, if there is a key.
    pub fn sign(&self, me: MemberId, content: &Content<'_>) -> Option<String> {
        let keys = self.keys()?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = next_time(*last, micros(SystemTime::now()));
        let time = *last;
        drop(last);
        Some(write(&keys, me, time, content))
    }

    /// Checks the signature of a message of `from`, which is `None` where any member may send it.
    ///
    /// # Errors
    ///
    /// Why the message must not be used.
    pub fn check(
        &self,
        way: Way,
        from: Option<MemberId>,
        signature: Option<&str>,
        content: &Content<'_>,
    ) -> Result<(), Refusal> {
        self.check_at(SystemTime::now(), way, from, signature, content)
    }

    fn check_at(
        &self,
        now: SystemTime,
        way: Way,
        from: Option<MemberId>,
        signature: Option<&str>,
        content: &Content<'_>,
    ) -> Result<(), Refusal> {
        let Some(keys) = self.keys() else {
            return Ok(());
        };
        let signature = signature.ok_or(Refusal::Unsigned)?;
        let (sender, time, tag) = parse(signature).ok_or(Refusal::Signature)?;
        if from.is_some_and(|from| from != sender) {
            return Err(Refusal::Signature);
        }
        let signed = signed(sender, time, content);
        let is_signed = |key: &hmac::Key| hmac::verify(key, &signed, &tag).is_ok();
        if !keys.0.iter().any(is_signed) {
            return Err(Refusal::Signature);
        }
        let (now, within) = (micros(now), CLOCKS_WITHIN.as_micros() as u64);
        if time.abs_diff(now) > within {
            return Err(Refusal::Clock);
        }
        // Its sender may be gone by now. Requests and answers name this receiver, which has a new id in each run.
        let was_before = time + (BEFORE_BEGIN.as_micros() as u64) < self.began;
        // Not after this machine's clock was set back.
        if way == Way::Announcement && was_before && now >= self.began {
            return Err(Refusal::Clock);
        }
        let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let before = heard.get(&(sender, way)).copied();
        // A time from before this machine's clock was set back counts for nothing.
        if before.is_some_and(|before| before >= time && before <= now + within) {
            return Err(Refusal::Repeated);
        }
        if heard.len() >= MANY_SENDERS {
            // What these have sent is too old by now.
            heard.retain(|_, last| last.abs_diff(now) <= within);
        }
        heard.insert((sender, way), time);
        Ok(())
    }
}

/// The time of the next signature. It follows the clock, and goes back only with a clock that was far ahead.
fn next_time(last: u64, now: u64) -> u64 {
    if last.saturating_sub(now) > CLOCKS_WITHIN.as_micros() as u64 {
        return now;
    }
    now.max(last + 1)
}

fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64
}

/// Writes a signature.
fn write(keys: &Keys, me: MemberId, time: u64, content: &Content<'_>) -> String {
    let tag = hmac::sign(&keys.0[0], &signed(me, time, content));
    let digits = tag.as_ref().iter().map(|byte| format!("{byte:02x}"));
    format!("{me} {time} {}", digits.collect::<String>())
}

/// Sender, time and tag of a signature.
fn parse(signature: &str) -> Option<(MemberId, u64, Vec<u8>)> {
    let mut parts = signature.split(' ');
    let sender = parts.next()?.parse().ok()?;
    let time = parts.next()?.parse().ok()?;
    let hex = parts.next().filter(|hex| hex.is_ascii())?;
    let byte = |at: usize| {
        let digits = hex.get(at..at + 2)?;
        u8::from_str_radix(digits, 16).ok()
    };
    let tag: Option<Vec<u8>> = (0..hex.len()).step_by(2).map(byte).collect();
    parts.next().is_none().then_some((sender, time, tag?))
}

/// The bytes that are signed. Each text comes after its length, so that no two contents have the same.
fn signed(sender: MemberId, time: u64, content: &Content<'_>) -> Vec<u8> {
    let sender = sender.to_string();
    let texts = [
        PURPOSE,
        &sender,
        content.subject,
        content.reply,
        content.piece,
    ];
    let mut bytes = Vec::with_capacity(content.body.len() + 256);
    bytes.extend_from_slice(&time.to_le_bytes());
    for text in texts {
        bytes.extend_from_slice(&(text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes.extend_from_slice(content.body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "vJ3m0rYk6cP8hWn2tQ5xZs1bLf4dGa7eUiOoRyTwE9M=";
    const NEW: &str = "Qm9XbHd2R3pKc0Y0aFRnTnB1U2tEeElqVmVBckZ5Q3o=";

    const ME: MemberId = MemberId(7);

    fn seals(keys: &str) -> Seals {
        Seals::new(Some(keys.parse().unwrap()), Arc::default())
    }

    fn content(body: &[u8]) -> Content<'_> {
        Content {
            subject: "pvwire.default.members",
            reply: "",
            piece: "",
            body,
        }
    }

    fn check(seals: &Seals, signature: Option<&str>, content: &Content<'_>) -> Result<(), Refusal> {
        seals.check(Way::Announcement, Some(ME), signature, content)
    }

    #[test]
    fn message_of_a_member_with_the_key_is_taken_once() {
        let (sender, receiver) = (seals(OLD), seals(OLD));
        let first = sender.sign(ME, &content(b"one")).unwrap();
        let second = sender.sign(ME, &content(b"two")).unwrap();
        let (first, second) = (Some(first.as_str()), Some(second.as_str()));
        assert_eq!(check(&receiver, first, &content(b"one")), Ok(()));
        let repeated = Err(Refusal::Repeated);
        assert_eq!(check(&receiver, first, &content(b"one")), repeated);
        assert_eq!(check(&receiver, second, &content(b"two")), Ok(()));
        assert_eq!(check(&receiver, first, &content(b"one")), repeated);
        // Each direction has a separate order.
        let answer = receiver.check(Way::Answer, Some(ME), first, &content(b"one"));
        assert_eq!(answer, Ok(()));
    }

    #[test]
    fn signature_is_as_the_protocol_says() {
        let content = Content {
            subject: "pvwire.a.b",
            reply: "pvwire.a.c",
            piece: "1/0/2",
            body: b"put",
        };
        let signature = write(&OLD.parse().unwrap(), ME, 1_700_000_000_000_000, &content);
        let tag = "95680ba45dc609871dcf9a0784faddf43e6c928006a0b644db9edf18e35f551d";
        assert_eq!(
            signature,
            format!("0000000000000007 1700000000000000 {tag}")
        );
    }

    #[test]
    fn nothing_of_a_signed_message_can_be_changed() {
        let (sender, receiver) = (seals(OLD), seals(OLD));
        let whole = Content {
            subject: "pvwire.a.b",
            reply: "pvwire.a.c",
            piece: "1/0/2",
            body: b"put",
        };
        let signature = sender.sign(ME, &whole).unwrap();
        let check = |signature: &str, content: &Content<'_>| {
            receiver.check(Way::Request, Some(ME), Some(signature), content)
        };
        let changed = [
            Content {
                subject: "pvwire.a.bp",
                ..whole
            },
            Content {
                reply: "pvwire.a.d",
                ..whole
            },
            Content {
                piece: "1/1/2",
                ..whole
            },
            Content {
                body: b"puT",
                ..whole
            },
            Content {
                subject: "pvwire.a.bpvwire.a.c",
                reply: "",
                ..whole
            },
        ];
        for content in changed {
            assert_eq!(check(&signature, &content), Err(Refusal::Signature));
        }
        let (sender_id, rest) = signature.split_once(' ').unwrap();
        let (time, tag) = rest.split_once(' ').unwrap();
        let time: u64 = time.parse().unwrap();
        let damaged = [
            format!("{sender_id} {} {tag}", time + 1),
            format!("0000000000000008 {time} {tag}"),
            format!("{sender_id} {time} {}", &tag[2..]),
            format!("{sender_id} {time} {tag} "),
            format!("{sender_id} {time}"),
            "é é é".to_owned(),
            String::new(),
        ];
        for damaged in damaged {
            assert_eq!(
                check(&damaged, &whole),
                Err(Refusal::Signature),
                "{damaged}"
            );
        }
        assert_eq!(check(&signature, &whole), Ok(()));
        let unsigned = receiver.check(Way::Request, Some(ME), None, &whole);
        assert_eq!(unsigned, Err(Refusal::Unsigned));
    }

    #[test]
    fn old_message_is_refused_by_a_receiver_that_never_heard_it() {
        let signature = seals(OLD).sign(ME, &content(b"here")).unwrap();
        let at = |after: Duration| {
            let now = SystemTime::now() + after;
            let way = Way::Announcement;
            seals(OLD).check_at(now, way, Some(ME), Some(&signature), &content(b"here"))
        };
        assert_eq!(at(CLOCKS_WITHIN - Duration::from_secs(5)), Ok(()));
        assert_eq!(
            at(CLOCKS_WITHIN + Duration::from_secs(1)),
            Err(Refusal::Clock)
        );
    }

    #[test]
    fn relay_that_has_just_begun_believes_no_announcement_from_before() {
        let (keys, receiver) = (OLD.parse().unwrap(), seals(OLD));
        let check = |way: Way, before: u64, now: u64| {
            let time = receiver.began - before * 1_000_000;
            let signature = write(&keys, MemberId(before), time, &content(b"x"));
            let now = UNIX_EPOCH + Duration::from_micros(receiver.began + now * 1_000_000);
            receiver.check_at(now, way, None, Some(&signature), &content(b"x"))
        };
        assert_eq!(check(Way::Announcement, 3, 0), Err(Refusal::Clock));
        assert_eq!(check(Way::Announcement, 3, 20), Err(Refusal::Clock));
        assert_eq!(check(Way::Announcement, 1, 0), Ok(()));
        assert_eq!(check(Way::Request, 4, 0), Ok(()));
        let receiver_set_back = receiver.began - 10_000_000;
        let now = UNIX_EPOCH + Duration::from_micros(receiver_set_back);
        let signature = write(&keys, ME, receiver_set_back, &content(b"x"));
        let way = Way::Announcement;
        let taken = receiver.check_at(now, way, Some(ME), Some(&signature), &content(b"x"));
        assert_eq!(taken, Ok(()));
    }

    #[test]
    fn clock_that_is_set_back_leaves_a_member_heard() {
        let far = CLOCKS_WITHIN.as_micros() as u64 + 1;
        assert_eq!(next_time(1000, 2000), 2000);
        assert_eq!(next_time(2000, 1000), 2001);
        assert_eq!(next_time(1000 + far, 1000), 1000);
    }

    #[test]
    fn keys_change_while_members_have_the_old_or_both() {
        let (old, both, new) = (
            seals(OLD),
            seals(&format!("# from May on\n{NEW}\n\n{OLD}\n")),
            seals(NEW),
        );
        let passes = |from: &Seals, to: &Seals| {
            let signature = from.sign(ME, &content(b"x")).unwrap();
            check(to, Some(&signature), &content(b"x"))
        };
        assert_eq!(passes(&old, &both), Ok(()));
        assert_eq!(passes(&both, &new), Ok(()));
        assert_eq!(passes(&both, &old), Err(Refusal::Signature));
        old.replace(format!("{OLD}\n{NEW}").parse().unwrap());
        assert_eq!(passes(&both, &old), Ok(()));
        assert_eq!(passes(&new, &both), Ok(()));
    }

    #[test]
    fn member_without_a_key_signs_nothing_and_takes_everything() {
        let none = Seals::new(None, Arc::default());
        assert_eq!(none.sign(ME, &content(b"x")), None);
        assert_eq!(check(&none, None, &content(b"x")), Ok(()));
        let signature = seals(OLD).sign(ME, &content(b"x"));
        assert_eq!(check(&none, signature.as_deref(), &content(b"x")), Ok(()));
    }

    #[test]
    fn short_or_simple_key_is_refused_by_its_line() {
        let error = |text: &str| text.parse::<Keys>().unwrap_err();
        assert_eq!(error("\n# none\n"), KeysError::Empty);
        for weak in ["secret", &OLD[..42], &"ab".repeat(40), &format!("{OLD} x")] {
            assert_eq!(
                error(&format!("{OLD}\n{weak}\n")),
                KeysError::Weak { line: 2 }
            );
        }
        assert_eq!(error(&format!("{OLD}\n").repeat(5)), KeysError::TooMany(5));
        let hex = "0123456789abcdef".repeat(4);
        assert!(hex.parse::<Keys>().is_ok());
    }

    #[test]
    fn senders_that_are_gone_are_forgotten() {
        let (key, receiver) = (OLD.parse::<Keys>().unwrap(), seals(OLD));
        let now = SystemTime::now();
        let take = |id: u64, at: SystemTime| {
            let (id, time) = (MemberId(id), micros(at));
            let signature = write(&key, id, time, &content(b"x"));
            let way = Way::Announcement;
            let taken = receiver.check_at(at, way, Some(id), Some(&signature), &content(b"x"));
            assert_eq!(taken, Ok(()));
            receiver.heard.lock().unwrap().len()
        };
        for id in 1..=MANY_SENDERS {
            assert_eq!(take(id as u64, now), id);
        }
        assert_eq!(take(0, now + 2 * CLOCKS_WITHIN), 1);
    }
}
