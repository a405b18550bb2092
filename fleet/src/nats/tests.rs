//! Tests against a real NATS server. Each of them has its own site; those that harm the server have their own.

mod notes;
mod signed;
mod trust;

use std::sync::atomic::Ordering;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use testbed::{NatsServer, eventually};

use crate::bus::{AskError, Bus, Kind};
use crate::member::MemberId;
use notes::{Member, Members, outcome, settings};

/// Longer than anything here takes: only a failure reaches it.
const LONG: Duration = Duration::from_secs(60);

const SHARD: u16 = 3;

/// The server that most tests share. Tests run in one process, at whose end the operating system would leave it:
/// the last test that uses it kills it.
fn shared() -> std::sync::Arc<NatsServer> {
    static SERVER: LazyLock<Mutex<std::sync::Weak<NatsServer>>> = LazyLock::new(Mutex::default);
    let mut server = SERVER.lock().unwrap();
    server.upgrade().unwrap_or_else(|| {
        let started = std::sync::Arc::new(NatsServer::start());
        *server = std::sync::Arc::downgrade(&started);
        started
    })
}

#[test]
fn announcement_reaches_all_members_of_the_site_alone() {
    let server = shared();
    let site = Members::of(&server);
    let (a, b) = (site.join(), site.join());
    let foreign = Members::of(&server).join();
    a.bus.announce(Bytes::from_static(b"here"));
    for member in [&a, &b] {
        member.wait_for("its announcement", |notes| {
            notes.announced == [Bytes::from_static(b"here")]
        });
    }
    assert!(foreign.notes().announced.is_empty());
}

#[test]
fn request_gets_one_answer_and_names_who_asked() {
    let server = shared();
    let site = Members::of(&server);
    let (a, b) = (site.join(), site.join());
    let body = Bytes::from_static(b"put");
    assert_eq!(outcome(&a, b.id, body.clone(), LONG), Ok(body.clone()));
    assert_eq!(b.notes().requests, [(a.id, Kind::Operation, body)]);
}

#[test]
fn request_to_a_member_that_is_gone_fails_at_once() {
    let server = shared();
    let a = Members::of(&server).join();
    let start = Instant::now();
    let gone = MemberId(1);
    assert_eq!(
        outcome(&a, gone, Bytes::new(), LONG),
        Err(AskError::NoMember)
    );
    assert!(start.elapsed() < LONG / 2);
}

#[test]
fn request_without_an_answer_times_out() {
    let server = shared();
    let site = Members::of(&server);
    let (a, silent) = (site.join(), site.join());
    silent.be_silent();
    let short = Duration::from_secs(2);
    assert_eq!(
        outcome(&a, silent.id, Bytes::new(), short),
        Err(AskError::TimedOut)
    );
    assert_eq!(silent.notes().requests.len(), 1);
}

#[test]
fn messages_of_a_shard_reach_those_who_follow_in_order() {
    let server = shared();
    let site = Members::of(&server);
    let (owner, edge) = (site.join(), site.join());
    edge.follow(&owner, SHARD);
    let numbers = 0..1000_u32;
    for number in numbers.clone() {
        // Another shard, which no member follows.
        owner
            .bus
            .publish(SHARD + 1, &[Bytes::from_static(b"other")]);
        let number = Bytes::copy_from_slice(&number.to_le_bytes());
        assert!(owner.bus.publish(SHARD, &[number]));
    }
    let expected: Vec<Bytes> = numbers
        .map(|number| Bytes::copy_from_slice(&number.to_le_bytes()))
        .collect();
    edge.wait_for("all messages", |notes| {
        notes.messages.len() >= expected.len()
    });
    assert_eq!(edge.notes().messages, expected);

    edge.bus.follow(owner.id, SHARD, false);
    edge.settle(&owner);
    owner.bus.publish(SHARD, &[Bytes::from_static(b"late")]);
    owner.settle(&edge);
    edge.settle(&owner);
    assert_eq!(edge.notes().messages.len(), expected.len());
}

#[test]
fn member_that_ends_sends_first_what_waits() {
    let server = shared();
    let site = Members::of(&server);
    let (owner, edge) = (site.join(), site.join());
    edge.follow(&owner, SHARD);
    let messages: Vec<Bytes> = (0..100).map(|n| Bytes::from(vec![n; 4096])).collect();
    for message in &messages {
        assert!(owner.bus.publish(SHARD, std::slice::from_ref(message)));
    }
    drop(owner);
    edge.wait_for("all messages", |notes| {
        notes.messages.len() >= messages.len()
    });
    assert_eq!(edge.notes().messages, messages);
}

#[test]
fn large_messages_requests_and_answers_arrive_whole() {
    let server = shared();
    let site = Members::of(&server);
    let (owner, edge) = (site.join(), site.join());
    edge.follow(&owner, SHARD);
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at / 7) as u8).collect();
    let large = Bytes::from(bytes);
    let segments = [large.slice(..10), large.slice(10..)];
    assert!(owner.bus.publish(SHARD, &segments));
    owner.bus.publish(SHARD, &[Bytes::from_static(b"small")]);
    edge.wait_for("both", |notes| notes.messages.len() == 2);
    assert!(edge.notes().messages[0] == large, "other bytes");
    assert!(outcome(&edge, owner.id, large.clone(), LONG) == Ok(large));
}

#[test]
fn killed_server_breaks_requests_and_serves_all_after_its_restart() {
    let mut server = NatsServer::start();
    let site = Members::of(&server);
    let (a, b) = (site.join(), site.join());
    a.follow(&b, SHARD);
    b.be_silent();
    let answer = a.ask(b.id, Bytes::from_static(b"first"), LONG);
    b.wait_for("the request", |notes| notes.requests.len() == 1);
    server.kill();
    assert_eq!(answer.recv().unwrap(), Err(AskError::Broken));
    for member in [&a, &b] {
        member.wait_for("the loss", |notes| notes.connected.last() == Some(&false));
    }
    assert!(!b.bus.publish(SHARD, &[Bytes::from_static(b"lost")]));
    let refused = Bytes::from_static(b"never sent");
    assert_eq!(outcome(&a, b.id, refused, LONG), Err(AskError::NotSent));

    server.restart();
    for member in [&a, &b] {
        member.wait_for("the connection", |notes| {
            notes.connected.len() > 2 && notes.connected.last() == Some(&true)
        });
    }
    // The server knows what `a` follows a moment later.
    let again = Bytes::from_static(b"again");
    eventually("the shard", || {
        b.bus.publish(SHARD, std::slice::from_ref(&again));
        a.notes().messages.first() == Some(&again)
    });
    assert_eq!(b.notes().requests.len(), 1, "nothing was sent late");
    let connections = a.bus.counters().connections.load(Ordering::Relaxed);
    assert!(connections >= 2, "{connections}");
}

#[test]
fn silent_server_is_left_and_another_serves() {
    let first = NatsServer::start();
    let site = Members::of(&first);
    let a = site.join();
    first.hang();
    a.wait_for("the loss", |notes| notes.connected.contains(&false));
    first.resume();
    a.wait_for("the connection", |notes| {
        notes.connected.len() > 2 && notes.connected.last() == Some(&true)
    });

    let mut second = NatsServer::start();
    let both = format!("{},{}", first.url(), second.url());
    let b = Members::at(settings(&both)).join();
    second.kill();
    drop(first);
    second.restart();
    b.wait_for("the other server", |notes| {
        notes.connected.last() == Some(&true)
    });
    eventually("it is connected", || b.bus.is_connected());
}

#[test]
fn member_that_takes_nothing_is_cut_off_and_comes_back() {
    let server = NatsServer::with_config("max_pending: 1048576\nwrite_deadline: \"300ms\"");
    let site = Members::of(&server);
    let (owner, slow) = (site.join(), site.join());
    slow.follow(&owner, SHARD);
    let hold = slow.hold();
    let message = Bytes::from(vec![7; 500_000]);
    eventually("the server cuts it off", || {
        for _ in 0..20 {
            owner.bus.publish(SHARD, std::slice::from_ref(&message));
        }
        let connections = server_connections(&owner, &slow);
        connections == Err(AskError::NoMember)
    });
    drop(hold);
    slow.wait_for("its return", |notes| {
        notes.connected.len() > 2 && notes.connected.last() == Some(&true)
    });
    // The server knows its subscriptions a moment later.
    eventually("it answers", || {
        outcome(&owner, slow.id, Bytes::new(), LONG) == Ok(Bytes::new())
    });
}

/// Whether the server still knows the member: it answers at once if not.
fn server_connections(owner: &Member, slow: &Member) -> Result<Bytes, AskError> {
    outcome(owner, slow.id, Bytes::new(), Duration::from_millis(200))
}

#[test]
fn messages_beyond_the_queue_are_refused() {
    let server = NatsServer::start();
    let owner = Members::of(&server).join();
    server.hang();
    let message = Bytes::from(vec![0; 1_000_000]);
    let mut taken = 0;
    eventually("the queue is full", || {
        (0..20).any(|_| {
            let is_taken = owner.bus.publish(SHARD, std::slice::from_ref(&message));
            taken += usize::from(is_taken);
            !is_taken
        })
    });
    // Those of the queue, of the library, and of the sockets' buffers.
    assert!(taken < 200, "{taken} MB");
    server.resume();
    let refused = owner
        .bus
        .counters()
        .messages_refused
        .load(Ordering::Relaxed);
    assert!(refused > 0);
}

#[test]
fn relay_starts_before_the_server_and_connects_later() {
    let mut server = NatsServer::start();
    server.kill();
    let a = Members::of(&server).start();
    assert_eq!(
        outcome(&a, a.id, Bytes::new(), LONG),
        Err(AskError::NotSent)
    );
    server.restart();
    a.wait_for("the connection", |notes| {
        notes.connected.last() == Some(&true)
    });
}
