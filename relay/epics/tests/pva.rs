//! Does the pvAccess client tell what a real IOC does, and nothing else?

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod support_pva;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pvwire_epics::panics_caught;
use pvwire_epics::pva::{
    BadName, Client, ElementType, Limits, Metadata, Monitor, PvaEvents, TypeInfo, Update, ValueKind,
};

use support_pva::{Event, OwnValue, Recorder, Server, eventually, in_own_process, prefix};

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

/// The elements of an array value.
fn elements(value: &OwnValue) -> (ElementType, usize, &[u8]) {
    match value {
        OwnValue::Array(element, count, data) => (*element, *count, data.as_ref()),
        other => panic!("{other:?} is no array"),
    }
}

#[test]
fn values_of_every_type_arrive_exactly() {
    in_own_process("values_of_every_type_arrive_exactly", || {
        let database = r#"
            record(ai, "$(P)double") { field(VAL, "0.1") field(PREC, "3") field(PINI, "YES") }
            record(longout, "$(P)long") { field(VAL, "-2147483648") }
            record(longout, "$(P)short") { field(VAL, "7") field(TPRO, "1") }
            record(int64out, "$(P)int64") { field(VAL, "9007199254740993") }
            record(bi, "$(P)bi") { field(VAL, "1") field(ZNAM, "off") field(ONAM, "on") }
            record(mbbo, "$(P)mbbo") { field(VAL, "2") field(TWST, "two") }
            record(stringin, "$(P)string") { field(VAL, "µm") }
            record(lsi, "$(P)long_string") {
                field(SIZV, "100") field(DTYP, "getenv") field(INP, "@PVWIRE_TEST_PROCESS")
                field(PINI, "YES")
            }
        "#;
        use ElementType::{Float64, Int8, Int16, Int32, Int64, Text, UInt8};
        use ValueKind::{Enum, Scalar};
        let test = "values_of_every_type_arrive_exactly";
        let cases = [
            ("double", Scalar(Float64), OwnValue::Number(0.1)),
            ("double.PREC", Scalar(Int16), OwnValue::Number(3.0)),
            ("short.TPRO", Scalar(UInt8), OwnValue::Number(1.0)),
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
        let _ = Int8;
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
            let Event::Connected(info) = &events[0] else {
                panic!("{name}: {events:?}");
            };
            assert_eq!((info.kind, info.changed), (kind, false), "{name}");
            let Event::Metadata(metadata) = &events[1] else {
                panic!("{name}: {events:?}");
            };
            assert_eq!(metadata.kind, kind, "{name}");
            println!("{events:#?}");
        }
        assert_eq!(panics_caught(), 0);
    });
}
