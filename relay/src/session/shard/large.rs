//! Large values: written in slices of bounded length, so that they don't delay the small messages
//! of other clients.
//!
//! While a tick's frames are written, large values are only queued. What has to be converted for a door's client is
//! made by the pool on its account, and until then the client is behind. Then each client with large
//! values gets turns of bounded length; between two rounds of turns the shard handles new ticks and
//! requests. A client that fetches its large values over HTTP gets an empty WebSocket message in
//! place of each, so that it can restore the order of both.

use std::sync::Arc;

use pvwire_schema::close::CloseCode;
use tokio::sync::oneshot;

use super::Run;
use super::client::{Client, LargeWay, Unmade};
use super::handle::{Answer, ShardCommand};
use crate::compute::Size;
use crate::fanout::control::ClientId;
use crate::fanout::encoding::Encoders;
use crate::fanout::frame::Frame;
use crate::fanout::large::LargeValue;
use crate::ops::metrics::Metrics;
use crate::session::socket::Disconnect;
use crate::session::stream::{StreamBody, stream};

/// Turns before the shard handles ticks and requests again.
const TURNS_PER_ROUND: usize = 8;

/// Up to this many bytes are converted where they are needed: that takes a millisecond at most.
const CONVERTED_AT_ONCE: usize = 128 << 10;

impl Client {
    /// Queues a large value behind the frame that leaves it out. `is_first`: the client may not have had a value
    /// of this PV before.
    fn follow_up(
        &mut self,
        value: &LargeValue,
        is_first: bool,
        encoders: &mut Encoders,
        metrics: &Metrics,
    ) {
        let made = &metrics.large_frames_encoded;
        let frame = value.frame(is_first, self.id.encoding, encoders, made);
        let frame = self.addressed(&frame);
        if frame.length() == 0 {
            return;
        }
        metrics.large_frames_sent.inc();
        metrics.updates_sent.inc_by(u64::from(frame.rows()));
        metrics.bytes_sent.inc_by(frame.length() as u64);
        match &self.large {
            LargeWay::Stream(stream) => {
                metrics.large_frames_streamed.inc();
                self.streamed += frame.length() as u64;
                stream.push(&frame);
                self.socket.follow(Arc::new(Frame::empty()));
            }
            _ => self.socket.follow(frame),
        }
    }
}

impl Run {
    /// Queues large values behind the frame that leaves them out, as soon as their frames are made.
    pub(super) fn follow_up<'a>(
        &mut self,
        slot: usize,
        values: impl Iterator<Item = &'a Arc<LargeValue>> + Clone,
        is_first: bool,
    ) {
        let client = &mut self.clients[slot];
        let encoding = client.id.encoding;
        let work = values.clone();
        let work = work.map(|value| value.to_convert(is_first, encoding));
        if client.unmade.is_empty() && work.sum::<usize>() == 0 {
            for value in values {
                let (encoders, metrics) = (&mut self.deliveries.encoders, &self.context.metrics);
                client.follow_up(value, is_first, encoders, metrics);
            }
            return;
        }
        let values = values.cloned().collect();
        client.unmade.push_back(Unmade { values, is_first });
        if client.unmade.len() == 1 {
            self.make_large(slot);
        }
    }

    /// Queues the client's large values up to the first whose frames have to be made on another thread.
    fn make_large(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        while let Some(Unmade { values, is_first }) = client.unmade.front() {
            let (id, share, pool) = (client.id, client.caller.cpu(), &self.context.pool);
            let (values, is_first) = (Arc::clone(values), *is_first);
            let work = values.iter();
            let work = work.map(|value| value.to_convert(is_first, id.encoding));
            let work: usize = work.sum();
            if work > CONVERTED_AT_ONCE || (work > 0 && !pool.is_for_now(share, Size::Tiny)) {
                let (encodings, metrics) = (
                    Arc::clone(&self.context.encodings),
                    Arc::clone(&self.context.metrics),
                );
                let made = move |is_made| ShardCommand::LargeMade {
                    client: id,
                    is_made,
                };
                let answer = Answer::new(&self.mailbox, made(false));
                return pool.run(share, Size::of(work), move || {
                    let mut encoders = encodings.encoders();
                    for value in values.iter() {
                        let counter = &metrics.large_frames_encoded;
                        value.frame(is_first, id.encoding, &mut encoders, counter);
                    }
                    answer.give(made(true));
                });
            }
            client.unmade.pop_front();
            for value in values.iter() {
                let (encoders, metrics) = (&mut self.deliveries.encoders, &self.context.metrics);
                client.follow_up(value, is_first, encoders, metrics);
            }
        }
    }

    /// The frames of a client's oldest large values were made.
    pub(super) fn large_made(&mut self, id: ClientId, is_made: bool) {
        if !self.serves(id) {
            return;
        }
        if !is_made {
            return self.close(id.index, CloseCode::RelayFault);
        }
        self.make_large(id.index);
        self.finish_turn(id.index, Ok(true));
    }

    /// The client's next step towards a stream: it requests the stream, or confirms that it reads
    /// it. The client gets `path` relative to the root, with the token.
    pub(super) fn large_way(&mut self, slot: usize, path: &str) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        client.large = match std::mem::replace(&mut client.large, LargeWay::Socket) {
            LargeWay::Socket => {
                let mut random = [0; 16];
                if let Err(error) = getrandom::fill(&mut random) {
                    log::error!("no random numbers: {error}");
                    return Ok(());
                }
                let token = u128::from_ne_bytes(random);
                let path = path.trim_start_matches('/');
                let path = format!("{path}?{:x}-{token:032x}", self.number);
                client.socket.answer(&Arc::new(Frame::text(&path)))?;
                LargeWay::Offered(token)
            }
            LargeWay::Fetched(stream) => LargeWay::Stream(stream),
            LargeWay::Offered(_) | LargeWay::Stream(_) => return Err(Disconnect::BadMessage),
        };
        Ok(())
    }

    /// Gives a client's stream to the HTTP request with its token, once.
    pub(super) fn attach(&mut self, token: u128, reply: oneshot::Sender<StreamBody>) {
        let client = self.clients.iter_mut().find(|(_, client)| {
            !client.is_closing()
                && matches!(client.large, LargeWay::Offered(offered) if offered == token)
        });
        let Some((_, client)) = client else {
            return;
        };
        let (id, mailbox) = (client.id, Arc::clone(&self.mailbox));
        let (sender, body) = stream(move || mailbox.put(ShardCommand::Streamed(id)));
        client.large = LargeWay::Fetched(sender);
        // The request may be gone already; then the body reports its end.
        let _ = reply.send(body);
    }

    /// A client took everything in its stream, or ended it.
    pub(super) fn streamed(&mut self, id: ClientId) {
        if !self.serves(id) {
            return;
        }
        if let LargeWay::Fetched(stream) | LargeWay::Stream(stream) = &self.clients[id.index].large
            && stream.is_over()
        {
            // What the client hadn't taken is lost, so it must connect again, as after any gap.
            let was_used = matches!(self.clients[id.index].large, LargeWay::Stream(_));
            self.clients[id.index].large = LargeWay::Socket;
            if was_used {
                return self.close(id.index, CloseCode::NoProgress);
            }
        }
        self.finish_turn(id.index, Ok(true));
    }

    /// Queues a client for a turn if it has more to write.
    pub(super) fn ask_turn(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        if client.socket.is_ready() && !client.awaits_turn {
            client.awaits_turn = true;
            self.turns.ask_to_write(slot);
        }
    }

    /// Gives turns to clients that wait for one.
    pub(super) fn give_turns(&mut self) {
        for _ in 0..self.turns.writers().min(TURNS_PER_ROUND) {
            let Some(slot) = self.turns.next_writer() else {
                break;
            };
            let Some(client) = self.clients.get_mut(slot) else {
                continue;
            };
            client.awaits_turn = false;
            // It may have had its turn already, with the last tick's frames, and be behind since.
            let taken = if client.socket.is_ready() {
                client.socket.resume()
            } else {
                Ok(0)
            };
            self.finish_turn(slot, taken.map(|taken| taken > 0));
        }
    }
}
