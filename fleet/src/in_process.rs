//! The bus in one process, on simulated time: members can be cut off, delayed and lose messages. Only for tests.

mod hub;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;

pub use hub::Hub;

use crate::bus::{Answer, Bus, Kind};
use crate::member::MemberId;

/// One member's connection to a [`Hub`].
pub struct InProcess {
    hub: Arc<Hub>,
    me: Mutex<MemberId>,
}

impl InProcess {
    fn me(&self) -> MemberId {
        *self.me.lock().expect("no holder of the lock panics")
    }
}

impl Bus for InProcess {
    fn announce(&self, presence: Bytes) {
        self.hub.announce(self.me(), &presence);
    }

    fn ask(&self, to: MemberId, kind: Kind, body: Bytes, timeout: Duration, answer: Answer) {
        self.hub.ask(self.me(), to, (kind, body), timeout, answer);
    }

    fn publish(&self, shard: u16, message: &[Bytes]) -> bool {
        self.hub.publish(self.me(), shard, message)
    }

    fn follow(&self, owner: MemberId, shard: u16, on: bool) {
        self.hub.follow(self.me(), owner, shard, on);
    }

    fn rename(&self, me: MemberId) {
        let mut place = self.me.lock().expect("no holder of the lock panics");
        self.hub.rename(*place, me);
        *place = me;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use bytes::Bytes;

    use super::{Hub, InProcess};
    use crate::bus::{AskError, Bus, Kind, Receiver, Reply};
    use crate::member::MemberId;

    const A: MemberId = MemberId(1);
    const B: MemberId = MemberId(2);
    const SECOND: Duration = Duration::from_secs(1);

    /// Records its events, and answers requests with their own body unless it is silent.
    #[derive(Default)]
    struct Notes {
        lines: Mutex<Vec<String>>,
        silent: bool,
    }

    impl Notes {
        fn add(&self, line: String) {
            self.lines.lock().unwrap().push(line);
        }

        fn take(&self) -> Vec<String> {
            std::mem::take(&mut self.lines.lock().unwrap())
        }
    }

    impl Receiver for Notes {
        fn announced(&self, presence: Bytes) {
            self.add(format!("announced {presence:?}"));
        }

        fn requested(&self, from: MemberId, kind: Kind, body: Bytes, reply: Reply) {
            self.add(format!("requested {} {kind:?} {body:?}", from.0));
            if !self.silent {
                reply.send(body);
            }
        }

        fn message(&self, owner: MemberId, shard: u16, message: Bytes) {
            self.add(format!("message {} {shard} {message:?}", owner.0));
        }

        fn connected(&self, up: bool) {
            self.add(format!("connected {up}"));
        }

        fn lost(&self) {
            self.add("lost".to_owned());
        }
    }

    struct Two {
        hub: Arc<Hub>,
        notes: [Arc<Notes>; 2],
        a: InProcess,
        b: InProcess,
    }

    fn two(silent: bool) -> Two {
        let hub = Hub::new();
        let quiet = Notes {
            silent,
            ..Notes::default()
        };
        let notes = [Arc::new(Notes::default()), Arc::new(quiet)];
        let a = hub.join(A, Arc::clone(&notes[0]) as Arc<dyn Receiver>);
        let b = hub.join(B, Arc::clone(&notes[1]) as Arc<dyn Receiver>);
        hub.advance(Duration::ZERO);
        assert_eq!(notes[0].take(), ["connected true"]);
        assert_eq!(notes[1].take(), ["connected true"]);
        Two { hub, notes, a, b }
    }

    /// Asks B, and returns what will hold the outcome.
    fn ask(two: &Two) -> Arc<Mutex<Vec<Result<Bytes, AskError>>>> {
        let outcome = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&outcome);
        let answer = Box::new(move |result| kept.lock().unwrap().push(result));
        two.a.ask(
            B,
            Kind::Operation,
            Bytes::from_static(b"put"),
            SECOND,
            answer,
        );
        outcome
    }

    #[test]
    fn announcement_reaches_all_the_sender_included() {
        let two = two(false);
        two.a.announce(Bytes::from_static(b"a"));
        two.hub.advance(Duration::ZERO);
        assert_eq!(two.notes[0].take(), ["announced b\"a\""]);
        assert_eq!(two.notes[1].take(), ["announced b\"a\""]);
    }

    #[test]
    fn request_has_exactly_one_answer_whatever_happens() {
        let there = two(false);
        let outcome = ask(&there);
        there.hub.advance(2 * SECOND);
        assert_eq!(*outcome.lock().unwrap(), [Ok(Bytes::from_static(b"put"))]);

        let silent = two(true);
        let outcome = ask(&silent);
        silent.hub.advance(2 * SECOND);
        assert_eq!(*outcome.lock().unwrap(), [Err(AskError::TimedOut)]);

        let outcome = ask(&silent);
        silent.hub.connect(A, false);
        silent.hub.advance(2 * SECOND);
        assert_eq!(*outcome.lock().unwrap(), [Err(AskError::Broken)]);

        let outcome = ask(&silent);
        silent.hub.advance(2 * SECOND);
        assert_eq!(*outcome.lock().unwrap(), [Err(AskError::NotSent)]);

        silent.hub.connect(A, true);
        silent.hub.kill(B);
        let outcome = ask(&silent);
        silent.hub.advance(2 * SECOND);
        assert_eq!(*outcome.lock().unwrap(), [Err(AskError::NoMember)]);
    }

    #[test]
    fn message_reaches_those_who_follow_unless_it_is_lost() {
        let two = two(false);
        let publish = |text: &'static [u8]| two.b.publish(3, &[Bytes::from_static(text)]);
        assert!(publish(b"1"));
        two.a.follow(B, 3, true);
        two.hub.delay(B, A, SECOND);
        assert!(publish(b"2"));
        two.hub.advance(SECOND / 2);
        assert!(two.notes[0].take().is_empty());
        two.hub.advance(SECOND / 2);
        assert_eq!(two.notes[0].take(), ["message 2 3 b\"2\""]);
        two.hub.drop_next(B, A, 1);
        publish(b"3");
        publish(b"4");
        two.hub.cut(B, A, true);
        publish(b"5");
        two.hub.cut(B, A, false);
        two.hub.advance(SECOND);
        assert_eq!(two.notes[0].take(), ["message 2 3 b\"4\""]);
        two.hub.lose(A);
        two.a.follow(B, 3, false);
        publish(b"6");
        two.hub.connect(B, false);
        assert!(!publish(b"7"));
        two.hub.advance(SECOND);
        assert_eq!(two.notes[0].take(), ["lost"]);
    }
}
