//! A large value is encoded once, reaches every subscriber whole, newest first, and delays no small
//! value.
//!
//! Topology: one relay, a soft IOC with an array that changes its size and its alarm or the relay's
//! own generators, clients that keep up, stall or come late.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use pvwire_schema::types::{
    ConnectionState, Filter, FrameKind, NameProblem, RequestBody, Severity, ValueType,
};

use testbed::{
    Client, How, Kept, Message, Network, Relay, RowSeen, SoftIoc, Stream, eventually, get, keep_up,
    prefix,
};

/// Elements of the array when it is large: twice the bytes that make it so.
const ELEMENTS: usize = 4_000;

/// `wave` takes the value of its input each time it is processed; in simulation mode it is in
/// alarm.
fn database() -> String {
    let list = |count: usize| vec!["1.5"; count].join(",");
    let array = |name: &str, more: &str| {
        format!(
            r#"record(waveform, "$(P){name}") {{
                field(FTVL, "DOUBLE") field(NELM, "{ELEMENTS}") {more}
            }}"#
        )
    };
    [
        array("long", &format!(r#"field(INP, "[{}]")"#, list(ELEMENTS))),
        array("short", &format!(r#"field(INP, "[{}]")"#, list(10))),
        array(
            "wave",
            r#"field(INP, "$(P)long") field(PINI, "RUNNING") field(SIOL, "$(P)long") field(SIMS, "MAJOR")"#,
        ),
        r#"
        record(longout, "$(P)a") { field(VAL, "0") field(PINI, "YES") }
        record(longout, "$(P)b") { field(VAL, "0") field(PINI, "YES") }
        record(calc, "$(P)calc") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
        "#
        .into(),
    ]
    .concat()
}

const SMALL: How = How {
    receive_buffer: Some(4096),
    acks: true,
    lz4: false,
    trust: None,
};

/// Time-outs that a test of stalled clients doesn't reach, however busy the machine is.
const PATIENT: [&str; 4] = ["--ack-window-ms", "60000", "--evict-after-ms", "60000"];

fn bytes_of(value: &Kept) -> usize {
    match value {
        Kept::Array(ValueType::Float64, bytes) => bytes.len(),
        other => panic!("{other:?} is not an array"),
    }
}

fn large_of(client: &Client) -> Vec<&Message> {
    let messages = client.messages.iter();
    messages.filter(|message| message.is_large).collect()
}

#[test]
fn large_value_is_encoded_once_for_clients_of_different_sets() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &[]);
    let [wave, a, b] = ioc.names(["wave", "a", "b"]);
    let mut one = Client::connect(relay.address());
    let mut other = Client::connect(relay.address());
    one.subscribe_live(&[&wave, &a]);
    other.subscribe_live(&[&b, &wave]);
    for client in [&mut one, &mut other] {
        client.wait_pv(&wave, "all of it", |pv| {
            pv.now
                .as_ref()
                .is_some_and(|now| bytes_of(&now.value) == 8 * ELEMENTS)
        });
    }
    let metric = |name: &str| relay.metric(&format!("pvwire_large_frames_{name}_total"));
    let (encoded, sent) = (metric("encoded"), metric("sent"));
    let (from, sequence) = (one.tick.max(other.tick), one.pv(&wave).sequence);

    for n in 1..=20 {
        ioc.put("wave.PROC", "1");
        keep_up("the update", &mut [&mut one, &mut other], |clients| {
            let seen = clients.iter().map(|client| client.pv(&wave).sequence);
            seen.min() == Some(sequence + n)
        });
    }

    assert_eq!(metric("encoded") - encoded, 20.0);
    assert_eq!(metric("sent") - sent, 40.0);
    let later = |client: &Client| {
        let large = large_of(client).into_iter();
        let large = large.filter(|message| message.tick > from);
        large.cloned().collect::<Vec<_>>()
    };
    assert_eq!(later(&one).len(), 20);
    assert_eq!(later(&one), later(&other));
    for client in [&one, &other] {
        let pv = client.pv(&wave);
        assert_eq!(pv.skipped, 0);
        assert_eq!(pv.now.as_ref().unwrap().value, pv.rows[0].value);
        assert!(!client.messages.iter().any(Message::is_catch_up));
    }
}

#[test]
fn late_client_gets_the_large_value_after_its_snapshot() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &[]);
    let [wave, a] = ioc.names(["wave", "a"]);
    let mut first = Client::connect(relay.address());
    first.subscribe_live(&[&wave]);
    for _ in 0..5 {
        let rows = first.pv(&wave).rows.len();
        ioc.put("wave.PROC", "1");
        first.wait_pv(&wave, "the update", |pv| pv.rows.len() > rows);
    }

    let mut late = Client::connect(relay.address());
    assert_eq!(late.subscribe(&[&a, &wave]), []);
    let pv = late.pv(&wave);
    assert_eq!(pv.state(), ConnectionState::Connected);
    assert!(pv.metadata.is_some());
    late.wait_pv(&wave, "its value", |pv| pv.now.is_some());

    let (pv, truth) = (late.pv(&wave), first.pv(&wave));
    assert_eq!((pv.skipped, pv.sequence), (0, truth.sequence));
    let (now, then) = (pv.now.as_ref().unwrap(), truth.now.as_ref().unwrap());
    assert_eq!(
        (&now.value, now.time_ns, now.alarm),
        (&then.value, then.time_ns, then.alarm)
    );
    let kinds: Vec<_> = late.messages.iter().map(|message| message.kind).collect();
    assert_eq!(kinds[..2], [FrameKind::Snapshot; 2]);
    assert_eq!(large_of(&late).len(), 1);
    // One request, one answer: a get receives all of it.
    let (pvs, errors) = late.get(&[&wave], 0);
    assert_eq!(errors, []);
    assert_eq!(
        pvs[0].as_ref().unwrap().now.as_ref().unwrap().value,
        now_value(&late, &wave)
    );
    // It continues as for the others.
    ioc.put("wave.PROC", "1");
    late.wait_pv(&wave, "the next", |pv| pv.rows.len() == 2);
    assert_eq!(late.pv(&wave).skipped, 0);
}

fn now_value(client: &Client, name: &str) -> Kept {
    client.pv(name).now.as_ref().unwrap().value.clone()
}

#[test]
fn stalled_client_skips_large_values_and_no_alarm_change() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &PATIENT);
    let names = ioc.names(["wave", "a"]);
    let mut stalled = Client::connect_as(relay.address(), SMALL);
    let mut truth = Client::connect(relay.address());
    stalled.subscribe_live(&names);
    truth.subscribe_live(&names);

    for (round, simulated) in [(1, "1"), (2, "0"), (3, "1"), (4, "0")] {
        let is_alarmed = simulated == "1";
        ioc.put("wave.SIMM", simulated);
        ioc.run(
            "import time
for _ in range(80):
    ioc('dbpf %swave.PROC 1' % P)
    time.sleep(.004)
",
        );
        ioc.put("a", &round.to_string());
        truth.wait_number(&names[1], round.into());
        let seen = truth.pv(&names[0]).sequence;
        // Until now it has read nothing. The array may follow the number.
        let mut both = [&mut stalled, &mut truth];
        keep_up("it is brought up to date", &mut both, |clients| {
            let [slow, truth] = [0, 1].map(|n| clients[n].pv(&names[0]).sequence);
            slow >= seen && slow == truth && clients[0].pv(&names[1]).is_number(round.into())
        });
        let (slow, true_pv) = (stalled.pv(&names[0]), truth.pv(&names[0]));
        let alarm = slow.now.as_ref().unwrap().alarm;
        assert_eq!(alarm.severity == Severity::Major, is_alarmed, "{alarm:?}");
        assert_eq!(slow.sequence, true_pv.sequence);
        // On a busy machine a reading client may fall behind, too.
        assert_eq!(
            slow.rows.len() as u64 + slow.skipped,
            true_pv.rows.len() as u64 + true_pv.skipped
        );
        for row in &slow.rows {
            let same = |at: &&RowSeen| at.sequence == row.sequence;
            let Some(true_row) = true_pv.rows.iter().find(same) else {
                continue;
            };
            assert_eq!(
                (&row.value, row.alarm, row.time_ns),
                (&true_row.value, true_row.alarm, true_row.time_ns)
            );
        }
    }
    let skipped = |client: &Client| client.pv(&names[0]).skipped;
    // A busy IOC leaves out many of its updates.
    assert!(skipped(&stalled) > skipped(&truth));
    assert!(stalled.messages.iter().any(Message::is_catch_up));
}

#[test]
fn array_that_grows_large_and_shrinks_again_stays_in_order() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &[]);
    let names = ioc.names(["wave", "a"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);

    let count = |client: &Client, kind: FrameKind, bytes: usize| {
        let rows = client.pv(&names[0]).rows.iter();
        let rows = rows.filter(|row| (row.kind, bytes_of(&row.value)) == (kind, bytes));
        rows.count()
    };
    let (large, small) = (8 * ELEMENTS, 80);
    // A busy IOC leaves out many of its updates.
    let mut round = 0;
    while count(&client, FrameKind::Update, small) <= 20
        || count(&client, FrameKind::CatchUp, large) <= 20
    {
        round += 1;
        assert!(round < 20, "hardly any update came");
        // Six updates at once, mostly of one tick: three of each size.
        ioc.run(&format!(
            "import time
for i in range(1, 241):
    if i % 3 == 1:
        ioc('dbpf %swave.INP %s%s' % (P, P, 'short' if i % 6 == 1 else 'long'))
    ioc('dbpf %swave.PROC 1' % P)
    if i % 6 == 0: time.sleep(.02)
ioc('dbpf %swave.INP %sshort' % (P, P))
ioc('dbpf %swave.PROC 1' % P)
ioc('dbpf %sa {round}' % P)
"
        ));
        client.wait_number(&names[1], f64::from(round));
        client.wait_pv(&names[0], "short at last", |pv| {
            bytes_of(&pv.now.as_ref().unwrap().value) == small
        });
    }

    let pv = client.pv(&names[0]);
    assert!(!client.messages.iter().any(Message::is_catch_up));
    assert_eq!(pv.skipped, 0);
    assert!(pv.rows.windows(2).all(|pair| {
        pair[1].sequence == pair[0].sequence + 1 && pair[1].time_ns >= pair[0].time_ns
    }));
    assert_eq!(count(&client, FrameKind::Update, large), 0);
}

#[test]
fn pv_that_comes_back_is_not_present_before_its_large_value_is() {
    let (network, prefix) = (Network::new(), prefix());
    let ioc = SoftIoc::with_prefix(network, &prefix, &database(), "");
    let relay = Relay::start(network, &[]);
    let names = ioc.names(["wave", "a"]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    let before = client.pv(&names[0]).now.clone().unwrap().time_ns;

    ioc.kill();
    client.wait_state(&names[0], ConnectionState::Disconnected);
    let _ioc = SoftIoc::with_prefix(network, &prefix, &database(), "");
    client.wait_state(&names[0], ConnectionState::Connected);

    assert_ne!(client.pv(&names[0]).now.as_ref().unwrap().time_ns, before);
}

/// 8 MB; one of these is more than all buffers between relay and client hold together.
const HUGE: &str = "sim://waveform(1000000,rate_hz=2)";

#[test]
fn scalars_keep_coming_while_another_client_takes_a_huge_value() {
    let relay = Relay::start(Network::new(), &PATIENT);
    let counter = "sim://counter(rate_hz=50)";
    let mut peer = Client::connect(relay.address());
    peer.subscribe_live(&[counter]);
    let mut slow = Client::connect_as(relay.address(), SMALL);
    let mut fast = Client::connect(relay.address());
    assert_eq!(slow.subscribe(&[HUGE]), []);
    assert_eq!(fast.subscribe(&[HUGE]), []);
    let first = peer.pv(counter).rows.len();
    let (has_taken, done) = (AtomicBool::new(false), AtomicBool::new(false));

    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fast.read_for_a_moment();
                has_taken.fetch_or(!fast.pv(HUGE).rows.is_empty(), Ordering::Relaxed);
                fast.forget_history();
            }
        });
        // The slow one has begun with its first value and reads nothing.
        peer.wait_pv(
            counter,
            "a hundred more, and a value for the fast one",
            |pv| pv.rows.len() >= first + 100 && has_taken.load(Ordering::Relaxed),
        );
        done.store(true, Ordering::Relaxed);
    });

    let pv = peer.pv(counter);
    assert_eq!(pv.skipped, 0);
    assert!(pv.numbers().windows(2).all(|pair| pair[1] == pair[0] + 1.0));
    assert!(!peer.messages.iter().any(Message::is_catch_up));
    assert!(slow.pv(HUGE).now.is_none());
    // More than any frame but that of the large value.
    eventually("the slow one's first value has begun", || {
        slow.unread_bytes() >= 1000
    });
    let (known, _) = peer.get(&[HUGE], 0);
    let begun = known[0].as_ref().unwrap().sequence;
    peer.wait_until_known(HUGE, |pv| pv.sequence >= begun + 3);
    slow.wait_pv(HUGE, "two values", |pv| pv.rows.len() >= 2);
    let pv = slow.pv(HUGE);
    assert!(pv.rows.iter().all(|row| bytes_of(&row.value) == 8_000_000));
    assert!(pv.skipped > 0, "it was behind");
}

#[test]
fn memory_does_not_grow_with_clients_stalled_at_a_large_value() {
    const CLIENTS: usize = 40;
    const BYTES: usize = 8_000_000;
    let relay = Relay::start(Network::new(), &PATIENT);
    let mut first = Client::connect(relay.address());
    first.subscribe_live(&[HUGE]);
    let before = relay.resident_bytes();

    // No two clients have the same set, and none of them reads.
    let stalled: Vec<Client> = (0..CLIENTS)
        .map(|n| {
            let mut client = Client::connect_as(relay.address(), SMALL);
            let own = format!("sim://counter(rate_hz=1,start={n})");
            let names = vec![HUGE.to_owned(), own];
            client.request(RequestBody::Subscribe {
                names,
                filter: Filter::default(),
            });
            client
        })
        .collect();
    eventually("each was given the value", || {
        relay.metric("pvwire_large_frames_sent_total") > CLIENTS as f64
    });
    let sequence = first.pv(HUGE).sequence;
    first.wait_pv(HUGE, "some newer ones", |pv| pv.sequence >= sequence + 4);

    let grown = relay.resident_bytes().saturating_sub(before);
    assert!(grown < CLIENTS * BYTES / 2, "{grown} bytes for {CLIENTS}");
    drop(stalled);
}

#[test]
fn stream_of_large_values_has_the_same_frames_in_the_same_order() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let relay = Relay::start(network, &[]);
    let names = ioc.names(["wave", "a"]);
    let mut fetching = Client::connect(relay.address());
    let mut other = Client::connect(relay.address());
    fetching.fetch_large();
    for client in [&mut fetching, &mut other] {
        client.subscribe_live(&names);
    }
    let streamed = || relay.metric("pvwire_large_frames_streamed_total");
    let encoded = || relay.metric("pvwire_large_frames_encoded_total");
    let before = (streamed(), encoded());
    assert_eq!(before.0, 1.0);
    let (from, first) = (
        fetching.tick.max(other.tick),
        fetching.pv(&names[0]).sequence,
    );

    // Small values between large ones, of the same PV too. A client that is behind for a moment gets
    // other frames, so each change waits until both clients have the one before it.
    for step in 1..=60 {
        if step % 3 == 1 {
            let input = if step % 6 == 1 { "short" } else { "long" };
            ioc.run(&format!("ioc('dbpf %swave.INP %s{input}' % (P, P))"));
        }
        ioc.run("ioc('dbpf %swave.PROC 1' % P)");
        keep_up("the array", &mut [&mut fetching, &mut other], |clients| {
            let mut clients = clients.iter();
            clients.all(|client| client.pv(&names[0]).sequence >= first + step)
        });
        ioc.put("a", &step.to_string());
        keep_up("the number", &mut [&mut fetching, &mut other], |clients| {
            let mut clients = clients.iter();
            clients.all(|client| client.pv(&names[1]).is_number(f64::from(step)))
        });
    }

    assert!(streamed() - before.0 >= 30.0);
    assert!(encoded() - before.1 < 100.0, "made once for both");
    let later = |client: &Client| {
        let messages = client.messages.iter();
        let messages = messages.filter(|message| message.tick > from);
        messages.cloned().collect::<Vec<_>>()
    };
    assert_eq!(later(&fetching), later(&other));
    let pv = fetching.pv(&names[0]);
    assert_eq!(pv.skipped, 0);
    assert_eq!(pv.sequence, other.pv(&names[0]).sequence);
    assert!(pv.sequence >= first + 60);
}

#[test]
fn client_behind_on_its_stream_gets_the_newest_and_delays_none() {
    let relay = Relay::start(Network::new(), &PATIENT);
    let counter = "sim://counter(rate_hz=50)";
    let mut slow = Client::connect(relay.address());
    slow.fetch_large();
    slow.subscribe_live(&[HUGE]);
    let mut peer = Client::connect(relay.address());
    peer.subscribe_live(&[counter]);
    let first = peer.pv(counter).rows.len();
    let sequence = slow.pv(HUGE).sequence;

    // Of these values it takes none.
    peer.wait_pv(counter, "200 more", |pv| pv.rows.len() >= first + 200);
    assert_eq!(peer.pv(counter).skipped, 0);
    peer.wait_until_known(HUGE, |pv| pv.sequence >= sequence + 5);
    let seen = slow.pv(HUGE).rows.len();
    // What was sent before it was behind comes first.
    slow.wait_pv(HUGE, "two more, after a gap", |pv| {
        pv.rows.len() >= seen + 2 && pv.skipped > 0
    });

    let pv = slow.pv(HUGE);
    assert!(pv.rows.iter().all(|row| bytes_of(&row.value) == 8_000_000));
    assert!(slow.messages.iter().any(Message::is_catch_up));
}

#[test]
fn stream_is_given_once_to_whoever_was_told_its_token() {
    let relay = Relay::start(Network::new(), &[]);
    let address = relay.address();
    let status = |path: &str, headers: &[(&str, &str)]| get(address, path, headers).status;
    for path in [
        "/ws/large",
        "/ws/large?0-1",
        "/ws/large?9999-0",
        "/ws/large?0-",
        "/ws/large?é",
    ] {
        assert_eq!(status(path, &[]), 404, "{path}");
    }
    let mut client = Client::connect(address);
    let path = client.ask_for_stream();
    assert_eq!(path.len(), "/ws/large?0-".len() + 32);
    let foreign = [("Origin", "http://evil.test")];
    assert_eq!(status(&path, &foreign), 403);
    assert_eq!(status(&path, &[("Host", "evil.test")]), 421);
    let mut other = Client::connect(address);
    other.fetch_large();
    assert_eq!(status(&path.replace("?0-", "?0-f"), &[]), 404);

    let taken = Stream::open(address, &path);
    assert_eq!(status(&path, &[]), 404, "it was given already");
    // The stream ends before it was used: the client continues without it.
    drop(taken);
    client.subscribe_live(&["sim://waveform(10000,rate_hz=20)"]);
    drop(client);

    // A client that was promised its values on the stream can't receive them otherwise.
    other.subscribe_live(&["sim://waveform(10000,rate_hz=20)"]);
    other.drop_stream();
    assert_eq!(other.wait_closed(), 4408);
    let mut greedy = Client::connect(address);
    greedy.send(&[]);
    greedy.send(&[]);
    assert_eq!(greedy.wait_closed(), 4400);
}

#[test]
fn value_larger_than_a_frame_is_left_out_and_its_clients_stay() {
    const SURPLUS: usize = 270_000_000;
    let network = Network::new();
    let database = format!(
        r#"record(waveform, "$(P)huge") {{ field(FTVL, "UCHAR") field(NELM, "{SURPLUS}") }}
        record(longout, "$(P)a") {{ field(VAL, "0") field(PINI, "YES") }}"#
    );
    let mut ioc = SoftIoc::start(network, &database);
    let names = ioc.names(["huge", "a"]);
    let [huge, a] = names.each_ref().map(String::as_str);
    let relay = Relay::start(network, &PATIENT);
    let mut client = Client::connect(relay.address());
    fill(&mut ioc, "huge", 5);
    client.subscribe_live(&names);
    client.wait_pv(huge, "five bytes", |pv| {
        pv.now
            .as_ref()
            .is_some_and(|now| bytes_of_any(&now.value) == 5)
    });

    fill(&mut ioc, "huge", SURPLUS);
    client.wait_pv(huge, "it is left out", |pv| {
        pv.now.as_ref().is_some_and(|now| {
            now.alarm.severity == Severity::Invalid && bytes_of_any(&now.value) == 0
        })
    });
    ioc.put("a", "1");
    client.wait_number(a, 1.0);
    // This also applies to a new client and to a get.
    let mut late = Client::connect(relay.address());
    late.subscribe_live(&names);
    let (got, errors) = late.get(&[huge, a], 5_000);
    assert_eq!(errors, []);
    assert_eq!(got.len(), 2);
    for client in [&client, &late] {
        assert!(client.closed.is_none());
        let now = client.pv(huge).now.as_ref().unwrap();
        assert_eq!(bytes_of_any(&now.value), 0);
    }

    fill(&mut ioc, "huge", 7);
    for client in [&mut client, &mut late] {
        client.wait_pv(huge, "seven bytes without alarm", |pv| {
            pv.now.as_ref().is_some_and(|now| {
                now.alarm.severity == Severity::NoAlarm && bytes_of_any(&now.value) == 7
            })
        });
    }
}

fn bytes_of_any(value: &Kept) -> usize {
    match value {
        Kept::Array(_, bytes) => bytes.len(),
        other => panic!("{other:?} is not an array"),
    }
}

#[test]
fn get_of_more_than_a_frame_holds_is_answered_for_what_fits() {
    // One fits, two don't.
    const PART: usize = 140_000_000;
    let network = Network::new();
    let records = ["x", "y"];
    let database = records.map(|name| {
        format!(
            r#"record(waveform, "$(P){name}") {{ field(FTVL, "UCHAR") field(NELM, "{PART}") }}"#
        )
    });
    let mut ioc = SoftIoc::start(network, &database.concat());
    records.iter().for_each(|name| fill(&mut ioc, name, PART));
    // Queued after all of that.
    ioc.ask("echo filled");
    let relay = Relay::start(network, &PATIENT);
    let mut client = Client::connect(relay.address());
    let (got, errors) = client.get(&ioc.names(records), 60_000);
    let refused: Vec<_> = errors.iter().map(|error| error.index).collect();
    assert_eq!(refused, [1], "{errors:?}");
    assert_eq!(errors[0].problem, NameProblem::TooManyPvs);
    let message = &errors[0].message;
    assert!(message.contains("get fewer PVs at a time"), "{message}");
    let value = &got[0].as_ref().unwrap().now.as_ref().unwrap().value;
    assert_eq!(bytes_of_any(value), PART);
    assert!(client.closed.is_none());
}

/// Fills an array of unsigned bytes with this number of zeros, inside the IOC.
pub(crate) fn fill(ioc: &mut SoftIoc, name: &str, count: usize) {
    // DBR_UCHAR is 2.
    ioc.run(&format!(
        "import ctypes\nfrom epicscorelibs.ioc import dbCore\n\
         address = ctypes.create_string_buffer(4096)\n\
         dbCore.dbNameToAddr((P + '{name}').encode(), address)\n\
         bytes = ctypes.create_string_buffer({count})\n\
         dbCore.dbPutField(address, 2, bytes, ctypes.c_long({count}))"
    ));
}
