//! A server on which another program sends what members send, and members that sign.

use std::sync::Arc;

use async_nats::HeaderMap;
use bytes::Bytes;
use testbed::{NatsClient, NatsMessage, NatsServer, eventually};

use super::notes::{Member, Members, outcome, settings};
use super::{LONG, SHARD, shared};
use crate::bus::{Bus, Kind};
use crate::nats::Settings;
use crate::pieces::Piece;
use crate::refusals::Refusal;
use crate::seal::Seals;
use crate::subject::Subjects;

const KEY: &str = "vJ3m0rYk6cP8hWn2tQ5xZs1bLf4dGa7eUiOoRyTwE9M=";

fn signing(server: &NatsServer) -> Settings {
    let keys = Some(KEY.parse().unwrap());
    Settings {
        seals: Arc::new(Seals::new(keys, Arc::default())),
        ..settings(&server.url())
    }
}

/// Another member of the site with its own memory of what was sent.
fn with_own_seals(settings: &Settings) -> Settings {
    Settings {
        seals: Arc::new(Seals::new(Some(KEY.parse().unwrap()), Arc::default())),
        ..settings.clone()
    }
}

/// Where nothing listens.
const NOWHERE: &str = "pvwire.stranger";

/// A program on the bus, without the key.
struct Stranger {
    client: async_nats::Client,
    runtime: tokio::runtime::Runtime,
}

impl Stranger {
    fn at(server: &NatsServer) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = runtime.block_on(async_nats::connect(server.url())).unwrap();
        Self { client, runtime }
    }

    fn send(&self, subject: String, reply: &str, headers: HeaderMap, body: &[u8]) {
        let body = Bytes::copy_from_slice(body);
        let client = &self.client;
        self.runtime.block_on(async {
            let reply = reply.to_owned();
            let sent = client.publish_with_reply_and_headers(subject, reply, headers, body);
            sent.await.unwrap();
            client.flush().await.unwrap();
        });
    }

    /// Records what a member sends, until `count` messages have come.
    fn record(
        &self,
        subject: String,
        act: impl FnOnce(),
        count: usize,
    ) -> Vec<async_nats::Message> {
        use futures_util::StreamExt as _;
        self.runtime.block_on(async {
            let recorded = self.client.subscribe(subject.clone()).await.unwrap();
            // Its own message arrives only once the server has taken the subscription; a flush only sends it.
            let echo = format!("{subject}.echo");
            let mut echoes = self.client.subscribe(echo.clone()).await.unwrap();
            self.client.publish(echo, Bytes::new()).await.unwrap();
            echoes.next().await.unwrap();
            act();
            recorded.take(count).collect().await
        })
    }
}

fn unfinished(member: &Member) -> usize {
    let bytes = &member.bus.counters().unfinished_bytes;
    bytes.load(std::sync::atomic::Ordering::Relaxed) as usize
}

fn refused(member: &Member, why: Refusal) -> u64 {
    member.seals.refusals().count(why)
}

#[test]
fn members_with_the_key_announce_ask_and_answer() {
    let server = shared();
    let of = signing(&server);
    let (a, b) = (
        Members::at(of.clone()).join(),
        Members::at(with_own_seals(&of)).join(),
    );
    let presence = Bytes::from(format!(r#"{{"id":"{}"}}"#, a.id));
    a.bus.announce(presence.clone());
    for member in [&a, &b] {
        member.wait_for("its announcement", |notes| {
            notes.announced == [presence.clone()]
        });
    }
    let large = Bytes::from(vec![7; 3_000_000]);
    assert!(outcome(&a, b.id, large.clone(), LONG) == Ok(large));
    assert!(
        Refusal::ALL
            .iter()
            .all(|why| refused(&a, *why) + refused(&b, *why) == 0)
    );
}

#[test]
fn program_without_the_key_speaks_for_no_member() {
    let server = shared();
    let of = signing(&server);
    let member = Members::at(of.clone()).join();
    let stranger = Stranger::at(&server);
    let subjects = Subjects::new(of.site.clone(), crate::member::MemberId(5));
    let presence = format!(r#"{{"id":"{}"}}"#, member.id);
    let mut forged = HeaderMap::new();
    let tag = "0".repeat(64);
    forged.insert("Pvwire-Seal", format!("{} 1 {tag}", member.id));
    for headers in [HeaderMap::new(), forged] {
        stranger.send(
            subjects.members(),
            NOWHERE,
            headers.clone(),
            presence.as_bytes(),
        );
        for kind in Kind::ALL {
            let reply = NOWHERE;
            stranger.send(
                subjects.ask(member.id, kind),
                reply,
                headers.clone(),
                b"put",
            );
        }
    }
    eventually("all are refused", || {
        let counts = [Refusal::Unsigned, Refusal::Signature].map(|why| refused(&member, why));
        counts == [1 + Kind::ALL.len() as u64; 2]
    });
    let notes = member.notes();
    assert!(notes.announced.is_empty() && notes.requests.is_empty());
}

#[test]
fn recorded_request_is_carried_out_once() {
    let server = shared();
    let of = signing(&server);
    let (a, b) = (
        Members::at(of.clone()).join(),
        Members::at(with_own_seals(&of)).join(),
    );
    let stranger = Stranger::at(&server);
    let subject = Subjects::new(of.site.clone(), a.id).ask(b.id, Kind::Operation);
    let put = Bytes::from_static(b"put");
    let act = || assert_eq!(outcome(&a, b.id, put.clone(), LONG), Ok(put.clone()));
    let recorded = stranger.record(subject, act, 1).remove(0);
    let reply = recorded.reply.unwrap();
    let headers = recorded.headers.unwrap();
    for _ in 0..3 {
        let subject = recorded.subject.to_string();
        stranger.send(subject, &reply, headers.clone(), &recorded.payload);
    }
    // To another kind of request, and with another value.
    let as_interest = Subjects::new(of.site.clone(), a.id).ask(b.id, Kind::Interest);
    stranger.send(as_interest, &reply, headers.clone(), &recorded.payload);
    stranger.send(recorded.subject.to_string(), &reply, headers, b"other");
    eventually("all are refused", || {
        [Refusal::Repeated, Refusal::Signature].map(|why| refused(&b, why)) == [3, 2]
    });
    assert_eq!(b.notes().requests.len(), 1);
}

#[test]
fn forged_answer_is_not_taken_for_the_members() {
    let server = shared();
    let of = signing(&server);
    let (a, silent) = (
        Members::at(of.clone()).join(),
        Members::at(with_own_seals(&of)).join(),
    );
    silent.be_silent();
    let stranger = Stranger::at(&server);
    let answer = a.ask(
        silent.id,
        Bytes::from_static(b"put"),
        std::time::Duration::from_secs(2),
    );
    silent.wait_for("the request", |notes| notes.requests.len() == 1);
    for number in 0..8 {
        let subject = Subjects::new(of.site.clone(), a.id).answer(number);
        stranger.send(subject, NOWHERE, HeaderMap::new(), b"done");
    }
    eventually("all are refused", || refused(&a, Refusal::Unsigned) == 8);
    let timed_out = Err(crate::bus::AskError::TimedOut);
    assert_eq!(answer.recv().unwrap(), timed_out);
}

#[test]
fn stranger_that_says_that_no_relay_got_a_request_does_not_make_it_not_done() {
    let server = shared();
    let of = signing(&server);
    let (a, silent) = (
        Members::at(of.clone()).join(),
        Members::at(with_own_seals(&of)).join(),
    );
    silent.be_silent();
    let answer = a.ask(silent.id, Bytes::from_static(b"put"), LONG);
    silent.wait_for("the request", |notes| notes.requests.len() == 1);
    let mut stranger = NatsClient::at(&server);
    for number in 0..8 {
        // As the server says it when no member listens.
        stranger.repeat(&NatsMessage {
            subject: Subjects::new(of.site.clone(), a.id).answer(number),
            reply: String::new(),
            headers: "NATS/1.0 503\r\n\r\n".to_owned(),
            body: Vec::new(),
        });
    }
    stranger.settle();
    let error = answer.recv().unwrap().unwrap_err();
    assert!(error.may_have_arrived(), "{error}");
}

#[test]
fn unfinished_pieces_of_a_stranger_take_bounded_memory_and_give_it_back() {
    let server = shared();
    let (signed, open) = (signing(&server), settings(&server.url()));
    let stranger = Stranger::at(&server);
    let part = vec![7; 900_000];
    for (settings, most) in [(signed, 0), (open, 64 << 20)] {
        let member = Members::at(settings.clone()).join();
        let before = unfinished(&member);
        assert_eq!(before, 0);
        for number in 0..90 {
            let from = Subjects::new(settings.site.clone(), crate::member::MemberId(number));
            let piece = Piece {
                message: 1,
                index: 0,
                count: 100,
            };
            let mut headers = HeaderMap::new();
            headers.insert("Pvwire-Piece", piece.to_string());
            let subject = from.ask(member.id, Kind::Operation);
            stranger.send(subject, NOWHERE, headers, &part);
        }
        member.settle(&member);
        let unfinished_bytes = unfinished(&member);
        assert!(unfinished_bytes <= most, "{unfinished_bytes} bytes");
        assert_eq!(unfinished_bytes > 0, most > 0);
        eventually("it is given back", || unfinished(&member) == 0);
    }
}

#[test]
fn member_goes_on_under_another_id() {
    let server = shared();
    let of = settings(&server.url());
    let (a, b) = (
        Members::at(of.clone()).join(),
        Members::at(of.clone()).join(),
    );
    let id = crate::member::MemberId::random().unwrap();
    b.follow(&a, SHARD);
    a.bus.rename(id);
    a.wait_for("the new connection", |notes| {
        notes.connected == [true, false, true]
    });
    let body = Bytes::from_static(b"put");
    eventually("it answers", || {
        outcome(&b, id, body.clone(), LONG) == Ok(body.clone())
    });
    let gone = Err(crate::bus::AskError::NoMember);
    assert_eq!(outcome(&b, a.id, body.clone(), LONG), gone);
    assert_eq!(outcome(&a, b.id, body.clone(), LONG), Ok(body));
    assert_eq!(
        b.notes().requests.last().unwrap().0,
        id,
        "it asks as the new one"
    );
}
