//! Does the client tell what a real IOC does, and nothing else?

use std::collections::HashMap;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pvwire_epics::ca::{
    AccessRights, BadName, Channel, ChannelEvents, ChannelInfo, Client, Limits, MAX_NAME_BYTES,
    Metadata, NativeType, Update,
};
use pvwire_epics::panics_caught;

use crate::support::ca::{Event, OwnValue, Recorder};
use crate::support::{Server, eventually, in_own_process, prefix};

fn open(client: &Client, name: &str) -> (Arc<Recorder>, Channel) {
    let recorder = Recorder::new();
    let channel = client.open(name, recorder.clone()).unwrap();
    (recorder, channel)
}

fn limits(low: f64, high: f64) -> Limits {
    Limits { low, high }
}

/// NaN equals NaN: "no limit" is the same as "no limit".
fn same(a: Limits, b: Limits) -> bool {
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    same(a.low, b.low) && same(a.high, b.high)
}

fn array<const N: usize>(native: NativeType, elements: &[[u8; N]]) -> OwnValue {
    OwnValue::Array(native, elements.len() as u32, elements.concat())
}

fn in_40_bytes(text: &str) -> [u8; 40] {
    let mut bytes = [0; 40];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    bytes
}

#[test]
fn values_of_every_type_arrive_exactly() {
    in_own_process!("values_of_every_type_arrive_exactly", || {
        let database = b"
            record(ai, \"$(P)ai\") { field(VAL, \"0.1\") field(PREC, \"3\") field(TPRO, \"0\") }
            record(longout, \"$(P)longout\") { field(VAL, \"-2147483648\") }
            record(bi, \"$(P)bi\") { field(VAL, \"1\") field(ZNAM, \"off\") field(ONAM, \"on\") }
            record(mbbo, \"$(P)mbbo\") { field(VAL, \"2\") field(TWST, \"two\") }
            record(stringin, \"$(P)stringin\") { field(VAL, \"caf\xe9\") }
            record(calc, \"$(P)calc\") { field(CALC, \"6*7\") field(PINI, \"YES\") }
            record(waveform, \"$(P)one\") {
                field(FTVL, \"FLOAT\") field(NELM, \"1\") field(INP, [0.1])
            }
            record(waveform, \"$(P)char\") {
                field(FTVL, \"CHAR\") field(NELM, \"16\") field(INP, [72, 105, 0])
            }
            record(waveform, \"$(P)short\") {
                field(FTVL, \"SHORT\") field(NELM, \"4\") field(INP, [-1, 2])
            }
            record(waveform, \"$(P)long\") {
                field(FTVL, \"LONG\") field(NELM, \"4\") field(INP, [-70000])
            }
            record(waveform, \"$(P)float\") {
                field(FTVL, \"FLOAT\") field(NELM, \"3\") field(INP, [0.5, 0.1, -2])
            }
            record(waveform, \"$(P)double\") {
                field(FTVL, \"DOUBLE\") field(NELM, \"100000\") field(INP, [0.1, 1e300])
            }
            record(waveform, \"$(P)string\") {
                field(FTVL, \"STRING\") field(NELM, \"3\") field(INP, [\"a\", \"bc\"])
            }
            record(waveform, \"$(P)empty\") { field(FTVL, \"DOUBLE\") field(NELM, \"9\") }
        ";
        use NativeType::{Char, Double, Enum, Float, Long, Short, String};
        let cases = [
            ("ai", Double, 1, OwnValue::Number(0.1)),
            ("ai.PREC", Short, 1, OwnValue::Number(3.0)),
            ("ai.TPRO", Char, 1, OwnValue::Number(0.0)),
            ("longout", Long, 1, OwnValue::Number(-2_147_483_648.0)),
            ("bi", Enum, 1, OwnValue::Number(1.0)),
            ("mbbo", Enum, 1, OwnValue::Number(2.0)),
            ("stringin", String, 1, OwnValue::Text(b"caf\xe9".to_vec())),
            (
                "stringin.VAL$",
                Char,
                40,
                array(Char, &[[b'c'], [b'a'], [b'f'], [0xe9], [0]]),
            ),
            ("calc", Double, 1, OwnValue::Number(42.0)),
            ("one", Float, 1, OwnValue::Number(0.1_f32.into())),
            ("char", Char, 16, array(Char, &[[72], [105], [0]])),
            (
                "short",
                Short,
                4,
                array(Short, &[(-1_i16).to_ne_bytes(), 2_i16.to_ne_bytes()]),
            ),
            ("long", Long, 4, array(Long, &[(-70_000_i32).to_ne_bytes()])),
            (
                "float",
                Float,
                3,
                array(Float, &[0.5_f32, 0.1, -2.0].map(f32::to_ne_bytes)),
            ),
            (
                "double",
                Double,
                100_000,
                array(Double, &[0.1_f64, 1e300].map(f64::to_ne_bytes)),
            ),
            (
                "string",
                String,
                3,
                array(String, &["a", "bc"].map(in_40_bytes)),
            ),
            ("empty", Double, 9, OwnValue::Array(Double, 0, Vec::new())),
        ];
        let prefix = prefix();
        let _ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        let opened = cases.map(|(name, native_type, element_count, value)| {
            let (recorder, channel) = open(&client, &format!("{prefix}{name}"));
            (name, native_type, element_count, value, recorder, channel)
        });

        for (name, native_type, element_count, value, recorder, _channel) in opened {
            let (connected, info) = recorder.wait_connected(0);
            let expected = ChannelInfo {
                native_type,
                element_count,
                type_changed: false,
            };
            assert_eq!(info, expected, "{name}");
            let (_, update) = recorder.wait_update(connected, |_| true);
            assert_eq!(update.value, value, "{name}");
            recorder.wait_metadata(connected, |_| true);
            let early = &recorder.events()[..connected];
            assert!(
                early.iter().all(|event| matches!(event, Event::Access(_))),
                "{name}: {early:?} came before the connect"
            );
        }
    });
}

#[test]
fn stamps_are_the_iocs_to_the_nanosecond() {
    in_own_process!("stamps_are_the_iocs_to_the_nanosecond", || {
        let database = b"
            record(calc, \"$(P)calc\") { field(CALC, \"VAL+1\") field(SCAN, \".1 second\") }
            record(ai, \"$(P)never\") {}
        ";
        let prefix = prefix();
        let _ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        // A filter of the IOC that puts a part of the stamp in the place of the value.
        let part = |number: &str| {
            let filter = format!(r#"{{"ts":{{"num":"{number}","epoch":"unix"}}}}"#);
            open(&client, &format!("{prefix}calc.VAL{filter}"))
        };
        let ((seconds, _seconds), (nanoseconds, _nanoseconds)) = (part("sec"), part("nsec"));
        let (plain, _plain) = open(&client, &format!("{prefix}calc"));
        let (never, _never) = open(&client, &format!("{prefix}never"));

        let (mut from_seconds, mut from_nanoseconds) = (0, 0);
        for _ in 0..5 {
            let (at, update) = seconds.wait_update(from_seconds, |_| true);
            from_seconds = at + 1;
            let whole = update.time_ns / 1_000_000_000;
            assert_eq!(update.value, OwnValue::Number(whole as f64));

            let (at, update) = nanoseconds.wait_update(from_nanoseconds, |_| true);
            from_nanoseconds = at + 1;
            let rest = update.time_ns % 1_000_000_000;
            assert_eq!(update.value, OwnValue::Number(rest as f64));
        }
        // The latest of them is also a stamp of the plain channel.
        let (_, latest) = nanoseconds.wait_update(from_nanoseconds, |_| true);
        plain.wait_update(0, |update| update.time_ns == latest.time_ns);

        let (_, update) = never.wait_update(0, |_| true);
        assert_eq!(update.time_ns, 631_152_000_000_000_000);
        assert_eq!((update.severity, update.status), (3, 17), "INVALID, UDF");
    });
}

#[test]
fn alarms_come_with_the_value_that_raised_them() {
    in_own_process!("alarms_come_with_the_value_that_raised_them", || {
        let database = b"
            record(ai, \"$(P)ai\") {
                field(HIHI, \"9\") field(HIGH, \"8\") field(LOW, \"-8\") field(LOLO, \"-9\")
                field(HHSV, \"MAJOR\") field(HSV, \"MINOR\") field(LSV, \"MINOR\")
                field(LLSV, \"MAJOR\")
            }
        ";
        let prefix = prefix();
        let mut ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        let (recorder, _channel) = open(&client, &format!("{prefix}ai"));
        let (mut from, _) = recorder.wait_update(0, |_| true);

        // Status: 3 HIHI, 4 HIGH, 5 LOLO, 6 LOW.
        for (value, severity, status) in [
            (1.0, 0, 0),
            (8.5, 1, 4),
            (10.0, 2, 3),
            (-8.5, 1, 6),
            (-10.0, 2, 5),
            (2.0, 0, 0),
        ] {
            ioc.put(&format!("{prefix}ai"), &value.to_string());
            let (at, update) = recorder.wait_value(from, &OwnValue::Number(value));
            from = at + 1;
            assert_eq!((update.severity, update.status), (severity, status));
        }
    });
}

#[test]
fn metadata_comes_at_connect_and_at_each_change() {
    in_own_process!("metadata_comes_at_connect_and_at_each_change", || {
        let database = b"
            record(ai, \"$(P)ai\") {
                field(EGU, \"\xb0C\") field(PREC, \"2\") field(HOPR, \"10\") field(LOPR, \"-10\")
                field(HIHI, \"9\") field(HIGH, \"8\") field(LOW, \"-8\") field(LOLO, \"-9\")
                field(HHSV, \"MAJOR\") field(HSV, \"MINOR\") field(LSV, \"MINOR\")
            }
            record(ao, \"$(P)ao\") { field(DRVH, \"5.5\") field(DRVL, \"-5.5\") }
            record(longout, \"$(P)longout\") {
                field(EGU, \"12345678\") field(HOPR, \"100\") field(LOPR, \"-100\")
                field(DRVH, \"70000\") field(DRVL, \"-70000\")
            }
            record(mbbo, \"$(P)mbbo\") {
                field(ZRST, \"zero\") field(ONST, \"one\") field(TWST, \"two\")
            }
            record(bi, \"$(P)bi\") { field(ZNAM, \"off\") field(ONAM, \"on\") }
            record(waveform, \"$(P)float\") {
                field(FTVL, \"FLOAT\") field(NELM, \"8\") field(EGU, \"mA\") field(PREC, \"4\")
                field(HOPR, \"0.5\") field(LOPR, \"-0.5\")
            }
            record(stringin, \"$(P)stringin\") {}
        ";
        let prefix = prefix();
        let mut ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        let names = ["ai", "ao", "longout", "mbbo", "bi", "float", "stringin"];
        let opened: HashMap<_, _> = names
            .into_iter()
            .map(|name| (name, open(&client, &format!("{prefix}{name}"))))
            .collect();
        let first = |name: &str| opened[name].0.wait_metadata(0, |_| true).1;

        let ai = first("ai");
        assert_eq!(ai.units, "°C");
        assert_eq!(ai.precision, Some(2));
        assert!(ai.choices.is_empty());
        assert!(same(ai.display, limits(-10.0, 10.0)), "{ai:?}");
        assert!(same(ai.warning, limits(-8.0, 8.0)), "{ai:?}");
        // LLSV is NO_ALARM, so there is no such limit.
        assert!(same(ai.alarm, limits(f64::NAN, 9.0)), "{ai:?}");
        assert!(same(first("ao").control, limits(-5.5, 5.5)));

        let longout = first("longout");
        assert_eq!(longout.units, "1234567", "the IOC keeps room for a NUL");
        assert_eq!(longout.precision, None);
        assert!(same(longout.display, limits(-100.0, 100.0)), "{longout:?}");
        assert!(same(longout.control, limits(-70_000.0, 70_000.0)));
        assert!(
            same(longout.alarm, limits(f64::NAN, f64::NAN)),
            "{longout:?}"
        );

        assert_eq!(first("mbbo").choices, ["zero", "one", "two"]);
        assert_eq!(first("bi").choices, ["off", "on"]);
        assert_eq!(first("bi").units, "");

        let float = first("float");
        assert_eq!((float.units.as_str(), float.precision), ("mA", Some(4)));
        assert!(same(float.display, limits(-0.5, 0.5)), "{float:?}");

        let string = first("stringin");
        let none = Metadata::default();
        assert_eq!(
            (&string.units, &string.choices),
            (&none.units, &none.choices)
        );
        assert!(same(string.display, none.display));

        let mut changed =
            |record: &str, field: &str, value: &str, seen: &dyn Fn(&Metadata) -> bool| {
                ioc.put(&format!("{prefix}{record}.{field}"), value);
                opened[record].0.wait_metadata(0, seen);
            };
        changed("ai", "EGU", "kelvin", &|metadata| {
            metadata.units == "kelvin"
        });
        changed("ai", "PREC", "5", &|metadata| metadata.precision == Some(5));
        changed("ai", "HIHI", "9.5", &|metadata| metadata.alarm.high == 9.5);
        changed("mbbo", "ONST", "uno", &|metadata| {
            metadata.choices == ["zero", "uno", "two"]
        });
        changed("mbbo", "THST", "tre", &|metadata| {
            metadata.choices.len() == 4
        });
    });
}

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
fn thousands_of_channels_of_one_server_share_few_circuits_and_not_one() {
    in_own_process!(
        "thousands_of_channels_of_one_server_share_few_circuits_and_not_one",
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
            // A server's work for one circuit grows with the square of the channels. Where searches take
            // longer than they are waited for, a circuit gets some more.
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
