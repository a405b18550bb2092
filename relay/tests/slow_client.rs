//! Effects of a client that doesn't keep up, on itself and on other clients. One whose machine or network is gone is
//! detected; one that is merely quiet stays connected.
//!
//! Topology: one soft IOC that makes bursts, one relay, clients that stop reading or acknowledging; clients without
//! PVs of a relay with a short ping interval, and a proxy between that can be cut.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{FrameKind, RequestBody};
use testbed::{Client, How, Kept, Message, Network, Relay, SoftIoc, Wire, eventually, keep_up};

/// Several scalars with alarm limits, and an array large enough to fill a socket.
fn database() -> String {
    let elements = vec!["1"; 4_000].join(",");
    format!(
        r#"
        record(longout, "$(P)a") {{
            field(VAL, "0") field(PINI, "YES") field(HIGH, "1") field(HSV, "MINOR")
            field(HIHI, "500") field(HHSV, "MAJOR")
        }}
        record(longout, "$(P)b") {{
            field(VAL, "0") field(PINI, "YES") field(LOW, "-3") field(LSV, "MAJOR")
        }}
        record(mbbo, "$(P)state") {{
            field(VAL, "0") field(PINI, "YES") field(ZRST, "off") field(ONST, "on")
            field(ONSV, "MINOR")
        }}
        record(stringout, "$(P)text") {{ field(VAL, "begin") field(PINI, "YES") }}
        record(ao, "$(P)still") {{ field(VAL, "5") field(PINI, "YES") field(EGU, "V") }}
        record(waveform, "$(P)source") {{
            field(FTVL, "DOUBLE") field(NELM, "4000") field(INP, "[{elements}]")
        }}
        record(waveform, "$(P)wave") {{
            field(FTVL, "DOUBLE") field(NELM, "4000") field(INP, "$(P)source")
        }}
        "#
    )
}

const RECORDS: [&str; 6] = ["a", "b", "state", "text", "still", "wave"];
const STEPS: u32 = 1_200;

/// Alarms come and go in it; at the end `b` is without alarm as at the beginning, `a` is not.
const BURST: &str = "
import time
for i in range(1, 1201):
    ioc('dbpf %sa %d' % (P, i % 700))
    ioc('dbpf %sb %d' % (P, -(i % 5)))
    if i % 7 == 0: ioc('dbpf %sstate %d' % (P, i // 7 % 2))
    if i % 50 == 0: ioc('dbpf %stext step%d' % (P, i))
    if i % 5 == 0: ioc('dbpf %swave.PROC 1' % P)
    if i == 600: ioc('dbpf %sstill.EGU mV' % P)
    if i % 2 == 0: time.sleep(.002)
ioc('dbpf %stext END' % P)
";

#[test]
fn stalled_client_catches_up_and_counts_what_it_skipped() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    // It stalls for longer than the usual times allow on a busy machine.
    let flags = ["--ack-window-ms", "60000", "--evict-after-ms", "60000"];
    let relay = Relay::start(network, &flags);
    let names = ioc.names(RECORDS);
    let small = How {
        receive_buffer: Some(4096),
        ..How::default()
    };
    let mut stalled = Client::connect_as(relay.address(), small);
    let mut same_set = Client::connect(relay.address());
    let mut fewer = Client::connect(relay.address());
    stalled.subscribe_live(&names);
    same_set.subscribe_live(&names);
    fewer.subscribe_live(&names[..2]);

    // A busy IOC leaves out many updates of the array, so that one burst may not fill the kernel's
    // buffers, and a busy relay makes longer ticks.
    let (mut round, mut end) = (0, Kept::text(""));
    while relay.metric("pvwire_frames_skipped_total") < 50.0 {
        round += 1;
        assert!(round < 20, "the client that reads nothing isn't behind");
        end = Kept::Text(format!("end{round}"));
        ioc.run(&BURST.replace("END", &format!("end{round}")));
        let mut others = [&mut same_set, &mut fewer];
        keep_up("the others have all of the burst", &mut others, |clients| {
            let text = clients[0].pv(&names[3]);
            let (a, b) = (&names[0], &names[1]);
            text.is(&end)
                && clients.iter().all(|client| {
                    client.pv(a).is_number(f64::from(STEPS % 700)) && client.pv(b).is_number(0.0)
                })
        });
    }
    assert_eq!(
        relay.metric("pvwire_updates_skipped_total{cause=\"relay\"}"),
        0.0
    );

    stalled.wait_pv(&names[3], "the end", |pv| pv.is(&end));
    // Behind it there may be the rest of the same tick, and the array that follows it.
    let (all, mut both) = (same_set.tick, [&mut stalled, &mut same_set]);
    keep_up("all ticks", &mut both, |clients| {
        let waves = clients.iter().map(|client| client.pv(&names[5]).sequence);
        clients[0].tick >= all && waves.collect::<HashSet<_>>().len() == 1
    });

    assert!(
        stalled.messages.iter().any(Message::is_catch_up),
        "it was never behind"
    );
    for name in &names {
        let (slow, truth) = (stalled.pv(name), same_set.pv(name));
        assert_eq!(slow.metadata, truth.metadata, "{name}");
        assert_eq!(slow.connection, truth.connection, "{name}");
        let (slow_now, truth_now) = (slow.now.as_ref().unwrap(), truth.now.as_ref().unwrap());
        assert_eq!(slow_now.value, truth_now.value, "{name}");
        assert_eq!(slow_now.alarm, truth_now.alarm, "{name}");
        assert_eq!(slow_now.time_ns, truth_now.time_ns, "{name}");
        assert_eq!(slow.sequence, truth.sequence, "{name}");
        // The other clients received everything, so their rows are complete.
        assert_eq!(truth.skipped, 0, "{name}");
        assert_eq!(
            slow.rows.len() as u64 + slow.skipped,
            truth.rows.len() as u64,
            "{name}"
        );
        // Everything that it received is correct.
        for row in &slow.rows {
            let place = (row.sequence - truth.rows[0].sequence) as usize;
            let true_row = &truth.rows[place];
            assert_eq!(
                (&row.value, row.alarm, row.time_ns),
                (&true_row.value, true_row.alarm, true_row.time_ns)
            );
        }
    }
    assert_eq!(stalled.pv(&names[4]).metadata.as_ref().unwrap().units, "mV");
    let (a, b) = (stalled.pv(&names[0]), stalled.pv(&names[1]));
    assert!(
        a.skipped > 100 && b.skipped > 100,
        "{} {}",
        a.skipped,
        b.skipped
    );
    assert_eq!(fewer.pv(&names[0]).skipped, 0);
    // `time` may separate values of equal content only: the others kept up all the time.
    for client in [&same_set, &fewer] {
        assert!(!client.messages.iter().any(Message::is_catch_up));
    }
    // It continues like any other client.
    let skipped = stalled.pv(&names[0]).skipped;
    for value in ["1", "2", "3"] {
        ioc.put("a", value);
        stalled.wait_number(&names[0], value.parse().unwrap());
    }
    assert_eq!(stalled.pv(&names[0]).skipped, skipped);
}

fn ticking() -> &'static str {
    r#"
    record(calc, "$(P)calc") { field(CALC, "VAL+1") field(SCAN, ".1 second") }
    record(ao, "$(P)ao") { field(VAL, "0") field(PINI, "YES") field(HIGH, "1") field(HSV, "MINOR") }
    "#
}

const SILENT: How = How {
    receive_buffer: None,
    acks: false,
    lz4: false,
    trust: None,
};

fn is_probe(client: &Client) -> bool {
    let last = client.messages.last();
    last.is_some_and(|last| (last.kind, last.rows) == (FrameKind::Update, 0))
}

#[test]
fn client_that_reads_and_says_nothing_is_probed_once() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, ticking());
    // A busy machine may delay the acknowledging client.
    let flags = ["--ack-window-ms", "2000", "--evict-after-ms", "60000"];
    let relay = Relay::start(network, &flags);
    let names = ioc.names(["calc", "ao"]);
    let mut silent = Client::connect_as(relay.address(), SILENT);
    let mut peer = Client::connect(relay.address());
    silent.subscribe_live(&names);
    peer.subscribe_live(&names);
    keep_up("an empty frame", &mut [&mut silent, &mut peer], |clients| {
        is_probe(clients[0])
    });

    let (frames, at) = (silent.messages.len(), peer.pv(&names[0]).rows.len());
    ioc.put("ao", "2");
    keep_up(
        "ten more updates for the other",
        &mut [&mut silent, &mut peer],
        |clients| {
            clients[1].pv(&names[0]).rows.len() >= at + 10
                && clients[1].pv(&names[1]).is_number(2.0)
        },
    );
    // Its requests are still answered; it receives no data.
    silent.ask(RequestBody::Ping { client_time_ns: 1 });
    assert_eq!(silent.messages.len(), frames);
    // Acknowledging only a part is not enough.
    silent.request(RequestBody::Ack { tick: 1 });
    silent.ask(RequestBody::Ping { client_time_ns: 2 });
    assert_eq!(silent.messages.len(), frames);

    silent.ack();
    silent.wait("a frame", |client| client.messages.len() > frames);
    let next = &silent.messages[frames];
    assert_eq!((next.kind, next.rows), (FrameKind::CatchUp, 2));
    let pv = silent.pv(&names[1]);
    assert!(pv.is_number(2.0));
    assert_eq!(pv.now.as_ref().unwrap().alarm.status, 4);
    assert!(silent.pv(&names[0]).skipped >= 9);
    assert_eq!(peer.pv(&names[0]).skipped, 0);
}

#[test]
fn pv_that_a_silent_client_subscribes_is_not_counted_as_skipped() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, ticking());
    let relay = Relay::start(
        network,
        &["--ack-window-ms", "200", "--evict-after-ms", "60000"],
    );
    let [calc, ao] = ioc.names(["calc", "ao"]);
    // The relay knows the second PV already.
    let mut peer = Client::connect(relay.address());
    peer.subscribe_live(&[&ao]);
    let mut silent = Client::connect_as(relay.address(), SILENT);
    silent.subscribe_live(&[&calc]);
    silent.wait("an empty frame", is_probe);

    ioc.put("ao", "2");
    peer.wait_number(&ao, 2.0);

    // The snapshot is an answer and is sent; the catch-up repeats parts of it without changes.
    assert_eq!(silent.subscribe(&[&ao]), []);
    assert!(silent.pv(&ao).is_number(2.0));
    silent.ack();
    silent.wait("a frame", |client| {
        client.messages.last().unwrap().kind == FrameKind::CatchUp
    });

    let pv = silent.pv(&ao);
    assert_eq!((pv.rows.len(), pv.skipped), (1, 0));
}

#[test]
fn client_that_never_answers_is_closed() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, ticking());
    let relay = Relay::start(
        network,
        &["--ack-window-ms", "1000", "--evict-after-ms", "2000"],
    );
    let name = ioc.name("calc");
    let start = Instant::now();
    let mut silent = Client::connect_as(relay.address(), SILENT);
    let mut peer = Client::connect(relay.address());
    silent.subscribe_live(&[&name]);
    peer.subscribe_live(&[&name]);

    keep_up(
        "the silent one is closed",
        &mut [&mut silent, &mut peer],
        |clients| clients[0].closed.is_some(),
    );

    assert_eq!(silent.closed, Some(CloseCode::NoProgress.number()));
    assert!(start.elapsed() >= Duration::from_millis(2500));
    assert!(
        silent.messages.iter().any(|message| message.rows == 0),
        "it was asked"
    );
    assert_eq!(peer.closed, None);
}

#[test]
fn client_without_subscriptions_may_be_silent() {
    let network = Network::new();
    let relay = Relay::start(
        network,
        &["--ack-window-ms", "100", "--evict-after-ms", "100"],
    );
    let mut idle = Client::connect_as(relay.address(), SILENT);
    let start = Instant::now();

    idle.wait("longer than evicted ones live", |_| {
        start.elapsed() > Duration::from_millis(1200)
    });

    idle.ask(RequestBody::Ping { client_time_ns: 1 });
    assert_eq!(relay.metric("pvwire_sessions_active"), 1.0);
}

#[test]
fn client_that_neither_reads_nor_answers_is_dropped() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, &database());
    let flags = ["--ack-window-ms", "10000", "--evict-after-ms", "1000"];
    let relay = Relay::start(network, &flags);
    let name = ioc.name("wave");
    let gone = How {
        receive_buffer: Some(4096),
        acks: false,
        lz4: false,
        trust: None,
    };
    let mut gone = Client::connect_as(relay.address(), gone);
    gone.subscribe_live(&[&name]);
    assert_eq!(relay.metric("pvwire_sessions_active"), 1.0);

    // The IOC leaves out what it can't send at once, so that no number of updates is sure to fill
    // the kernel's buffers.
    eventually("it is dropped", || {
        ioc.run("ioc('dbpf %swave.PROC 1' % P)");
        relay.metric("pvwire_sessions_active") == 0.0
    });
    relay.wait_metric("pvwire_sessions_closed_total", 1.0);
    // It notices this when it continues to read, without a close frame.
    gone.wait_closed();
}

const PING: RequestBody = RequestBody::Ping { client_time_ns: 1 };

#[test]
fn client_whose_network_is_gone_is_detected_without_traffic() {
    // A busy machine may delay the clients that are well by seconds.
    let flags = [
        "--ping-after-ms=500",
        "--evict-after-ms=6000",
        "--ack-window-ms=1000",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let near = relay.address();
    let wire = Wire::lay(near.port());
    let mut quiet = Client::connect(near);
    let far = (0..5).map(|_| Client::connect(([127, 0, 0, 2], near.port()).into()));
    let mut far: Vec<_> = far.collect();
    far[0].ask(PING);
    assert_eq!(relay.metric("pvwire_sessions_active"), 6.0);

    wire.set(true);
    eventually("they are gone", || {
        // It sends nothing except answers to pings.
        quiet.read_for_a_moment();
        relay.metric("pvwire_sessions_active") == 1.0
    });
    let no_progress = CloseCode::NoProgress.number();
    let closed = format!("pvwire_sessions_closed_total{{code=\"{no_progress}\"}}");
    relay.wait_metric(&closed, 5.0);
    quiet.ask(PING);
    assert_eq!(quiet.closed, None);
}

#[test]
fn stalled_client_gets_as_long_for_its_pong_as_for_its_data() {
    let flags = [
        "--ping-after-ms=500",
        "--evict-after-ms=3000",
        "--ack-window-ms=1000",
    ];
    let relay = Relay::start(Network::new(), &flags);
    // Its program no longer reads; its machine still works.
    let since = Instant::now();
    let stalled = Client::connect(relay.address());
    eventually("it is closed", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
    assert!(
        since.elapsed() >= Duration::from_secs(4),
        "{:?}",
        since.elapsed()
    );
    drop(stalled);
}

#[test]
fn client_that_is_never_asked_may_be_silent_for_ever() {
    let flags = [
        "--ping-after-ms=0",
        "--evict-after-ms=100",
        "--ack-window-ms=100",
    ];
    let relay = Relay::start(Network::new(), &flags);
    let mut silent = Client::connect_as(relay.address(), How::default());
    let asked = Client::connect(relay.address());
    let since = Instant::now();
    eventually("a while has passed", || {
        assert_eq!(relay.metric("pvwire_sessions_active"), 2.0);
        since.elapsed() > Duration::from_secs(3)
    });
    silent.ask(PING);
    drop(asked);
}
