//! Every kind of PV is right again in every field after an IOC or the relay restarted, or a client stalled or
//! lost read access under load.
//!
//! Topology: a soft IOC with each kind of record, a relay, clients, and an independent Channel
//! Access client for comparison.

use std::collections::HashSet;
use std::thread;
use std::time::{Duration, Instant};

use pvwire_schema::types::{ConnectionState, Severity};
use testbed::records::{KINDS, record};
use testbed::{
    Client, DEADLINE, How, Kept, Message, Network, Pv, Relay, SoftIoc, Truth, eventually, keep_up,
    prefix, within,
};

/// A database of `copies` of each kind, and the names of its PVs.
fn every_kind(prefix: &str, copies: u32, variant: u32) -> (String, Vec<String>) {
    let (mut database, mut names) = (String::new(), Vec::new());
    for copy in 0..copies {
        for (number, kind) in KINDS.iter().enumerate() {
            let name = format!("{prefix}{copy}:{number}");
            database += &record(kind, &name, variant + copy + number as u32);
            if *kind == "lso" {
                // As a long string, the way that clients ask for more than 39 bytes.
                names.push(format!("{name}.VAL$"));
            }
            names.push(name);
        }
    }
    (database, names)
}

#[test]
fn dead_ioc_leaves_every_kind_of_pv_disconnected_with_its_value() {
    let (network, prefix) = (Network::new(), prefix());
    let (database, names) = every_kind(&prefix, 1, 1);
    let start = || SoftIoc::with_prefix(network, &prefix, &database, "");
    let mut ioc = Some(start());
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);

    let mut last_truth = None;
    within(Duration::from_secs(1), "disconnected", || {
        let ioc = ioc.take().unwrap_or_else(start);
        let truth = last_truth.insert(Truth::ask(network, &names));
        truth.wait_equal(&mut client);
        let killed = Instant::now();
        ioc.kill();
        client.wait("every PV is disconnected", |client| {
            let mut pvs = names.iter().map(|name| client.pv(name));
            pvs.all(|pv| pv.state() == ConnectionState::Disconnected)
        });
        killed.elapsed()
    });

    let truth = last_truth.unwrap();
    let mut late = Client::connect(relay.address());
    assert_eq!(late.subscribe(&names), []);
    for name in &names {
        for pv in [client.pv(name), late.pv(name)] {
            // The last known state is kept; there are no access rights any more.
            let mut differences = truth.of(name).differences(pv);
            differences.retain(|field| !field.starts_with("access"));
            assert_eq!(
                differences,
                ["connection: Some(Disconnected), truth: Some(Connected)"],
                "{name}"
            );
        }
    }
}

#[test]
fn every_kind_of_pv_is_right_within_2_s_of_its_reconnect() {
    let (network, prefix) = (Network::new(), prefix());
    let (database, names) = every_kind(&prefix, 1, 1);
    let mut ioc = Some(SoftIoc::with_prefix(network, &prefix, &database, ""));
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    Truth::ask(network, &names).wait_equal(&mut client);

    // The same types with other values and metadata, then the original ones.
    let mut variant = 1;
    let mut restart = || {
        variant = 3 - variant;
        drop(ioc.take());
        client.wait("every PV is disconnected", |client| {
            let mut pvs = names.iter().map(|name| client.pv(name));
            pvs.all(|pv| pv.state() == ConnectionState::Disconnected)
        });
        let (database, _) = every_kind(&prefix, 1, variant);
        ioc = Some(SoftIoc::with_prefix(network, &prefix, &database, ""));
        let asked = names.clone();
        let asking = thread::spawn(move || Truth::ask(network, &asked));
        client.wait("every PV is connected and the truth known", |client| {
            let mut pvs = names.iter().map(|name| client.pv(name));
            pvs.all(|pv| pv.state() == ConnectionState::Connected) && asking.is_finished()
        });
        let connected = Instant::now();
        asking.join().unwrap().wait_equal(&mut client);
        let took = connected.elapsed();
        let skipped = names.iter().map(|name| client.pv(name).skipped);
        assert_eq!(skipped.sum::<u64>(), 0);
        took
    };
    for _ in 0..2 {
        within(Duration::from_secs(2), "right", &mut restart);
    }
}

#[test]
fn metadata_that_changed_while_the_ioc_was_dead_is_shown() {
    let (network, prefix) = (Network::new(), prefix());
    let database = |units: &str, precision: u32, label: &str, more: &str| {
        format!(
            r#"
            record(ai, "{prefix}ai") {{
                field(VAL, "1") field(EGU, "{units}") field(PREC, "{precision}")
                field(HOPR, "1{precision}") field(HIHI, "2{precision}") field(HHSV, "MAJOR")
            }}
            record(mbbo, "{prefix}mbbo") {{
                field(VAL, "0") field(ZRST, "{label}") field(ONST, "one") {more}
            }}
            record(bo, "{prefix}bo") {{ field(ZNAM, "{label}") field(ONAM, "on") }}
            record(waveform, "{prefix}wave") {{
                field(FTVL, "DOUBLE") field(NELM, "3") field(INP, [1, 2]) field(EGU, "{units}")
                field(PREC, "{precision}")
            }}
            "#
        )
    };
    let names = ["ai", "mbbo", "bo", "wave"].map(|record| format!("{prefix}{record}"));
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    assert_eq!(client.subscribe(&names), []);

    for database in [
        database("V", 1, "zero", ""),
        database("kelvin", 4, "null", r#"field(TWST, "two")"#),
        database("", 0, "", ""),
    ] {
        let ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
        client.wait_state(&names[0], ConnectionState::Connected);
        Truth::ask(network, &names).wait_equal(&mut client);
        ioc.kill();
        client.wait_state(&names[0], ConnectionState::Disconnected);
    }
}

/// The consecutive types of a PV; some differ only in the element count.
const CHAIN: [&str; 10] = [
    "ai",
    "SHORT",
    "mbbo",
    "stringin",
    "one of one",
    "FLOAT",
    "DOUBLE",
    "one element of many",
    "STRING",
    "empty",
];

#[test]
fn pv_that_changes_its_type_shows_nothing_of_the_old_one() {
    let (network, prefix) = (Network::new(), prefix());
    // Each PV starts at another position of the chain.
    let names: Vec<String> = (0..CHAIN.len())
        .map(|start| format!("{prefix}pv{start}"))
        .collect();
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    assert_eq!(client.subscribe(&names), []);
    let mut epochs = vec![HashSet::new(); names.len()];

    for life in 0..4 {
        let kinds = (0..names.len()).map(|start| CHAIN[(start + life) % CHAIN.len()]);
        let lives: Vec<_> = names.iter().zip(kinds).collect();
        let seen: Vec<_> = names
            .iter()
            .map(|name| client.pv(name).rows.len())
            .collect();
        let database: String = lives
            .iter()
            .map(|(name, kind)| record(kind, name, 3))
            .collect();
        let ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
        for name in &names {
            client.wait_state(name, ConnectionState::Connected);
        }
        let truth = Truth::ask(network, &names);
        truth.wait_equal(&mut client);

        let is_array = |value: &Kept| matches!(value, Kept::Array(..) | Kept::Texts(_));
        for (number, (name, kind)) in lives.iter().enumerate() {
            let (pv, told) = (client.pv(name), truth.of(name));
            let rows = &pv.rows[seen[number]..];
            for row in rows {
                assert_eq!(
                    is_array(&row.value),
                    is_array(&told.value),
                    "{kind}: {row:?}"
                );
            }
            assert_eq!(pv.sequence as usize, rows.len(), "{kind}");
            let epoch = pv.metadata.as_ref().unwrap().epoch;
            assert!(epochs[number].insert(epoch), "{kind}: {epochs:?}");
        }
        let mut late = Client::connect(relay.address());
        late.subscribe_live(&names);
        assert_eq!(truth.differences(|name| Some(late.pv(name))), [].into());

        ioc.kill();
        for name in &names {
            client.wait_state(name, ConnectionState::Disconnected);
        }
    }
}

/// Asks for the truth until it is what the client has.
fn wait_equal_at_last(network: Network, names: &[String], client: &mut Client) {
    let start = Instant::now();
    loop {
        let truth = Truth::ask(network, names);
        while client.read_for_a_moment() {}
        let differences = truth.differences(|name| Some(client.pv(name)));
        if differences.is_empty() {
            return;
        }
        assert!(start.elapsed() < DEADLINE, "{differences:#?}");
    }
}

#[test]
fn relay_killed_under_load_tells_the_truth_in_its_next_life() {
    let (network, prefix) = (Network::new(), prefix());
    let (mut database, mut names) = every_kind(&prefix, 4, 1);
    for number in 0..400 {
        database += &format!(
            r#"record(calc, "{prefix}calc{number}") {{
                field(CALC, "VAL+1") field(SCAN, ".1 second") field(HIGH, "10") field(HSV, "MINOR")
            }}"#
        );
        names.push(format!("{prefix}calc{number}"));
    }
    let mut ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
    let (counting, alarms) = (format!("{prefix}calc7"), format!("{prefix}calc8"));

    let begin = || {
        let relay = Relay::start(network, &[]);
        let mut clients = testbed::connect_all(relay.address(), 3);
        for client in &mut clients {
            client.subscribe_live(&names);
        }
        let mut all: Vec<&mut Client> = clients.iter_mut().collect();
        keep_up("ten updates for each", &mut all, |clients| {
            clients
                .iter()
                .all(|client| client.pv(&counting).rows.len() > 10)
        });
        (relay, clients)
    };
    for _ in 0..2 {
        within(Duration::from_secs(1), "closed", || {
            let (relay, mut clients) = begin();
            let killed = Instant::now();
            drop(relay);
            for client in &mut clients {
                assert_eq!(client.wait_closed(), 1006);
            }
            killed.elapsed()
        });
    }
    let (_relay, mut clients) = begin();
    // Only values that don't change can be compared.
    ioc.run("for i in range(400): ioc('dbpf %scalc%d.SCAN Passive' % (P, i))");
    let stopped = |ioc: &mut SoftIoc| ioc.ask(&format!("dbgf {prefix}calc399.SCAN"));
    eventually("no record is scanned any more", || {
        stopped(&mut ioc).contains("Passive")
    });
    // A scan that was under way may have changed some records after that.
    for client in &mut clients {
        wait_equal_at_last(network, &names, client);
        assert_eq!(client.pv(&alarms).skipped, 0);
    }
}

const ALARMED: usize = 300;

/// A thousand updates of a few PVs; among them each of the three hundred is updated, twice or once,
/// and half of them stay in alarm.
const BURST: &str = "
for i in range(300):
    for again in range(4): ioc('dbpf %sflood.PROC 1' % P)
    ioc('dbpf %sbusy %d' % (P, i))
    ioc('dbpf %sa%d 30' % (P, i))
    if i % 2 == 0: ioc('dbpf %sa%d 0.5' % (P, i))
    if i % 10 == 0: ioc('dbpf %sa%d.EGU new' % (P, i))
ioc('dbpf %send over' % P)
";

#[test]
fn client_that_stalls_during_an_alarm_flood_ends_in_the_truth() {
    let (network, prefix) = (Network::new(), prefix());
    let mut database: String = (0..ALARMED)
        .map(|number| record("ao", &format!("{prefix}a{number}"), 0))
        .collect();
    let elements = vec!["1"; 2_000].join(",");
    database += &format!(
        r#"
        record(waveform, "{prefix}elements") {{
            field(FTVL, "DOUBLE") field(NELM, "2000") field(INP, "[{elements}]")
        }}
        record(waveform, "{prefix}flood") {{
            field(FTVL, "DOUBLE") field(NELM, "2000") field(INP, "{prefix}elements")
        }}
        record(longout, "{prefix}busy") {{ field(VAL, "-1") field(PINI, "YES") }}
        record(stringout, "{prefix}end") {{ field(VAL, "not yet") field(PINI, "YES") }}
        "#
    );
    let mut ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
    // It stalls for longer than the usual times allow on a busy machine.
    let flags = ["--ack-window-ms", "60000", "--evict-after-ms", "60000"];
    let relay = Relay::start(network, &flags);
    let [flood, busy, end] = ioc.names(["flood", "busy", "end"]);
    let mut names = vec![flood, busy.clone(), end.clone()];
    names.extend((0..ALARMED).map(|number| ioc.name(&format!("a{number}"))));
    let small = How {
        receive_buffer: Some(4096),
        ..How::default()
    };
    let mut stalled = Client::connect_as(relay.address(), small);
    let mut reads = Client::connect(relay.address());
    stalled.subscribe_live(&names);
    reads.subscribe_live(&names);

    ioc.run(BURST);
    reads.wait_pv(&end, "the end", |pv| pv.is(&Kept::text("over")));
    // An IOC that has an array's update in its queue leaves the next one out: what it sends then
    // has the newer elements, but the older time stamp. With the queue empty there is nothing to
    // wait for.
    ioc.run("ioc('dbpf %sflood.PROC 1' % P)");
    ioc.settle();
    let truth = Truth::ask(network, &names);
    truth.wait_equal(&mut reads);
    let all = reads.tick;
    let mut both = [&mut stalled, &mut reads];
    keep_up("all ticks", &mut both, |clients| clients[0].tick >= all);
    truth.wait_equal(&mut stalled);

    assert!(stalled.messages.iter().any(Message::is_catch_up));
    assert!(stalled.pv(&busy).skipped > 50, "it hardly was behind");
    let mut severities = [0, 0];
    for name in &names {
        // On a busy machine the reading client may also be behind for a moment, and is told so.
        let counted = |pv: &Pv| pv.rows.len() as u64 + pv.skipped;
        let (slow, whole) = (stalled.pv(name), reads.pv(name));
        assert!(whole.skipped <= slow.skipped, "{name}");
        assert_eq!(counted(slow), counted(whole), "{name}");
        let severity = truth.of(name).alarm.severity;
        severities[usize::from(severity == Severity::Major)] += 1;
    }
    assert_eq!(severities, [ALARMED / 2 + 3, ALARMED / 2]);
}

#[test]
fn write_access_taken_from_a_group_is_gone_for_each_of_its_pvs() {
    let (network, prefix) = (Network::new(), prefix());
    let rules = format!(
        "ASG(DEFAULT) {{ RULE(1, READ) RULE(1, WRITE) }}
         ASG(SWITCHED) {{
            INPA(\"{prefix}switch\")
            RULE(1, READ)
            RULE(1, WRITE) {{ CALC(\"A>=1\") }}
         }}"
    );
    let mut database = format!(r#"record(ao, "{prefix}switch") {{ field(VAL, "1") }}"#);
    for number in 0..200 {
        database += &format!(
            r#"record(calc, "{prefix}{number}") {{
                field(CALC, "VAL+1") field(SCAN, ".1 second") field(ASG, "SWITCHED")
            }}"#
        );
    }
    let mut ioc = SoftIoc::with_prefix(network, &prefix, &database, &rules);
    let relay = Relay::start(network, &[]);
    let names: Vec<String> = (0..200).map(|number| format!("{prefix}{number}")).collect();
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    let writable = |client: &Client| {
        let connections = names.iter().map(|name| client.pv(name).connection.unwrap());
        connections.filter(|connection| connection.write).count()
    };
    client.wait("all may be written", |client| writable(client) == 200);

    for (position, count) in [("0", 0), ("1", 200), ("0", 0)] {
        ioc.put("switch", position);
        client.wait("the rights follow", |client| writable(client) == count);
        let truth = Truth::ask(network, &names);
        assert!(names.iter().all(|name| truth.of(name).write == (count > 0)));
        let mut late = Client::connect(relay.address());
        late.subscribe_live(&names);
        assert_eq!(writable(&late), count);
    }
}
