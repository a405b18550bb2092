//! Monitors of pvAccess report what a real IOC does, and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pvwire_epics::panics_caught;
use pvwire_epics::pva::{
    BadName, Client, ElementType, Limits, Metadata, Monitor, PvaEvents, TypeInfo, Update, ValueKind,
};

use crate::support::pva::{Event, OwnValue, Recorder};
use crate::support::{Server, eventually, in_own_process, prefix};

fn open(client: &Client, name: &str) -> (Arc<Recorder>, Monitor) {
    let recorder = Recorder::new();
    let monitor = client.open(name, recorder.clone()).unwrap();
    (recorder, monitor)
}

/// NaN equals NaN: "no limit" is the same as "no limit".
fn same(limits: Limits, low: f64, high: f64) -> bool {
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    same(limits.low, low) && same(limits.high, high)
}

#[test]
fn values_of_every_type_arrive_exactly() {
    in_own_process!("values_of_every_type_arrive_exactly", || {
        let database = r#"
            record(ai, "$(P)double") { field(VAL, "0.1") field(PREC, "3") field(TPRO, "0") }
            record(longout, "$(P)long") { field(VAL, "-2147483648") }
            record(int64out, "$(P)int64") { field(VAL, "9007199254740993") }
            record(bi, "$(P)bi") { field(VAL, "1") field(ZNAM, "off") field(ONAM, "on") }
            record(mbbo, "$(P)mbbo") { field(VAL, "2") field(TWST, "two") }
            record(stringin, "$(P)string") { field(VAL, "µm") }
            record(lsi, "$(P)long_string") {
                field(SIZV, "100") field(DTYP, "getenv") field(INP, "@PVWIRE_TEST_PROCESS")
                field(PINI, "YES")
            }
        "#;
        use ElementType::{Float64, Int16, Int32, Int64, Text, UInt8};
        use ValueKind::{Enum, Scalar};
        let test = "pva_monitors::values_of_every_type_arrive_exactly";
        let cases = [
            ("double", Scalar(Float64), OwnValue::Number(0.1)),
            ("double.PREC", Scalar(Int16), OwnValue::Number(3.0)),
            ("double.TPRO", Scalar(UInt8), OwnValue::Number(0.0)),
            ("long", Scalar(Int32), OwnValue::Number(-2_147_483_648.0)),
            (
                "int64",
                Scalar(Int64),
                OwnValue::Int64(9_007_199_254_740_993),
            ),
            ("bi", Enum, OwnValue::Number(1.0)),
            ("mbbo", Enum, OwnValue::Number(2.0)),
            ("string", Scalar(Text), OwnValue::Text("µm".to_owned())),
            ("long_string", Scalar(Text), OwnValue::Text(test.to_owned())),
        ];
        let prefix = prefix();
        let _ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let opened = cases.map(|(name, kind, value)| {
            let (recorder, monitor) = open(&client, &format!("{prefix}{name}"));
            (name, kind, value, recorder, monitor)
        });

        for (name, kind, value, recorder, _monitor) in opened {
            let (_, update) = recorder.wait_update(0, |_| true);
            assert_eq!(update.value, value, "{name}");
            let events = recorder.events();
            let [Event::Connected(info), Event::Metadata(metadata), ..] = &events[..] else {
                panic!("{name}: {events:?}");
            };
            assert_eq!((info.kind, info.changed), (kind, false), "{name}");
            assert_eq!(info.type_id, metadata.type_id, "{name}");
            assert_eq!((metadata.kind, metadata.element_count), (kind, 1), "{name}");
        }
        assert_eq!(panics_caught(), 0);
    });
}

#[test]
fn arrays_of_every_type_arrive_whole_and_outlive_their_monitor() {
    in_own_process!(
        "arrays_of_every_type_arrive_whole_and_outlive_their_monitor",
        || {
            let database = r#"
                record(waveform, "$(P)char") {
                    field(FTVL, "CHAR") field(NELM, "16") field(INP, [72, -1, 0])
                }
                record(waveform, "$(P)ushort") {
                    field(FTVL, "USHORT") field(NELM, "4") field(INP, [1, 65535])
                }
                record(waveform, "$(P)long") {
                    field(FTVL, "LONG") field(NELM, "4") field(INP, [-70000])
                }
                record(waveform, "$(P)int64") {
                    field(FTVL, "INT64") field(NELM, "4") field(INP, [-9007199254740993])
                }
                record(waveform, "$(P)float") {
                    field(FTVL, "FLOAT") field(NELM, "3") field(INP, [0.5, -2])
                }
                record(waveform, "$(P)double") {
                    field(FTVL, "DOUBLE") field(NELM, "100000") field(INP, [0.1, 1e300])
                }
                record(waveform, "$(P)empty") { field(FTVL, "DOUBLE") field(NELM, "9") }
                record(waveform, "$(P)strings") {
                    field(FTVL, "STRING") field(NELM, "3") field(INP, ["a", "bc"])
                }
                record(waveform, "$(P)no_strings") { field(FTVL, "STRING") field(NELM, "3") }
            "#;
            use ElementType::{Float32, Float64, Int8, Int32, Int64, UInt16};
            let cases = [
                ("char", Int8, vec![72, 255, 0]),
                (
                    "ushort",
                    UInt16,
                    [1_u16, 65_535].map(u16::to_ne_bytes).concat(),
                ),
                ("long", Int32, (-70_000_i32).to_ne_bytes().to_vec()),
                (
                    "int64",
                    Int64,
                    (-9_007_199_254_740_993_i64).to_ne_bytes().to_vec(),
                ),
                (
                    "float",
                    Float32,
                    [0.5_f32, -2.0].map(f32::to_ne_bytes).concat(),
                ),
                (
                    "double",
                    Float64,
                    [0.1, 1e300].map(f64::to_ne_bytes).concat(),
                ),
                ("empty", Float64, Vec::new()),
            ];
            let prefix = prefix();
            let ioc = Server::ioc(&prefix, database);
            let client = Client::start().unwrap();

            let mut kept = Vec::new();
            for (name, element, bytes) in cases {
                let (recorder, _monitor) = open(&client, &format!("{prefix}{name}"));
                let (_, info) = recorder.wait_connected(0);
                assert_eq!(info.kind, ValueKind::Array(element), "{name}");
                recorder.wait_metadata(0, |metadata| metadata.element_count == 0);
                let (_, update) = recorder.wait_update(0, |_| true);
                let OwnValue::Array(type_of, count, data) = update.value else {
                    panic!("{name}: {update:?}");
                };
                assert_eq!(type_of, element, "{name}");
                assert_eq!(count * element.element_bytes(), bytes.len(), "{name}");
                kept.push((data.clone(), data, bytes));
            }
            for (name, strings) in [("strings", vec!["a", "bc"]), ("no_strings", vec![])] {
                let (recorder, _monitor) = open(&client, &format!("{prefix}{name}"));
                let (_, info) = recorder.wait_connected(0);
                assert_eq!(info.kind, ValueKind::Array(ElementType::Text), "{name}");
                let strings = strings.into_iter().map(str::to_owned).collect();
                let (_, update) = recorder.wait_update(0, |_| true);
                assert_eq!(update.value, OwnValue::TextArray(strings), "{name}");
            }
            drop((client, ioc));
            for (data, clone, bytes) in kept {
                assert_eq!(data.as_ref(), bytes);
                assert_eq!(data.as_ref().as_ptr(), clone.as_ref().as_ptr());
            }
        },
    );
}

#[test]
fn alarm_and_time_come_with_the_value() {
    in_own_process!("alarm_and_time_come_with_the_value", || {
        let database = r#"
            record(ao, "$(P)ao") {
                field(HIGH, "5") field(HSV, "MINOR") field(HIHI, "9") field(HHSV, "MAJOR")
                field(PINI, "YES") field(UTAG, "7")
            }
        "#;
        let prefix = prefix();
        let mut ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let name = format!("{prefix}ao");
        let (recorder, _monitor) = open(&client, &name);
        let (first, calm) = recorder.wait_update(0, |_| true);
        assert_eq!((calm.severity, calm.status), (0, 0));
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_nanos() as i64;
        assert!((now - calm.time_ns).abs() < 600_000_000_000, "{calm:?}");

        ioc.put(&name, "6");
        let (second, warning) = recorder.wait_value(first + 1, &OwnValue::Number(6.0));
        assert_eq!((warning.severity, warning.status), (1, 1));
        assert_eq!(warning.message, "HIGH");
        assert!(warning.time_ns > calm.time_ns);
        ioc.put(&name, "10");
        let (_, alarm) = recorder.wait_value(second + 1, &OwnValue::Number(10.0));
        assert_eq!((alarm.severity, &*alarm.message), (2, "HIHI"));
        // What did not change is there all the same.
        assert_eq!(alarm.user_tag, calm.user_tag);
    });
}

#[test]
fn metadata_comes_first_and_at_each_change() {
    in_own_process!("metadata_comes_first_and_at_each_change", || {
        let database = r#"
            record(ao, "$(P)ao") {
                field(DESC, "beam energy") field(EGU, "µm") field(PREC, "2")
                field(LOPR, "-10") field(HOPR, "10") field(DRVL, "-5") field(DRVH, "5")
                field(LOLO, "-4") field(LOW, "-3") field(HIGH, "3") field(HIHI, "4")
                field(LLSV, "MAJOR") field(LSV, "MINOR") field(HSV, "MINOR") field(HHSV, "MAJOR")
                info(Q:form, "Exponential")
            }
            record(longout, "$(P)long") { field(EGU, "counts") field(HOPR, "100") }
            record(mbbo, "$(P)mbbo") { field(ZRST, "zero") field(ONST, "one") }
        "#;
        let prefix = prefix();
        let mut ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let name = format!("{prefix}ao");
        let (recorder, _monitor) = open(&client, &name);

        let (first, metadata) = recorder.wait_metadata(0, |_| true);
        assert_eq!(first, 1);
        assert_eq!(metadata.units, "µm");
        assert_eq!(metadata.precision, Some(2));
        assert_eq!(metadata.form.as_deref(), Some("Exponential"));
        assert_eq!(metadata.description, "beam energy");
        assert!(same(metadata.display, -10.0, 10.0), "{metadata:?}");
        assert!(same(metadata.control, -5.0, 5.0), "{metadata:?}");
        assert!(same(metadata.warning, -3.0, 3.0), "{metadata:?}");
        assert!(same(metadata.alarm, -4.0, 4.0), "{metadata:?}");
        recorder.wait_update(first, |_| true);

        let before = recorder.len();
        ioc.put(&name, "1.5");
        recorder.wait_value(before, &OwnValue::Number(1.5));
        let since = &recorder.events()[before..];
        let told_again = since
            .iter()
            .any(|event| matches!(event, Event::Metadata(_)));
        assert!(!told_again, "{since:?}");

        type Shown = fn(&Metadata) -> bool;
        let changes: [(&str, &str, Shown); 4] = [
            ("EGU", "keV", |metadata| metadata.units == "keV"),
            ("PREC", "4", |metadata| metadata.precision == Some(4)),
            ("HOPR", "20", |metadata| metadata.display.high == 20.0),
            ("HIHI", "4.5", |metadata| metadata.alarm.high == 4.5),
        ];
        for (field, value, shown) in changes {
            let before = recorder.len();
            ioc.put(&format!("{name}.{field}"), value);
            let (changed, _) = recorder.wait_metadata(before, shown);
            recorder.wait_update(changed, |_| true);
        }

        let (recorder, _monitor) = open(&client, &format!("{prefix}long"));
        let (_, metadata) = recorder.wait_metadata(0, |_| true);
        assert_eq!(metadata.units, "counts");
        assert_eq!(metadata.precision, None);
        assert!(same(metadata.display, 0.0, 100.0));

        let name = format!("{prefix}mbbo");
        let (recorder, _monitor) = open(&client, &name);
        let (first, metadata) = recorder.wait_metadata(0, |_| true);
        assert_eq!(metadata.choices, ["zero", "one"]);
        assert!(same(metadata.display, f64::NAN, f64::NAN));
        ioc.put(&format!("{name}.TWST"), "two");
        recorder.wait_metadata(first + 1, |metadata| {
            metadata.choices == ["zero", "one", "two"]
        });
    });
}

#[test]
fn killed_ioc_disconnects_and_comes_back_with_another_type() {
    in_own_process!(
        "killed_ioc_disconnects_and_comes_back_with_another_type",
        || {
            let prefix = prefix();
            let name = format!("{prefix}pv");
            let scalar = r#"record(ao, "$(P)pv") { field(VAL, "4") }"#;
            let array = r#"
                record(waveform, "$(P)pv") {
                    field(FTVL, "DOUBLE") field(NELM, "4") field(INP, [1, 2])
                }
            "#;
            let ioc = Server::ioc(&prefix, scalar);
            let client = Client::start().unwrap();
            let (recorder, _monitor) = open(&client, &name);
            let (first, _) = recorder.wait_value(0, &OwnValue::Number(4.0));

            let mut from = first;
            let mut running = ioc;
            for (database, kind, changed) in [
                (scalar, ValueKind::Scalar(ElementType::Float64), false),
                (array, ValueKind::Array(ElementType::Float64), true),
                (scalar, ValueKind::Scalar(ElementType::Float64), true),
            ] {
                running.kill();
                from = recorder.wait_disconnected(from);
                running = Server::ioc(&prefix, database);
                let (connected, info) = recorder.wait_connected(from);
                assert_eq!((info.kind, info.changed), (kind, changed));
                assert_eq!(connected, from + 1, "{:#?}", recorder.events());
                let (metadata, _) = recorder.wait_metadata(connected, |_| true);
                assert_eq!(metadata, connected + 1, "{:#?}", recorder.events());
                let (update, _) = recorder.wait_update(connected, |_| true);
                assert_eq!(update, connected + 2, "{:#?}", recorder.events());
                from = update;
            }
            assert_eq!(panics_caught(), 0);
        },
    );
}

#[test]
fn thousands_of_monitors_connect_beside_as_many_absent_names() {
    in_own_process!(
        "thousands_of_monitors_connect_beside_as_many_absent_names",
        || {
            #[derive(Default)]
            struct Counter(AtomicU64);
            impl PvaEvents for Counter {
                fn connected(&self, _: TypeInfo) {}
                fn disconnected(&self) {}
                fn metadata(&self, _: Metadata) {}
                fn update(&self, _: Update<'_>) {
                    self.0.fetch_add(1, Ordering::Relaxed);
                }
                fn failed(&self, _: &str) {}
            }
            const PVS: u64 = 2_000;
            let prefix = prefix();
            let database: String = (0..PVS)
                .map(|i| format!("record(ao, \"$(P){i}\") {{ field(VAL, \"{i}\") }}\n"))
                .collect();
            let ioc = Server::ioc(&prefix, &database);
            let client = Client::start().unwrap();
            let counter = Arc::new(Counter::default());

            let open = |name: String| client.open(&name, counter.clone()).unwrap();
            let absent: Vec<_> = (0..PVS).map(|i| open(format!("{prefix}no{i}"))).collect();
            let present: Vec<_> = (0..PVS).map(|i| open(format!("{prefix}{i}"))).collect();
            eventually("a value of each", || {
                counter.0.load(Ordering::Relaxed) >= PVS
            });
            assert_eq!(counter.0.load(Ordering::Relaxed), PVS);

            drop((absent, present));
            eventually("all sinks dropped", || Arc::strong_count(&counter) == 1);
            drop((client, ioc));
        },
    );
}

#[test]
fn closed_monitor_is_silent_and_its_sink_dropped() {
    in_own_process!("closed_monitor_is_silent_and_its_sink_dropped", || {
        let database =
            r#"record(calc, "$(P)calc") { field(CALC, "VAL+1") field(SCAN, ".1 second") }"#;
        let prefix = prefix();
        let _ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let name = format!("{prefix}calc");
        for _ in 0..20 {
            let (recorder, monitor) = open(&client, &name);
            recorder.wait_update(0, |_| true);
            drop(monitor);
            eventually("its sink dropped", || Arc::strong_count(&recorder) == 1);
        }
        let (recorder, _monitor) = open(&client, &name);
        recorder.wait_update(0, |_| true);
        drop(client);
        assert_eq!(Arc::strong_count(&recorder), 1);
    });
}

#[test]
fn panic_in_a_sink_costs_one_event() {
    in_own_process!("panic_in_a_sink_costs_one_event", || {
        #[derive(Default)]
        struct Panics(AtomicU64);
        impl PvaEvents for Panics {
            fn connected(&self, _: TypeInfo) {}
            fn disconnected(&self) {}
            fn metadata(&self, _: Metadata) {}
            fn update(&self, _: Update<'_>) {
                assert_ne!(self.0.fetch_add(1, Ordering::Relaxed), 0, "the first");
            }
            fn failed(&self, _: &str) {}
        }
        let database =
            r#"record(calc, "$(P)calc") { field(CALC, "VAL+1") field(SCAN, ".1 second") }"#;
        let prefix = prefix();
        let _ioc = Server::ioc(&prefix, database);
        let client = Client::start().unwrap();
        let sink = Arc::new(Panics::default());
        let _monitor = client.open(&format!("{prefix}calc"), sink.clone()).unwrap();

        eventually("three updates", || sink.0.load(Ordering::Relaxed) >= 3);
        assert_eq!(panics_caught(), 1);
    });
}

#[test]
fn bad_names_are_refused() {
    in_own_process!("bad_names_are_refused", || {
        let client = Client::start().unwrap();
        let refused = |name: &str| client.open(name, Recorder::new()).unwrap_err();

        assert_eq!(refused(""), BadName::Empty);
        assert_eq!(refused("a\0b"), BadName::InteriorNul { at: 1 });
        let length = 2_000;
        assert_eq!(refused(&"x".repeat(length)), BadName::TooLong { length });
    });
}
