//! A client learns when a PV connects, disconnects, returns, or returns with another type: before it gets
//! the first value of that type.
//!
//! Topology: one relay, one client that reads all the time, a soft IOC that restarts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pvwire_relay::ingest::{Event, Intake, Line, RowValue};
use pvwire_relay::state::table::{Changes, Now, Table};
use pvwire_schema::types::{
    Alarm, Connection, ConnectionState, Filter, Metadata, NameProblem, PvId, Severity, ValueType,
};
use testbed::{
    Client, Kept, Network, Pv, Relay, SoftIoc, Truth, eventually, prefix, relay_command, within,
};

fn states(pv: &Pv) -> Vec<ConnectionState> {
    let mut states: Vec<_> = pv
        .states
        .iter()
        .map(|connection| connection.state)
        .collect();
    states.dedup();
    states
}

#[test]
fn unknown_name_is_not_found_and_connects_when_an_ioc_comes() {
    let (network, prefix) = (Network::new(), prefix());
    let relay = Relay::start(network, &["--not-found-after-ms", "300"]);
    let mut client = Client::connect(relay.address());
    assert_eq!(client.hello.as_ref().unwrap().not_found_after_ms, 300);
    let name = format!("{prefix}ao");
    let mut names = std::iter::once(name.clone()).chain((0..).map(|n| format!("{prefix}other{n}")));

    within(Duration::from_millis(1300), "not found", || {
        let name = names.next().unwrap();
        let start = Instant::now();
        assert_eq!(client.subscribe(&[&name]), []);
        assert_eq!(client.pv(&name).state(), ConnectionState::Connecting);
        client.wait_state(&name, ConnectionState::NotFound);
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(300), "{took:?}");
        took
    });
    let connection = client.pv(&name).connection.unwrap();
    assert!(!connection.read && !connection.write);
    let (pvs, errors) = client.get(&[&name], 100);
    assert!(pvs[0].is_none());
    assert_eq!(errors[0].problem, NameProblem::TimedOut);

    let database = r#"record(ao, "$(P)ao") { field(VAL, "2") field(EGU, "V") }"#;
    let _ioc = SoftIoc::with_prefix(network, &prefix, database, "");
    client.wait_number(&name, 2.0);

    let pv = client.pv(&name);
    use ConnectionState::{Connected, Connecting, NotFound};
    assert_eq!(states(pv), [Connecting, NotFound, Connected]);
    assert!(pv.connection.unwrap().read);
    client.wait_pv(&name, "its unit", |pv| {
        pv.metadata
            .as_ref()
            .is_some_and(|metadata| metadata.units == "V")
    });
}

#[test]
fn metrics_say_how_many_pvs_are_gone() {
    let (network, prefix) = (Network::new(), prefix());
    let database = r#"record(ao, "$(P)a") {} record(ao, "$(P)b") {}"#;
    let ioc = SoftIoc::with_prefix(network, &prefix, database, "");
    let relay = Relay::start(network, &["--not-found-after-ms", "300"]);
    let mut client = Client::connect(relay.address());
    let names = ["a", "b", "nowhere"].map(|name| format!("{prefix}{name}"));
    client.subscribe(&names.each_ref().map(String::as_str));
    let pvs = |state: &str| relay.metric(&format!("pvwire_pvs{{state=\"{state}\"}}"));
    client.wait_state(&names[0], ConnectionState::Connected);
    client.wait_state(&names[1], ConnectionState::Connected);
    client.wait_state(&names[2], ConnectionState::NotFound);
    eventually("two are connected", || {
        (pvs("connected"), pvs("notFound")) == (2.0, 1.0)
    });
    // The values that begin a subscription are not among the ages.
    assert_eq!(relay.metric("pvwire_update_age_sent_seconds_count"), 0.0);

    ioc.kill();
    client.wait_state(&names[0], ConnectionState::Disconnected);
    client.wait_state(&names[1], ConnectionState::Disconnected);
    eventually("two are disconnected", || {
        (pvs("connected"), pvs("disconnected")) == (0.0, 2.0)
    });

    let _ioc = SoftIoc::with_prefix(network, &prefix, database, "");
    client.wait_state(&names[0], ConnectionState::Connected);
    client.wait_state(&names[1], ConnectionState::Connected);
    eventually("two are connected again", || {
        (pvs("connected"), pvs("disconnected")) == (2.0, 0.0)
    });
    assert_eq!(relay.metric("pvwire_update_age_sent_seconds_count"), 0.0);
    assert_eq!(relay.metric("pvwire_build_info"), 1.0);
}

#[test]
fn killed_ioc_shows_within_1_s_and_is_right_after_its_restart() {
    let (network, prefix) = (Network::new(), prefix());
    let database = |value: u32, units: &str, label: &str| {
        format!(
            r#"
            record(ai, "$(P)ai") {{
                field(VAL, "{value}") field(EGU, "{units}") field(PINI, "YES")
                field(HIHI, "2") field(HHSV, "MAJOR")
            }}
            record(mbbo, "$(P)mbbo") {{
                field(VAL, "{value}") field(ONST, "{label}") field(TWST, "{label}2")
                field(PINI, "YES")
            }}
            record(stringin, "$(P)text") {{ field(VAL, "v{value}") field(PINI, "YES") }}
            record(waveform, "$(P)wave") {{
                field(FTVL, "CHAR") field(NELM, "8") field(INP, [{value}, 7]) field(PINI, "YES")
            }}
            "#
        )
    };
    let start = || SoftIoc::with_prefix(network, &prefix, &database(1, "V", "one"), "");
    let ioc = start();
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let names = ioc.names(["ai", "mbbo", "text", "wave"]);
    client.subscribe_live(&names);
    let values = |client: &Client| names.each_ref().map(|name| client.pv(name).now.clone());

    let mut ioc = Some(ioc);
    within(Duration::from_secs(1), "disconnected", || {
        let ioc = ioc.take().unwrap_or_else(start);
        for name in &names {
            client.wait_state(name, ConnectionState::Connected);
        }
        let before = values(&client);
        let killed = Instant::now();
        ioc.kill();
        for name in &names {
            client.wait_state(name, ConnectionState::Disconnected);
        }
        let took = killed.elapsed();
        assert_eq!(values(&client), before, "the last value stays");
        took
    });
    let clock = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_nanos() as i64;
    for name in &names {
        let connection = client.pv(name).connection.unwrap();
        assert!(!connection.read && !connection.write);
        assert!((clock - 60_000_000_000..=clock).contains(&connection.since_ns));
        // Its one value came before it died, and after the relay had begun.
        let heard = connection.heard_ns;
        assert!((clock - 60_000_000_000..=connection.since_ns).contains(&heard));
    }
    // A client that comes now is told the same.
    let mut late = Client::connect(relay.address());
    late.subscribe(&names);
    assert_eq!(late.pv(&names[0]).state(), ConnectionState::Disconnected);
    assert!(late.pv(&names[0]).is_number(1.0));
    assert_eq!(late.get(&[&names[0]], 100).1[0].message, "disconnected");

    let mut ioc = SoftIoc::with_prefix(network, &prefix, &database(2, "mV", "uno"), "");
    client.wait_number(&names[0], 2.0);
    client.wait_number(&names[1], 2.0);
    client.wait_pv(&names[2], "v2", |pv| pv.is(&Kept::text("v2")));
    let wave = Kept::Array(ValueType::UInt8, vec![2, 7]);
    client.wait_pv(&names[3], "its elements", |pv| pv.is(&wave));
    client.wait_pv(&names[0], "the unit", |pv| {
        pv.metadata.as_ref().unwrap().units == "mV"
    });
    client.wait_pv(&names[1], "the label", |pv| {
        pv.metadata.as_ref().unwrap().choices[1] == "uno"
    });
    for name in &names {
        let connection = client.pv(name).connection.unwrap();
        assert_eq!(connection.state, ConnectionState::Connected);
        assert!(connection.read && connection.write);
        assert_eq!(client.pv(name).skipped, 0);
    }
    let alarm = client.pv(&names[0]).now.as_ref().unwrap().alarm;
    assert_eq!((alarm.severity, alarm.status), (Severity::Major, 3));
    ioc.put("ai", "3");
    client.wait_number(&names[0], 3.0);
}

#[test]
fn hung_ioc_shows_and_is_right_again_when_it_goes_on() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, r#"record(ao, "$(P)ao") { field(VAL, "1") }"#);
    // libca's patience is this and five seconds for an echo; the relay's default takes longer.
    let mut command = relay_command(network);
    command.env("EPICS_CA_CONN_TMO", "1");
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    let name = ioc.name("ao");
    client.subscribe_live(&[&name]);

    ioc.hang();
    client.wait_state(&name, ConnectionState::Disconnected);
    assert!(client.pv(&name).is_number(1.0));
    ioc.resume();
    client.wait_state(&name, ConnectionState::Connected);
    ioc.put("ao", "2");
    client.wait_number(&name, 2.0);
}

/// What a record is during one life of its IOC, and what is to be seen of it.
#[derive(Clone, Copy)]
struct Life {
    record: &'static str,
    value_type: ValueType,
    element_count: u32,
    value: fn() -> Kept,
    units: &'static str,
    choices: usize,
}

const SCALAR: Life = Life {
    record: r#"record(ai, "$(P)NAME") { field(VAL, "1") field(EGU, "V") }"#,
    value_type: ValueType::Float64,
    element_count: 1,
    value: || Kept::Number(1.0),
    units: "V",
    choices: 0,
};
const WAVEFORM: Life = Life {
    record: r#"record(waveform, "$(P)NAME") {
        field(FTVL, "DOUBLE") field(NELM, "4") field(INP, [7, 8]) field(EGU, "mA")
    }"#,
    value_type: ValueType::Float64,
    element_count: 4,
    value: || {
        Kept::Array(
            ValueType::Float64,
            [7.0, 8.0].map(f64::to_le_bytes).concat(),
        )
    },
    units: "mA",
    choices: 0,
};
const TEXT: Life = Life {
    record: r#"record(stringin, "$(P)NAME") { field(VAL, "text") }"#,
    value_type: ValueType::String,
    element_count: 1,
    value: || Kept::text("text"),
    units: "",
    choices: 0,
};
const ENUM: Life = Life {
    record: r#"record(mbbo, "$(P)NAME") {
        field(ZRST, "a") field(ONST, "b") field(VAL, "1") field(PINI, "YES")
    }"#,
    value_type: ValueType::Enum,
    element_count: 1,
    value: || Kept::Number(1.0),
    units: "",
    choices: 2,
};

#[test]
fn record_of_another_type_after_a_restart_shows_nothing_old() {
    let (network, prefix) = (Network::new(), prefix());
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let pvs = [
        ("a", [SCALAR, WAVEFORM]),
        ("b", [WAVEFORM, TEXT]),
        ("c", [TEXT, ENUM]),
        ("d", [ENUM, SCALAR]),
        ("e", [SCALAR, TEXT]),
    ];
    let names = pvs.map(|(name, _)| format!("{prefix}{name}"));
    assert_eq!(client.subscribe(&names), []);
    for number in 0..2 {
        let lives = || names.iter().zip(pvs.map(|(_, lives)| lives[number]));
        let database: String = pvs
            .iter()
            .map(|(name, lives)| lives[number].record.replace("NAME", name))
            .collect();
        let known: Vec<usize> = (names.iter().map(|name| client.pv(name).rows.len())).collect();
        let epochs = |client: &Client| {
            let metadata = names
                .each_ref()
                .map(|name| client.pv(name).metadata.clone());
            metadata.map(|metadata| metadata.map(|metadata| metadata.epoch))
        };
        let before = epochs(&client);
        let ioc = SoftIoc::with_prefix(network, &prefix, &database, "");
        for (name, life) in lives() {
            client.wait_pv(name, "the new type and its value", |pv| {
                let metadata = pv.metadata.as_ref();
                let is_new = metadata.is_some_and(|metadata| {
                    (metadata.value_type, metadata.element_count)
                        == (life.value_type, life.element_count)
                });
                is_new && pv.is(&(life.value)())
            });
        }
        for ((name, life), known) in lives().zip(known) {
            client.wait_pv(name, "its metadata", |pv| {
                let metadata = pv.metadata.as_ref().unwrap();
                (metadata.units.as_str(), metadata.choices.len()) == (life.units, life.choices)
            });
            let pv = client.pv(name);
            assert_eq!(pv.state(), ConnectionState::Connected);
            assert_eq!(pv.sequence, 1, "the sequence of {name} restarts at 1");
            let mut rows = pv.rows[known..].iter();
            assert!(rows.all(|row| row.value == (life.value)()), "{pv:?}");
        }
        for (before, now) in before.into_iter().zip(epochs(&client)) {
            assert_ne!(before, now);
        }
        // A client without a past sees the same.
        let (got, errors) = client.get(&names, 0);
        assert_eq!(errors, []);
        for (name, got) in names.iter().zip(got) {
            let (got, held) = (got.unwrap(), client.pv(name));
            assert_eq!((&got.metadata, &got.now.unwrap().value), {
                (&held.metadata, &held.now.as_ref().unwrap().value)
            });
        }

        ioc.kill();
        for name in &names {
            client.wait_state(name, ConnectionState::Disconnected);
        }
    }
}

#[test]
fn access_rights_are_those_of_the_iocs_rules_and_follow_them() {
    let (network, prefix) = (Network::new(), prefix());
    let rules = format!(
        "ASG(DEFAULT) {{ RULE(1, READ) RULE(1, WRITE) }}
         ASG(READONLY) {{ RULE(1, READ) }}
         ASG(SWITCHED) {{
            INPA(\"{prefix}switch\")
            RULE(1, READ)
            RULE(1, WRITE) {{ CALC(\"A>=1\") }}
         }}"
    );
    let database = r#"
        record(ao, "$(P)free") { field(VAL, "1") }
        record(ao, "$(P)readonly") { field(VAL, "2") field(ASG, "READONLY") }
        record(ao, "$(P)switched") { field(VAL, "3") field(ASG, "SWITCHED") }
        record(ao, "$(P)switch") { field(VAL, "0") field(PINI, "YES") }
    "#;
    let mut ioc = SoftIoc::with_prefix(network, &prefix, database, &rules);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let [free, readonly, switched] = ioc.names(["free", "readonly", "switched"]);
    client.subscribe_live(&[&free, &readonly, &switched]);
    let rights = |pv: &Pv| {
        pv.connection
            .map(|connection| (connection.read, connection.write))
    };
    assert_eq!(rights(client.pv(&free)), Some((true, true)));
    assert_eq!(rights(client.pv(&readonly)), Some((true, false)));

    for (position, write) in [("1", true), ("0", false), ("1", true)] {
        ioc.put("switch", position);
        client.wait_pv(&switched, "its rights", |pv| {
            rights(pv) == Some((true, write))
        });
    }
    let pv = client.pv(&switched);
    assert!(pv.is_number(3.0));
    assert_eq!(pv.state(), ConnectionState::Connected);
    let connected = |connection: &&Connection| connection.state == ConnectionState::Connected;
    let mut since: Vec<i64> = (pv.states.iter().filter(connected))
        .map(|connection| connection.since_ns)
        .collect();
    since.dedup();
    assert_eq!(since.len(), 1, "the state is as old as before");
}

#[test]
fn value_that_may_no_longer_be_read_is_withdrawn_from_clients() {
    let (network, prefix) = (Network::new(), prefix());
    let rules = format!(
        "ASG(DEFAULT) {{ RULE(1, READ) RULE(1, WRITE) }}
         ASG(SWITCHED) {{ INPA(\"{prefix}switch\") RULE(1, READ) {{ CALC(\"A>=1\") }} }}"
    );
    let database = r#"
        record(ai, "$(P)ai") {
            field(VAL, "3") field(EGU, "V") field(HIHI, "2") field(HHSV, "MAJOR")
            field(PINI, "YES") field(ASG, "SWITCHED")
        }
        record(waveform, "$(P)wave") {
            field(FTVL, "DOUBLE") field(NELM, "4") field(INP, [7, 8]) field(ASG, "SWITCHED")
        }
        record(mbbo, "$(P)mbbo") {
            field(ZRST, "a") field(ONST, "b") field(VAL, "1") field(PINI, "YES")
            field(ASG, "SWITCHED")
        }
        record(ao, "$(P)switch") { field(VAL, "1") field(PINI, "YES") }
    "#;
    let mut ioc = SoftIoc::with_prefix(network, &prefix, database, &rules);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let names = ioc.names(["ai", "wave", "mbbo"]);
    client.subscribe_live(&names);
    let filter = Filter {
        every: 1,
        min_interval_ms: 1,
        ..Filter::ALL
    };
    let mut filtered = Client::connect(relay.address());
    assert_eq!(filtered.subscribe_with(&names[..1], filter), []);
    filtered.wait_number(&names[0], 3.0);
    Truth::ask(network, &names).wait_equal(&mut client);

    // Taken away while connected, and a second time by an IOC that comes back without the right.
    for restarts in [false, true] {
        if restarts {
            ioc.kill();
            client.wait_state(&names[0], ConnectionState::Disconnected);
            let closed =
                database.replace("\"$(P)switch\") { field(VAL, \"1\")", "\"$(P)switch\") {");
            ioc = SoftIoc::with_prefix(network, &prefix, &closed, &rules);
        } else {
            ioc.put("switch", "0");
        }
        let is_withdrawn = |pv: &Pv| {
            let denied = |connection: Connection| {
                connection.state == ConnectionState::Connected && !connection.read
            };
            pv.connection.is_some_and(denied) && pv.now.is_none()
        };
        for name in &names {
            client.wait_pv(name, "no value", is_withdrawn);
        }
        let mut late = Client::connect(relay.address());
        assert_eq!(late.subscribe(&names), []);
        for name in &names {
            late.wait_pv(name, "no value", is_withdrawn);
            assert_eq!(
                late.pv(name).rows,
                [],
                "nothing of {name} is given to a new client"
            );
            let metadata = late.pv(name).metadata.as_ref().unwrap();
            assert_eq!((metadata.units.as_str(), metadata.choices.len()), ("", 0));
            assert_ne!(metadata.value_type, ValueType::Unknown);
        }
        filtered.wait_pv(&names[0], "no value", is_withdrawn);
        let (got, errors) = late.get(&names, 60_000);
        assert!(got.iter().all(Option::is_none));
        for error in errors {
            assert_eq!(error.problem, NameProblem::NotAllowed);
            assert!(error.message.starts_with("no read access"), "{error:?}");
        }

        // The value that was written meanwhile is the one that is seen.
        ioc.put("ai", "1");
        ioc.put("switch", "1");
        for client in [&mut client, &mut late] {
            client.wait_number(&names[0], 1.0);
            Truth::ask(network, &names).wait_equal(client);
            assert_eq!(client.pv(&names[0]).skipped, 0);
        }
        filtered.wait_number(&names[0], 1.0);
        ioc.put("ai", "3");
        for client in [&mut client, &mut late, &mut filtered] {
            client.wait_number(&names[0], 3.0);
        }
    }
}

const PV: PvId = PvId(0);

struct Stage {
    intake: Arc<Intake>,
    table: Table,
    tick: u64,
}

impl Stage {
    fn tick(&mut self) -> Changes {
        self.tick += 1;
        let mut changes = Changes {
            tick: self.tick,
            ..Changes::default()
        };
        let now = Now {
            instant: Instant::now(),
            wall_ns: 0,
        };
        let table = &mut self.table;
        self.intake
            .drain(|taken| table.apply(&mut changes, now, taken));
        changes
    }
}

fn update(line: &Line, number: f64) {
    let alarm = Alarm {
        severity: Severity::NoAlarm,
        status: 0,
    };
    line.update(1, RowValue::Number(number), alarm);
}

fn metadata(line: &Line, value_type: ValueType) {
    line.event(Event::Metadata(Box::new(Metadata {
        value_type,
        element_count: 1,
        epoch: line.epoch(),
        ..Metadata::default()
    })));
}

/// libca's two subscriptions answer one after the other, so a tick may end between value and
/// metadata. A client discards its value when the epoch changes: an earlier value of the new epoch
/// would be discarded too, for good if it doesn't change.
/// epoch that came before would be forgotten too, for good if it doesn't change.
#[test]
fn value_of_a_new_epoch_never_comes_before_its_metadata() {
    let intake = Intake::new();
    let line = Line::open(&intake, PV, false);
    let mut stage = Stage {
        intake,
        table: Table::new(Duration::from_secs(5)),
        tick: 0,
    };
    line.connected(false);
    metadata(&line, ValueType::Float64);
    update(&line, 1.0);
    stage.tick();
    line.event(Event::Disconnected);
    stage.tick();

    line.connected(true);
    update(&line, 2.0);
    let first = stage.tick();
    metadata(&line, ValueType::Enum);
    let second = stage.tick();

    let mut epoch = None;
    for changes in [first, second] {
        if let Some((_, metadata)) = changes.metadata.first() {
            epoch = Some(metadata.epoch);
        }
        if !changes.rows.is_empty() {
            assert_eq!(epoch, Some(line.epoch()), "a value without its epoch");
        }
    }
    assert_eq!(epoch, Some(line.epoch()));
    let entry = stage.table.entry(PV);
    assert_eq!(entry.latest.as_ref().unwrap().value, RowValue::Number(2.0));
    assert_eq!(entry.metadata.as_ref().unwrap().value_type, ValueType::Enum);
}
