//! Compares a client's bytes with bytes that were already found right.
//!
//! Clients of one set of PVs get the same frames. Each of them is decoded and checked once, with the
//! state that all of them are in; a client that gets the same bytes from the same state can't be
//! wrong in another way, so that comparing the bytes is the whole check. A client that gets
//! other bytes is decoded separately, with a separate state, until it is in step again.

use std::collections::VecDeque;

use pvwire_schema::decode::frame;
use pvwire_schema::types::FrameKind;

use crate::check::{BadStream, Counts, Seen, Stream};
use crate::latency::{Delays, Stamps};

/// Frames that are kept for clients that are further back, by number and by bytes; a client that is
/// still further is checked by itself.
const KEPT: usize = 256;
const KEPT_BYTES: usize = 256 << 20;

/// A frame that was checked.
struct Checked {
    payload: Vec<u8>,
    tick: u64,
    counts: Counts,
    stamps: Stamps,
}

/// The frames of one set of PVs.
#[derive(Default)]
pub(crate) struct Reference {
    /// Whether there is more than one client, so that it is worth while.
    shared: bool,
    states: Option<States>,
    kept: VecDeque<Checked>,
    /// Number of the first frame that is kept.
    first: u64,
    /// The last state that a client was given to leave with, and the frame that comes next: the others
    /// that leave mostly do so at the same place.
    left: Option<(u64, Stream)>,
}

struct States {
    /// Before the first frame that is kept.
    oldest: Stream,
    /// After the last one.
    newest: Stream,
}

/// Where a client is in its stream.
pub(crate) enum Follower {
    /// Checked by itself.
    Alone(Box<Stream>),
    /// The reference's frame of this number is the next one.
    InStep(u64),
}

/// A message as it came.
pub(crate) struct Arrived<'a> {
    pub(crate) payload: &'a [u8],
    /// Its length on the wire.
    pub(crate) length: usize,
    pub(crate) now_ns: i64,
}

impl Reference {
    pub(crate) fn new(clients: usize) -> Self {
        Self {
            shared: clients > 1,
            ..Self::default()
        }
    }

    fn end(&self) -> u64 {
        self.first + self.kept.len() as u64
    }

    /// Takes a message in; says what it was and what it adds to the client's counts.
    pub(crate) fn take(
        &mut self,
        follower: &mut Follower,
        message: &Arrived<'_>,
        delays: &mut Delays,
    ) -> Result<(Seen, Counts), BadStream> {
        self.join(follower);
        if let Follower::InStep(next) = follower {
            if let Some(checked) = self.kept.get((*next - self.first) as usize) {
                if checked.payload == message.payload {
                    *next += 1;
                    delays.add_all(message.now_ns, &checked.stamps);
                    return Ok((Seen::Data(checked.tick), checked.counts));
                }
            } else if is_shared(message.payload)? {
                let taken = self.check(message, delays)?;
                *next += 1;
                return Ok(taken);
            }
            self.leave(follower)?;
        }
        let Follower::Alone(stream) = follower else {
            unreachable!("it has just left");
        };
        let mut stamps = Stamps::default();
        let before = stream.counts;
        let seen = stream.take(message.payload, message.length, |time_ns| {
            stamps.add(time_ns);
        })?;
        let counts = stream.counts.since(&before);
        delays.add_all(message.now_ns, &stamps);
        self.join(follower);
        Ok((seen, counts))
    }

    /// Checks a frame that no client has received before, and keeps it.
    fn check(
        &mut self,
        message: &Arrived<'_>,
        delays: &mut Delays,
    ) -> Result<(Seen, Counts), BadStream> {
        let states = self.states.as_mut().expect("a client is in step");
        let mut stamps = Stamps::default();
        let before = states.newest.counts;
        let seen = (states.newest).take(message.payload, message.length, |time_ns| {
            stamps.add(time_ns);
        })?;
        let counts = states.newest.counts.since(&before);
        delays.add_all(message.now_ns, &stamps);
        self.kept.push_back(Checked {
            payload: message.payload.to_vec(),
            tick: states.newest.tick(),
            counts,
            stamps,
        });
        Ok((seen, counts))
    }

    /// A client whose state is that after the newest frame goes on with the others.
    fn join(&mut self, follower: &mut Follower) {
        let Follower::Alone(stream) = follower else {
            return;
        };
        if !self.shared || !stream.is_complete() {
            return;
        }
        let states = self.states.get_or_insert_with(|| States {
            oldest: stream.as_ref().clone(),
            newest: stream.as_ref().clone(),
        });
        if states.newest.is_where(stream) {
            *follower = Follower::InStep(self.end());
        }
    }

    /// Gives a client a separate state: the one after the frames that it got.
    fn leave(&mut self, follower: &mut Follower) -> Result<(), BadStream> {
        if let (Follower::InStep(next), Some(states)) = (&*follower, &self.states) {
            let left = self
                .left
                .take()
                .filter(|(at, _)| (self.first..=*next).contains(at));
            let (at, mut stream) = left.unwrap_or_else(|| (self.first, states.oldest.clone()));
            let passed = (at - self.first) as usize..(*next - self.first) as usize;
            for checked in self.kept.range(passed) {
                stream.take(&checked.payload, 0, |_| {})?;
            }
            self.left = Some((*next, stream.clone()));
            *follower = Follower::Alone(Box::new(stream));
        }
        Ok(())
    }

    /// Forgets the frames that every follower has got.
    pub(crate) fn tidy<'a>(
        &mut self,
        followers: impl Iterator<Item = &'a mut Follower>,
    ) -> Result<(), BadStream> {
        let mut bytes = 0;
        let affordable = self.kept.iter().rev().take_while(|checked| {
            bytes += checked.payload.len();
            bytes <= KEPT_BYTES
        });
        let oldest_wanted = self.end() - affordable.take(KEPT).count() as u64;
        let mut needed = self.end();
        for follower in followers {
            if let Follower::InStep(next) = follower {
                if *next < oldest_wanted {
                    self.leave(follower)?;
                } else {
                    needed = needed.min(*next);
                }
            }
        }
        let Some(states) = &mut self.states else {
            return Ok(());
        };
        while self.first < needed
            && let Some(checked) = self.kept.pop_front()
        {
            states.oldest.take(&checked.payload, 0, |_| {})?;
            self.first += 1;
        }
        Ok(())
    }
}

/// Whether others may be expected to get the same: not an answer, nor what a client that is behind
/// gets.
fn is_shared(payload: &[u8]) -> Result<bool, BadStream> {
    let view = frame(payload)?;
    Ok(view.kind() == FrameKind::Update && view.numbers_len() + view.blobs_len() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::tests::{at, message, plain, snapshot};

    struct Clients {
        reference: Reference,
        followers: Vec<Follower>,
        counts: Vec<Counts>,
        delays: Delays,
    }

    impl Clients {
        /// With a value of 7, which is update 3, at tick 1.
        fn new(count: usize) -> Self {
            Self {
                reference: Reference::new(count),
                followers: (0..count)
                    .map(|_| Follower::Alone(Box::new(snapshot())))
                    .collect(),
                counts: vec![Counts::default(); count],
                delays: Delays::default(),
            }
        }

        fn take(&mut self, client: usize, payload: &[u8]) {
            let message = Arrived {
                payload,
                length: payload.len(),
                now_ns: 0,
            };
            let follower = &mut self.followers[client];
            let taken = (self.reference).take(follower, &message, &mut self.delays);
            self.counts[client].add(&taken.unwrap().1);
        }

        fn are_in_step(&self) -> Vec<bool> {
            let in_step = |follower: &Follower| matches!(follower, Follower::InStep(_));
            self.followers.iter().map(in_step).collect()
        }

        fn tidy(&mut self) {
            self.reference.tidy(self.followers.iter_mut()).unwrap();
        }
    }

    fn update(tick: u64, value: f64) -> Vec<u8> {
        message(FrameKind::Update, tick, tick - 1, &[plain(value)])
    }

    #[test]
    fn same_bytes_count_for_everybody_as_if_each_had_been_checked() {
        let mut clients = Clients::new(3);
        let frames = [update(2, 8.0), update(3, 11.0), update(4, 11.0)];
        for frame in &frames {
            for client in 0..3 {
                clients.take(client, frame);
            }
        }
        let mut alone = snapshot();
        for frame in &frames {
            alone.take(frame, frame.len(), |_| {}).unwrap();
        }
        assert_eq!((alone.counts.missing, alone.counts.repeated), (2, 1));
        assert_eq!(clients.counts, [alone.counts; 3]);
        assert_eq!(clients.are_in_step(), [true; 3]);
    }

    #[test]
    fn client_that_misses_a_frame_is_found_and_no_other_is_blamed() {
        let mut clients = Clients::new(2);
        clients.take(0, &update(2, 8.0));
        clients.take(0, &update(3, 9.0));
        clients.take(1, &update(3, 9.0));
        assert_eq!((clients.counts[1].gaps, clients.counts[1].missing), (1, 1));
        assert_eq!((clients.counts[0].gaps, clients.counts[0].missing), (0, 0));
    }

    #[test]
    fn client_that_gets_a_frame_twice_is_found_out() {
        let mut clients = Clients::new(2);
        for client in [0, 1, 1] {
            clients.take(client, &update(2, 8.0));
        }
        assert_eq!(clients.counts[1].repeated, 1);
        assert_eq!(clients.counts[0].repeated, 0);
    }

    #[test]
    fn client_that_was_behind_is_checked_alone_until_in_step() {
        for late_first in [false, true] {
            let mut clients = Clients::new(2);
            let (late, other) = if late_first { (0, 1) } else { (1, 0) };
            for client in 0..2 {
                clients.take(client, &update(2, 8.0));
            }
            for tick in 3..7 {
                clients.take(other, &update(tick, tick as f64 + 6.0));
            }
            clients.tidy();
            clients.take(late, &message(FrameKind::CatchUp, 6, 2, &[at(12.0, 8)]));
            for tick in 7..9 {
                for client in 0..2 {
                    clients.take(client, &update(tick, tick as f64 + 6.0));
                }
            }
            assert_eq!(clients.are_in_step(), [true; 2]);
            let counts = clients.counts[late];
            assert_eq!((counts.skipped, counts.catch_ups, counts.gaps), (3, 1, 0));
            assert_eq!((counts.missing, counts.repeated), (0, 0));
            assert_eq!(clients.counts[other].skipped, 0);
        }
    }

    #[test]
    fn frames_are_kept_for_those_who_need_them_up_to_a_bound() {
        let mut clients = Clients::new(2);
        for client in 0..2 {
            clients.take(client, &update(2, 8.0));
        }
        for tick in 3..13 {
            clients.take(0, &update(tick, tick as f64 + 6.0));
        }
        clients.tidy();
        assert_eq!(clients.reference.kept.len(), 10);
        for tick in 13..(13 + KEPT as u64) {
            clients.take(0, &update(tick, tick as f64 + 6.0));
        }
        clients.tidy();
        assert_eq!(clients.are_in_step(), [true, false]);
        assert!(clients.reference.kept.is_empty());
        for tick in 3..(13 + KEPT as u64) {
            clients.take(1, &update(tick, tick as f64 + 6.0));
        }
        assert_eq!(clients.are_in_step(), [true, true]);
        assert_eq!(clients.counts[0], clients.counts[1]);
    }
}
