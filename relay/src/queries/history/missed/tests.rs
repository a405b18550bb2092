//! Answers about PVs of a random past, and about PVs without one.

use std::sync::Arc;

use proptest::prelude::*;
use pvwire_schema::types::{Alarm, BlobValue, PvId, Severity, Skips};
use serde_json::{Value, json};

use super::super::tests::{PageSeen, histories, pages_of, rows};
use super::*;
use crate::ingest::RowValue;
use crate::state::table::ChangedRow;

const INSTANCE: u64 = 0x8000_0000_0000_0001;

fn answer(histories: &Arc<Histories>, question: &Value) -> Vec<PageSeen> {
    let service = MissedService::new(Arc::clone(histories), INSTANCE);
    let reading = service.read(&Arc::default(), question.to_string().as_bytes());
    pages_of(reading.unwrap())
}

fn question(pvs: &Value) -> Value {
    json!({ "relay": INSTANCE.to_string(), "pvs": pvs })
}

/// The lists of a field in all pages.
fn listed<'a>(pages: &'a [PageSeen], field: &str) -> Vec<&'a Value> {
    let lists = pages.iter().filter_map(|(head, ..)| head[field].as_array());
    lists.flatten().collect()
}

/// The updates of a PV: sequence number, time, number and severity.
fn updates(pages: &[PageSeen], pv: usize) -> Vec<(u64, i64, f64, u64)> {
    let mut updates = Vec::new();
    for (head, times, numbers) in pages {
        let lists = |field: &str| head[field].as_array().cloned().unwrap_or_default();
        let (alarms, skips) = (lists("alarms"), lists("skips"));
        let severity = |row: usize| {
            let alarm = alarms
                .iter()
                .rev()
                .find(|alarm| alarm[0].as_u64() <= Some(row as u64));
            alarm.unwrap()[1].as_u64().unwrap()
        };
        let skipped = |row: usize| {
            let skips = skips.iter().find(|skips| skips[0] == row);
            let counts = skips
                .into_iter()
                .flat_map(|skips| (1..5).map(|at| &skips[at]));
            counts.map(|count| count.as_u64().unwrap()).sum::<u64>()
        };
        let mut row = 0;
        for run in lists("runs") {
            let mut sequence = run[3].as_u64().unwrap();
            for at in 0..run[1].as_u64().unwrap() {
                sequence += if at > 0 { 1 + skipped(row) } else { 0 };
                if run[0] == pv {
                    updates.push((sequence, times[row], numbers[row], severity(row)));
                }
                row += 1;
            }
        }
        assert_eq!(row, times.len(), "each row is in a run");
    }
    updates
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn every_update_after_the_last_one_is_told_once_with_its_alarm(
        steps in prop::collection::vec(
            (-9..9_i32, prop::option::weighted(0.1, 0..4_u8), prop::option::weighted(0.1, 1..4_u32)),
            1..6_000,
        ),
        from in any::<prop::sample::Index>(),
    ) {
        let (mut time_ns, mut sequence, mut severity) = (1_795_000_000_000_000_000, 0, 0);
        let mut expected = Vec::new();
        let values: Vec<_> = steps.iter().map(|(number, changed, skipped)| {
            time_ns += 1_000;
            sequence += 1 + u64::from(skipped.unwrap_or(0));
            severity = changed.unwrap_or(severity);
            expected.push((sequence, time_ns, f64::from(*number), u64::from(severity)));
            let alarm = changed.map(|number| Alarm {
                severity: Severity::from_number(number),
                status: 0,
            });
            let skips = Skips { source: skipped.unwrap_or(0), ..Skips::NONE };
            (time_ns, RowValue::Number(f64::from(*number)), alarm, skips)
        }).collect();
        let (histories, _running) = histories(&["A"], rows(&values));
        let from = from.index(steps.len());
        let pages = answer(&histories, &question(&json!([["A", 0, expected[from].0]])));
        prop_assert_eq!(updates(&pages, 0), &expected[from + 1..]);
        prop_assert_eq!(listed(&pages, "absent"), Vec::<&Value>::new());
        let end = json!([0, 0, sequence]);
        prop_assert_eq!(listed(&pages, "ends"), [&end]);
        let (last, others) = pages.split_last().unwrap();
        prop_assert_eq!(&last.0["last"], true);
        prop_assert!(others.iter().all(|(head, ..)| head["last"] == false));
    }
}

#[test]
fn many_pvs_are_answered_in_pages_and_those_without_a_past_say_why() {
    let names: Vec<_> = (0..1_000).map(|pv| format!("P{pv}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let update = |pv: u32, n: i64| ChangedRow {
        pv: PvId(pv),
        ..rows(&[(n, RowValue::Number(n as f64), None, Skips::NONE)]).remove(0)
    };
    let changed = (1..=20).flat_map(|n| (0..1_000).map(move |pv| update(pv, n)));
    let (histories, _running) = histories(&names, changed.collect());
    let mut pvs: Vec<_> = names.iter().map(|name| json!([name, 0, 5])).collect();
    pvs.extend([json!(["unknown", 0, 1]), json!(["no:scheme://X", 0, 1])]);
    let pages = answer(&histories, &question(&json!(pvs)));
    assert!((6..=40).contains(&pages.len()), "{} pages", pages.len());
    for pv in [0, 1, 500, 999] {
        let sequences = updates(&pages, pv).into_iter().map(|update| update.0);
        assert_eq!(sequences.collect::<Vec<_>>(), (6..=20).collect::<Vec<_>>());
    }
    let ends = listed(&pages, "ends");
    assert!(
        ends.iter()
            .take(1_000)
            .enumerate()
            .all(|(pv, end)| **end == json!([pv, 0, 20]))
    );
    assert_eq!(ends[1_000..], [&json!([1_000, 0, 1])]);
    assert_eq!(
        listed(&pages, "absent"),
        [&json!([1_000, "not kept", null])]
    );
    let refused = listed(&pages, "refused");
    assert_eq!((refused.len(), &refused[0][0]), (1, &json!(1_001)));
    assert!(
        refused[0][1].as_str().unwrap().contains("no:scheme"),
        "{refused:?}"
    );
}

#[test]
fn updates_that_another_relay_has_counted_are_not_continued() {
    let values = [(1, RowValue::Number(1.0), None, Skips::NONE)];
    let (histories, _running) = histories(&["A"], rows(&values));
    let pages = answer(&histories, &json!({ "relay": "7", "pvs": [["A", 0, 0]] }));
    assert_eq!(updates(&pages, 0), []);
    assert_eq!(listed(&pages, "absent"), [&json!([0, "restarted", null])]);
    assert_eq!(listed(&pages, "ends"), [&json!([0, 0, 0])]);
}

#[test]
fn no_page_exceeds_its_limit_whatever_the_values_are() {
    let skips = Skips {
        relay: 150_000,
        source: 150_000,
        filter: 150_000,
        bus: 150_000,
    };
    let values: Vec<_> = (0..3_000_u32)
        .map(|n| {
            let alarm = Alarm {
                severity: Severity::from_number((n % 4) as u8),
                status: u16::MAX,
            };
            let text = BlobValue::Text("\u{1}".repeat(256));
            (
                i64::from(n),
                RowValue::Blob(Arc::new(text)),
                Some(alarm),
                skips,
            )
        })
        .collect();
    let (histories, _running) = histories(&["A"], rows(&values));
    let pages = answer(&histories, &question(&json!([["A", 0, 0]])));
    assert!(pages.len() > 50, "{}", pages.len());
}

#[test]
fn wrong_questions_say_what_was_expected() {
    let (histories, _running) = histories(&["A"], Vec::new());
    let service = MissedService::new(histories, INSTANCE);
    let why = |question: &Value| {
        let read = service.read(&Arc::default(), question.to_string().as_bytes());
        read.err().unwrap().message
    };
    let message = why(&json!({ "pvs": ["A"] }));
    assert!(
        message.contains("a list of name, epoch and sequence number"),
        "{message}"
    );
    let many = vec![json!(["A", 0, 0]); 10_001];
    let message = why(&question(&json!(many)));
    assert_eq!(message, "pvs has 10001 PVs: at most 10000");
}
