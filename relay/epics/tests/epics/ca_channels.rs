//! Channels of Channel Access while IOCs are killed, hang or change, and while clients close them.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pvwire_epics::ca::{
    AccessRights, BadName, ChannelEvents, ChannelInfo, Client, MAX_NAME_BYTES, Metadata,
    NativeType, Update,
};
use pvwire_epics::panics_caught;

use crate::support::ca::{Event, OwnValue, Recorder, array, open};
use crate::support::{Server, eventually, in_own_process, prefix};

#[test]
fn killed_ioc_disconnects_and_comes_back() {
    in_own_process!("killed_ioc_disconnects_and_comes_back", || {
        let database = b"record(ai, \"$(P)ai\") { field(VAL, \"1\") field(EGU, \"V\") }";
        let prefix = prefix();
        let ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        let (recorder, _channel) = open(&client, &format!("{prefix}ai"));
        recorder.wait_value(0, &OwnValue::Number(1.0));
        recorder.wait_metadata(0, |metadata| metadata.units == "V");

        ioc.kill();
        let down = recorder.wait_disconnected(0);
        let (rights, ()) = recorder.wait(down, "loss of rights", |event| {
            let none = AccessRights {
                read: false,
                write: false,
            };
            (*event == Event::Access(none)).then_some(())
        });
        assert_eq!(rights, down + 1);

        let mut ioc = Server::soft_ioc(&prefix, database);
        let (up, info) = recorder.wait_connected(down);
        assert!(!info.type_changed);
        recorder.wait_value(up, &OwnValue::Number(1.0));
        recorder.wait_metadata(up, |metadata| metadata.units == "V");
        ioc.put(&format!("{prefix}ai"), "2");
        recorder.wait_value(up, &OwnValue::Number(2.0));
        let silent = &recorder.events()[down + 2..up];
        assert!(
            silent.iter().all(|event| matches!(event, Event::Access(_))),
            "{silent:?} came while disconnected"
        );
    });
}

#[test]
fn hung_ioc_disconnects_and_comes_back_with_its_value() {
    in_own_process!("hung_ioc_disconnects_and_comes_back_with_its_value", || {
        let database = b"record(ai, \"$(P)ai\") { field(VAL, \"1\") }";
        let prefix = prefix();
        let ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        let (recorder, _channel) = open(&client, &format!("{prefix}ai"));
        recorder.wait_value(0, &OwnValue::Number(1.0));
        let signal = |name: &str| {
            let sent = Command::new("kill")
                .args([format!("-{name}"), ioc.id().to_string()])
                .status();
            assert!(sent.unwrap().success());
        };

        signal("STOP");
        let down = recorder.wait_disconnected(0);
        signal("CONT");
        let (up, info) = recorder.wait_connected(down);

        assert!(!info.type_changed);
        recorder.wait_value(up, &OwnValue::Number(1.0));
    });
}

/// What a record is during one life of the IOC, and what is to be seen of it.
struct Life {
    record: &'static str,
    native_type: NativeType,
    element_count: u32,
    value: OwnValue,
    /// A put, and the value after it.
    put: (&'static str, OwnValue),
    units: &'static str,
    choices: usize,
}

fn scalar_life() -> Life {
    Life {
        record: "record(ai, \"$(P)NAME\") { field(VAL, \"1\") field(EGU, \"V\") }",
        native_type: NativeType::Double,
        element_count: 1,
        value: OwnValue::Number(1.0),
        put: ("2", OwnValue::Number(2.0)),
        units: "V",
        choices: 0,
    }
}

fn array_life() -> Life {
    let doubles = |doubles: &[f64]| {
        let elements: Vec<_> = doubles.iter().map(|double| double.to_ne_bytes()).collect();
        array(NativeType::Double, &elements)
    };
    Life {
        record: "record(waveform, \"$(P)NAME\") {
            field(FTVL, \"DOUBLE\") field(NELM, \"5\") field(INP, [7, 8]) field(EGU, \"mV\")
        }",
        native_type: NativeType::Double,
        element_count: 5,
        value: doubles(&[7.0, 8.0]),
        put: ("9", doubles(&[9.0])),
        units: "mV",
        choices: 0,
    }
}

fn longer_array_life() -> Life {
    Life {
        record: "record(waveform, \"$(P)NAME\") {
            field(FTVL, \"DOUBLE\") field(NELM, \"7\") field(INP, [7, 8]) field(EGU, \"mV\")
        }",
        element_count: 7,
        ..array_life()
    }
}

fn string_life() -> Life {
    Life {
        record: "record(stringin, \"$(P)NAME\") { field(VAL, \"text\") }",
        native_type: NativeType::String,
        element_count: 1,
        value: OwnValue::Text(b"text".to_vec()),
        put: ("more", OwnValue::Text(b"more".to_vec())),
        units: "",
        choices: 0,
    }
}

fn enum_life() -> Life {
    Life {
        record: "record(mbbo, \"$(P)NAME\") { field(ZRST, \"a\") field(ONST, \"b\") }",
        native_type: NativeType::Enum,
        element_count: 1,
        value: OwnValue::Number(0.0),
        put: ("b", OwnValue::Number(1.0)),
        units: "",
        choices: 2,
    }
}

#[test]
fn changed_type_after_a_restart_is_followed() {
    in_own_process!("changed_type_after_a_restart_is_followed", || {
        const LIVES: usize = 3;
        let pvs: [(&str, [Life; LIVES]); 4] = [
            ("a", [scalar_life(), array_life(), string_life()]),
            ("b", [string_life(), enum_life(), scalar_life()]),
            ("c", [array_life(), longer_array_life(), enum_life()]),
            ("d", [enum_life(), string_life(), string_life()]),
        ];
        let prefix = prefix();
        let client = Client::start().unwrap();
        let opened = pvs
            .each_ref()
            .map(|(name, _)| open(&client, &format!("{prefix}{name}")));
        let mut from = [0; 4];
        for life in 0..LIVES {
            let database: String = pvs
                .iter()
                .map(|(name, lives)| lives[life].record.replace("NAME", name) + "\n")
                .collect();
            let mut ioc = Server::soft_ioc(&prefix, database.as_bytes());
            for (((name, lives), (recorder, _)), from) in pvs.iter().zip(&opened).zip(&mut from) {
                let now = &lives[life];
                let before = life.checked_sub(1).map(|before| &lives[before]);
                let (up, info) = recorder.wait_connected(*from);
                let expected = ChannelInfo {
                    native_type: now.native_type,
                    element_count: now.element_count,
                    type_changed: before.is_some_and(|before| {
                        (before.native_type, before.element_count)
                            != (now.native_type, now.element_count)
                    }),
                };
                assert_eq!(info, expected, "{name} in life {life}");
                let (_, first) = recorder.wait_update(up, |_| true);
                assert_eq!(first.value, now.value, "{name} in life {life}");
                let (_, metadata) = recorder.wait_metadata(up, |_| true);
                assert_eq!(metadata.units, now.units, "{name} in life {life}");
                assert_eq!(metadata.choices.len(), now.choices, "{name} in life {life}");
                let (put, after) = &now.put;
                ioc.put(&format!("{prefix}{name}"), put);
                recorder.wait_value(up, after);
                *from = up;
            }
            ioc.kill();
            for ((recorder, _), from) in opened.iter().zip(&mut from) {
                *from = recorder.wait_disconnected(*from);
            }
        }
    });
}

#[test]
fn access_rights_follow_the_iocs_rules() {
    in_own_process!("access_rights_follow_the_iocs_rules", || {
        let prefix = prefix();
        let rules = format!(
            "ASG(DEFAULT) {{ RULE(1, READ) RULE(1, WRITE) }}
             ASG(READONLY) {{ RULE(1, READ) }}
             ASG(HIDDEN)
             ASG(SWITCHED) {{
                INPA(\"{prefix}switch\")
                RULE(1, READ) {{ CALC(\"A>=1\") }}
                RULE(1, WRITE) {{ CALC(\"A>=2\") }}
             }}"
        );
        let database = b"
            record(ao, \"$(P)free\") { field(VAL, \"1\") }
            record(ao, \"$(P)readonly\") { field(VAL, \"2\") field(ASG, \"READONLY\") }
            record(ao, \"$(P)hidden\") { field(VAL, \"3\") field(ASG, \"HIDDEN\") }
            record(ao, \"$(P)switched\") { field(VAL, \"4\") field(ASG, \"SWITCHED\") }
            record(ao, \"$(P)switch\") { field(VAL, \"0\") field(PINI, \"YES\") }
        ";
        let mut ioc = Server::with_access_security(&prefix, database, &rules);
        let client = Client::start().unwrap();
        let open = |name: &str| open(&client, &format!("{prefix}{name}"));
        let wait_rights = |recorder: &Recorder, from, read, write| {
            let wanted = Event::Access(AccessRights { read, write });
            recorder
                .wait(from, "such rights", |event| {
                    (*event == wanted).then_some(())
                })
                .0
        };

        let (free, _free) = open("free");
        wait_rights(&free, 0, true, true);
        let (readonly, _readonly) = open("readonly");
        wait_rights(&readonly, 0, true, false);
        readonly.wait_value(0, &OwnValue::Number(2.0));
        let (hidden, _hidden) = open("hidden");
        wait_rights(&hidden, 0, false, false);
        hidden.wait_connected(0);

        let (switched, _switched) = open("switched");
        let mut at = wait_rights(&switched, 0, false, false);
        for (position, read, write) in [
            ("1", true, false),
            ("2", true, true),
            ("1", true, false),
            ("0", false, false),
        ] {
            ioc.put(&format!("{prefix}switch"), position);
            at = wait_rights(&switched, at + 1, read, write);
        }
        switched.wait_value(0, &OwnValue::Number(4.0));
        let nothing = hidden.events();
        assert!(
            !nothing
                .iter()
                .any(|event| matches!(event, Event::Update(_))),
            "{nothing:?}"
        );
    });
}

#[test]
fn closed_channel_is_silent_and_forgotten() {
    in_own_process!("closed_channel_is_silent_and_forgotten", || {
        const RECORDS: usize = 100;
        const CHANNELS: usize = 1_000;
        let database: String = (0..RECORDS)
            .map(|n| {
                format!(
                    "record(calc, \"$(P){n}\") {{
                        field(CALC, \"VAL+1\") field(SCAN, \".1 second\")
                    }}\n"
                )
            })
            .collect();
        let prefix = prefix();
        let _ioc = Server::soft_ioc(&prefix, database.as_bytes());
        let client = Client::start().unwrap();
        let (witness, _witness) = open(&client, &format!("{prefix}0"));
        let (mut seen, _) = witness.wait_update(0, |_| true);
        let closed = |recorders: &[Arc<Recorder>]| {
            eventually("all sinks are dropped", || {
                recorders.iter().all(|sink| Arc::strong_count(sink) == 1)
            });
        };

        // Closed at different points of their lives: at once, when connected, amid updates.
        let mut all = Vec::new();
        for updates_first in [0, 0, 1, 3] {
            let (sinks, channels): (Vec<_>, Vec<_>) = (0..CHANNELS)
                .map(|n| open(&client, &format!("{prefix}{}", n % RECORDS)))
                .unzip();
            for sink in &sinks {
                let mut from = 0;
                for _ in 0..updates_first {
                    from = sink.wait_update(from, |_| true).0 + 1;
                }
            }
            drop(channels);
            closed(&sinks);
            all.extend(sinks);
        }

        let lengths: Vec<_> = all.iter().map(|sink| sink.len()).collect();
        for _ in 0..5 {
            seen = witness.wait_update(seen + 1, |_| true).0;
        }
        let lengths_later: Vec<_> = all.iter().map(|sink| sink.len()).collect();
        assert_eq!(lengths, lengths_later);
        assert!(lengths.iter().sum::<usize>() > 4 * CHANNELS);
        assert_eq!(panics_caught(), 0);
    });
}

/// Established connections of this machine to the IOC's port, whose number is this test's alone.
fn circuits() -> usize {
    let port: u16 = std::env::var("EPICS_CA_SERVER_PORT")
        .unwrap()
        .parse()
        .unwrap();
    let connections = std::fs::read_to_string("/proc/self/net/tcp").unwrap();
    let there = |line: &&str| {
        let mut words = line.split_whitespace().skip(2);
        let remote = words.next().unwrap_or_default();
        remote.ends_with(&format!(":{port:04X}")) && words.next() == Some("01")
    };
    connections.lines().filter(there).count()
}

#[test]
fn thousands_of_channels_of_one_server_share_few_circuits() {
    in_own_process!(
        "thousands_of_channels_of_one_server_share_few_circuits",
        || {
            const CHANNELS: usize = 12_000;
            struct First(AtomicUsize);
            impl ChannelEvents for First {
                fn connected(&self, _: ChannelInfo) {}
                fn disconnected(&self) {}
                fn access_rights(&self, _: AccessRights) {}
                fn metadata(&self, _: Metadata) {}
                fn update(&self, _: Update<'_>) {
                    self.0.fetch_add(1, Ordering::Relaxed);
                }
            }
            let record = |number| format!("record(ai, \"$(P){number}\") {{}}\n");
            let database: String = (0..CHANNELS).map(record).collect();
            let prefix = prefix();
            let _ioc = Server::soft_ioc(&prefix, database.as_bytes());
            let client = Client::start().unwrap();
            let first = Arc::new(First(AtomicUsize::new(0)));
            let open = |number| client.open(&format!("{prefix}{number}"), Arc::clone(&first) as _);
            let few: Vec<_> = (0..100).map(open).collect();
            eventually("values of the few", || {
                first.0.load(Ordering::Relaxed) == 100
            });
            assert_eq!(circuits(), 1, "few channels have one circuit");
            let more: Vec<_> = (100..CHANNELS).map(open).collect();
            eventually("values of all", || {
                first.0.load(Ordering::Relaxed) == CHANNELS
            });
            // A server's work for one circuit grows with the square of the channels. Where searches
            // take longer than they are waited for, a circuit gets some more.
            let most = CHANNELS.div_ceil(5_000);
            assert!((2..=most).contains(&circuits()), "{}", circuits());
            drop((few, more));
            eventually("their end", || circuits() == 0);
        }
    );
}

#[test]
fn panic_in_a_sink_costs_one_event() {
    struct Panics;
    impl ChannelEvents for Panics {
        fn connected(&self, _: ChannelInfo) {}
        fn disconnected(&self) {}
        fn access_rights(&self, _: AccessRights) {}
        fn metadata(&self, _: Metadata) {}
        fn update(&self, _: Update<'_>) {
            panic!("as the test wants");
        }
    }
    in_own_process!("panic_in_a_sink_costs_one_event", || {
        let database =
            b"record(calc, \"$(P)calc\") { field(CALC, \"VAL+1\") field(SCAN, \".1 second\") }";
        let prefix = prefix();
        let _ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        let name = format!("{prefix}calc");
        let _panics = client.open(&name, Arc::new(Panics)).unwrap();
        eventually("a panic is counted", || panics_caught() > 0);

        let (recorder, _channel) = open(&client, &name);
        let mut from = 0;
        for _ in 0..3 {
            from = recorder.wait_update(from, |_| true).0 + 1;
        }
        eventually("further panics are counted", || panics_caught() > 2);
    });
}

#[test]
fn dropped_client_closes_its_channels() {
    in_own_process!("dropped_client_closes_its_channels", || {
        let database = b"record(ai, \"$(P)ai\") { field(VAL, \"1\") }";
        let prefix = prefix();
        let _ioc = Server::soft_ioc(&prefix, database);
        for _ in 0..3 {
            let client = Client::start().unwrap();
            let (found, channel) = open(&client, &format!("{prefix}ai"));
            let (unknown, unknown_channel) = open(&client, &format!("{prefix}nobody"));
            found.wait_value(0, &OwnValue::Number(1.0));

            drop(client);

            assert_eq!(Arc::strong_count(&found), 1);
            assert_eq!(Arc::strong_count(&unknown), 1);
            assert!(unknown.events().is_empty());
            drop((channel, unknown_channel));
        }
    });
}

#[test]
fn names_that_cannot_be_are_refused() {
    in_own_process!("names_that_cannot_be_are_refused", || {
        let client = Client::start().unwrap();
        let refused = |name: &str| client.open(name, Recorder::new()).unwrap_err();

        assert_eq!(refused(""), BadName::Empty);
        assert_eq!(refused("a\0b"), BadName::InteriorNul { at: 1 });
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        assert_eq!(
            refused(&long),
            BadName::TooLong {
                length: MAX_NAME_BYTES + 1
            }
        );
    });
}

#[test]
fn longest_name_is_found() {
    in_own_process!("longest_name_is_found", || {
        let database = b"record(ai, \"$(P)ai\") { field(VAL, \"1\") }";
        let prefix = prefix();
        let _ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        // Blanks in a filter are allowed, and make a name as long as one likes.
        let (head, tail) = (format!("{prefix}ai.VAL{{"), "\"ts\":{}}");
        let blanks = " ".repeat(MAX_NAME_BYTES - head.len() - tail.len());
        let (recorder, _channel) = open(&client, &format!("{head}{blanks}{tail}"));

        recorder.wait_value(0, &OwnValue::Number(1.0));
    });
}
