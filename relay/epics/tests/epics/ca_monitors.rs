//! Values, time stamps, alarms and metadata of a real IOC arrive exactly.

use std::collections::HashMap;

use pvwire_epics::ca::{ChannelInfo, Client, Limits, Metadata, NativeType};

use crate::support::ca::{Event, OwnValue, array, open};
use crate::support::{Server, in_own_process, prefix};

fn limits(low: f64, high: f64) -> Limits {
    Limits { low, high }
}

/// NaN equals NaN: "no limit" is the same as "no limit".
fn same(a: Limits, b: Limits) -> bool {
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    same(a.low, b.low) && same(a.high, b.high)
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
        assert_eq!(update.time_ns, 0);
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
