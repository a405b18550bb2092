//! Rings against a plain model, and what ticks do to them.

mod held;
mod parts;
mod sequel;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use pvwire_schema::types::{
    Alarm, BlobValue, Connection, ConnectionState, Metadata, PvId, Severity, Skips,
};

use super::store::{Missed, Store, Tick};
use super::{GapCause, HistoryOptions, PastGap, PastRange, PastSample, PastValue, Position};
use crate::compute::cpu_time;
use crate::config::HistoryRule;
use crate::ingest::RowValue;
use crate::state::table::{Before, ChangedRow, Changes, Lifecycle};

pub(super) const SECOND: i64 = 1_000_000_000;

pub(super) fn options(rules: &[(&str, u64)], max_bytes: usize) -> HistoryOptions {
    let rule = |(pattern, seconds): &(&str, u64)| HistoryRule {
        pattern: (*pattern).to_owned(),
        keep: Duration::from_secs(*seconds),
    };
    HistoryOptions::new(&rules.iter().map(rule).collect::<Vec<_>>(), max_bytes)
}

pub(super) fn store(max_bytes: usize) -> Store {
    Store::new(options(&[("*", 3600)], max_bytes))
}

pub(super) fn alarm(severity: Severity) -> Alarm {
    Alarm {
        severity,
        status: severity as u16,
    }
}

pub(super) fn opened(pv: u32, name: Option<&str>) -> Lifecycle {
    Lifecycle {
        pv: PvId(pv),
        opened: name.map(Arc::from),
        before: Before::default(),
    }
}

pub(super) fn row(pv: u32, time_ns: i64, value: f64) -> ChangedRow {
    ChangedRow {
        pv: PvId(pv),
        time_ns,
        value: RowValue::Number(value),
        alarm: None,
        detail: None,
        skips: Skips::NONE,
    }
}

pub(super) fn connection(state: ConnectionState, since_ns: i64) -> Connection {
    Connection {
        state,
        since_ns,
        read: true,
        write: true,
        puts: false,
        heard_ns: 0,
        write_unknown: false,
    }
}

pub(super) fn tick(changes: Changes, now_ns: i64) -> Tick {
    Tick {
        changes: Arc::new(changes),
        now_ns,
        missed: None,
    }
}

pub(super) fn open(store: &mut Store, pvs: &[(u32, &str)]) {
    let lifecycles = pvs
        .iter()
        .map(|(pv, name)| opened(*pv, Some(name)))
        .collect();
    let changes = Changes {
        lifecycles,
        ..Changes::default()
    };
    store.take(&tick(changes, 0));
}

pub(super) fn rows(store: &mut Store, rows: Vec<ChangedRow>, now_ns: i64) {
    let changes = Changes {
        rows,
        ..Changes::default()
    };
    store.take(&tick(changes, now_ns));
}

/// Closes the first PVs.
fn close(store: &mut Store, pvs: u32, now_ns: i64) {
    let changes = Changes {
        lifecycles: (0..pvs).map(|pv| opened(pv, None)).collect(),
        ..Changes::default()
    };
    store.take(&tick(changes, now_ns));
}

#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) samples: Vec<PastSample>,
    pub(super) gaps: Vec<PastGap>,
}

pub(super) fn read(store: &Store, name: &str, from_ns: i64, to_ns: i64) -> Past {
    let Some((view, position)) = store.view(name) else {
        return Past::default();
    };
    let mut range = PastRange::new(view, (from_ns, to_ns), store.tick, position);
    Past {
        gaps: range.gaps(),
        samples: std::iter::from_fn(|| range.next_samples())
            .flatten()
            .collect(),
    }
}

fn position(store: &Store, name: &str) -> Option<Position> {
    store.view(name).unwrap().1
}

pub(super) fn all(store: &Store, name: &str) -> Vec<PastSample> {
    // What is at the smallest time would be the value that held there.
    read(store, name, i64::MIN, i64::MAX).samples
}

pub(super) fn numbers(samples: &[PastSample]) -> Vec<f64> {
    let number = |sample: &PastSample| match sample.value {
        PastValue::Number(number) => number,
        _ => f64::NAN,
    };
    samples.iter().map(number).collect()
}

/// What a range of the samples in their order is, by a comparison of all of them.
fn expected(samples: &[PastSample], from_ns: i64, to_ns: i64) -> Vec<PastSample> {
    let before = samples.iter().filter(|sample| sample.time_ns <= from_ns);
    let held = before.max_by_key(|sample| sample.time_ns);
    let inside = |sample: &&PastSample| sample.time_ns > from_ns && sample.time_ns <= to_ns;
    held.into_iter()
        .chain(samples.iter().filter(inside))
        .cloned()
        .collect()
}

#[derive(Clone, Debug)]
pub(super) struct Update {
    pub(super) pv: u32,
    pub(super) step_ns: i64,
    pub(super) value: PastValue,
    pub(super) alarm: Option<Severity>,
    pub(super) skips: Skips,
}

pub(super) fn update() -> impl Strategy<Value = Update> {
    let value = prop_oneof![
        8 => (0..100_u32).prop_map(|n| PastValue::Number(f64::from(n) / 8.0)),
        2 => any::<u64>().prop_map(|bits| PastValue::Number(f64::from_bits(bits))),
        1 => any::<i64>().prop_map(PastValue::Int64),
        1 => "[a-z]{0,9}".prop_map(|text| PastValue::Text(text.into())),
    ];
    let severity =
        prop::sample::select(vec![Severity::NoAlarm, Severity::Minor, Severity::Invalid]);
    let step = prop_oneof![9 => 0..SECOND, 1 => -5 * SECOND..0];
    (
        0..4_u32,
        step,
        value,
        prop::option::weighted(0.2, severity),
        0..20_u32,
    )
        .prop_map(|(pv, step_ns, value, alarm, skipped)| Update {
            pv,
            step_ns,
            value,
            alarm,
            skips: Skips {
                source: skipped.saturating_sub(18),
                ..Skips::NONE
            },
        })
}

pub(super) fn row_value(value: &PastValue) -> RowValue {
    match value {
        PastValue::Number(number) => RowValue::Number(*number),
        PastValue::Int64(number) => RowValue::Blob(Arc::new(BlobValue::Int64(*number))),
        PastValue::UInt64(number) => RowValue::Blob(Arc::new(BlobValue::UInt64(*number))),
        PastValue::Text(text) => RowValue::Blob(Arc::new(BlobValue::Text(text.to_string()))),
    }
}

pub(super) fn is_same(one: &[PastSample], other: &[PastSample]) -> bool {
    let same = |one: &PastSample, other: &PastSample| {
        one.time_ns == other.time_ns
            && one.value.is_same(&other.value)
            && one.alarm == other.alarm
            && one.skips == other.skips
    };
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn rings_keep_every_sample_in_order_and_their_memory_within_its_bound(
        updates in prop::collection::vec(update(), 1..2500),
        max_bytes in prop_oneof![Just(usize::MAX), 3_000..60_000_usize],
        per_tick in 1..50_usize,
        ranges in prop::collection::vec((any::<prop::sample::Index>(), 0..600 * SECOND), 1..5),
    ) {
        let names = ["ca://A", "ca://B", "pva://C", "ca://D"];
        let mut store = store(max_bytes);
        open(&mut store, &[(0, names[0]), (1, names[1]), (2, names[2]), (3, names[3])]);
        let mut model: HashMap<u32, Vec<PastSample>> = HashMap::new();
        let (mut clock, mut alarms) = (SECOND, [Alarm::NONE; 4]);
        for some in updates.chunks(per_tick) {
            let mut tick_rows = Vec::new();
            for update in some {
                clock += update.step_ns;
                let pv = update.pv as usize;
                alarms[pv] = update.alarm.map_or(alarms[pv], alarm);
                model.entry(update.pv).or_default().push(PastSample {
                    time_ns: clock,
                    value: update.value.clone(),
                    alarm: alarms[pv],
                    skips: update.skips,
                });
                tick_rows.push(ChangedRow {
                    value: row_value(&update.value),
                    alarm: update.alarm.map(alarm),
                    skips: update.skips,
                    ..row(update.pv, clock, 0.0)
                });
            }
            rows(&mut store, tick_rows, clock);
            prop_assert!(store.bytes() <= max_bytes, "{} bytes", store.bytes());
        }
        let mut kept_samples = 0;
        for (pv, name) in names.iter().enumerate() {
            let pushed = model.remove(&(pv as u32)).unwrap_or_default();
            let kept = all(&store, name);
            kept_samples += kept.len();
            prop_assert!(is_same(&kept, &pushed[pushed.len() - kept.len()..]), "{name}");
            if max_bytes == usize::MAX {
                prop_assert_eq!(kept.len(), pushed.len());
            }
            for (begin, length) in &ranges {
                let Some(begin) = kept.get(begin.index(kept.len().max(1))) else { continue };
                let (from, to) = (begin.time_ns, begin.time_ns + length);
                let found = read(&store, name, from, to).samples;
                prop_assert!(is_same(&found, &expected(&kept, from, to)), "{name} {from} {to}");
            }
        }
        prop_assert_eq!(store.samples(), kept_samples);
        prop_assert_eq!(store.samples_total, (kept_samples as u64) + store.evicted_total);
    }
}

#[test]
fn oldest_chunks_of_all_pvs_go_first() {
    let mut store = store(40_000);
    open(&mut store, &[(0, "ca://OLD"), (1, "ca://NEW")]);
    let noise = |n: i64| (n as f64).sin();
    rows(
        &mut store,
        (0..300).map(|n| row(0, n, noise(n))).collect(),
        0,
    );
    for n in (0..20_000).step_by(100) {
        rows(
            &mut store,
            (n..n + 100).map(|n| row(1, n, noise(n))).collect(),
            n,
        );
        let old = all(&store, "ca://OLD").len();
        let new = numbers(&all(&store, "ca://NEW"));
        if (new.len() as i64) < n + 100 {
            assert_eq!(
                old, 0,
                "the other PV's chunk is older than what was removed here"
            );
            assert_eq!(new[new.len() - 1], noise(n + 99));
            return;
        }
    }
    panic!("nothing was removed");
}

#[test]
fn number_that_another_pv_gets_within_a_tick_does_not_mix_their_pasts() {
    let mut store = store(usize::MAX);
    open(&mut store, &[(5, "ca://A")]);
    let before = Before {
        row: 2,
        ..Before::default()
    };
    let lifecycle = |name: Option<&str>| Lifecycle {
        before,
        ..opened(5, name)
    };
    let changes = Changes {
        rows: vec![row(5, 1, 1.0), row(5, 2, 2.0), row(5, 3, 30.0)],
        lifecycles: vec![lifecycle(None), lifecycle(Some("ca://B"))],
        ..Changes::default()
    };
    store.take(&tick(changes, 100));
    assert_eq!(numbers(&all(&store, "ca://A")), [1.0, 2.0]);
    assert_eq!(numbers(&all(&store, "ca://B")), [30.0]);
    let gap = PastGap {
        cause: GapCause::NotMonitored,
        from_ns: 100,
        to_ns: None,
    };
    assert_eq!(read(&store, "ca://A", 0, 1000).gaps, [gap]);
}

#[test]
fn lost_connection_is_a_gap_and_an_unchanged_first_value_no_update() {
    let mut store = store(usize::MAX);
    open(&mut store, &[(0, "ca://A")]);
    let connected = |state, since_ns| Changes {
        connections: vec![(PvId(0), connection(state, since_ns))],
        ..Changes::default()
    };
    store.take(&tick(connected(ConnectionState::Connected, 10), 10));
    rows(&mut store, vec![row(0, 11, 1.0)], 11);
    store.take(&tick(connected(ConnectionState::Disconnected, 20), 20));
    let changes = Changes {
        rows: vec![row(0, 11, 1.0), row(0, 31, 2.0)],
        first_values: vec![PvId(0)],
        ..connected(ConnectionState::Connected, 30)
    };
    store.take(&tick(changes, 30));
    let past = read(&store, "ca://A", 0, 100);
    assert_eq!(numbers(&past.samples), [1.0, 2.0]);
    let gap = PastGap {
        cause: GapCause::Disconnected,
        from_ns: 20,
        to_ns: Some(30),
    };
    assert_eq!(past.gaps, [gap]);
    assert_eq!(read(&store, "ca://A", 40, 100).gaps, []);
    assert_eq!(
        read(&store, "ca://A", 40, 100).samples.len(),
        1,
        "the value that held"
    );
}

/// When a PV whose last update has this time stamp is lost and returns, and its gaps.
fn lost_and_back(stamp_ns: i64, changes: [Changes; 2], now_ns: [i64; 2]) -> Vec<PastGap> {
    let mut store = store(usize::MAX);
    open(&mut store, &[(0, "ca://A")]);
    let connected = Changes {
        connections: vec![(PvId(0), connection(ConnectionState::Connected, 0))],
        ..Changes::default()
    };
    store.take(&tick(connected, 0));
    rows(
        &mut store,
        vec![row(0, stamp_ns - SECOND, 1.0)],
        99 * SECOND,
    );
    rows(&mut store, vec![row(0, stamp_ns, 2.0)], 100 * SECOND);
    for (changes, now_ns) in changes.into_iter().zip(now_ns) {
        store.take(&tick(changes, now_ns));
    }
    read(&store, "ca://A", 0, i64::MAX).gaps
}

fn connections(connection: Connection) -> Changes {
    Changes {
        connections: vec![(PvId(0), connection)],
        ..Changes::default()
    }
}

#[test]
fn gap_follows_the_last_update_of_an_ioc_whose_clock_is_ahead() {
    let lost = connection(ConnectionState::Disconnected, 102 * SECOND);
    let back = connection(ConnectionState::Connected, 105 * SECOND);
    let gaps = |stamp_s: i64| {
        let changes = [connections(lost), connections(back)];
        let gaps = lost_and_back(stamp_s * SECOND, changes, [103 * SECOND, 105 * SECOND]);
        let gaps = gaps.iter();
        gaps.map(|gap| (gap.from_ns, gap.to_ns.unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(gaps(100), [(102 * SECOND, 105 * SECOND)]);
    assert_eq!(gaps(101), [(102 * SECOND, 106 * SECOND)]);
    assert_eq!(gaps(110), [(110 * SECOND + 1000, 115 * SECOND)]);
    // The first stamp of two is as likely to be an error as the second: an hour ahead is its clock.
    assert_eq!(gaps(3700), [(3700 * SECOND + 1000, 3705 * SECOND)]);
}

#[test]
fn gaps_after_a_stamp_at_the_end_of_time_do_no_harm() {
    let lost = || connections(connection(ConnectionState::Disconnected, 102 * SECOND));
    let mut store = store(usize::MAX);
    open(&mut store, &[(0, "ca://A")]);
    for (now_s, time_ns) in [(1, i64::MAX - 1), (2, i64::MAX), (3, i64::MIN)] {
        rows(&mut store, vec![row(0, time_ns, 1.0)], now_s * SECOND);
        for _ in 0..3 {
            store.take(&tick(lost(), 103 * SECOND));
            let back = connection(ConnectionState::Connected, 104 * SECOND);
            store.take(&tick(connections(back), 104 * SECOND));
        }
    }
    assert_eq!(read(&store, "ca://A", i64::MIN, i64::MAX).gaps.len(), 9);
}

#[test]
fn stamp_that_is_an_hour_ahead_once_moves_no_gap() {
    let wrong = Changes {
        rows: vec![row(0, 3700 * SECOND, 3.0)],
        ..Changes::default()
    };
    let lost = connections(connection(ConnectionState::Disconnected, 102 * SECOND));
    let gaps = lost_and_back(100 * SECOND, [wrong, lost], [101 * SECOND, 103 * SECOND]);
    let begins: Vec<_> = gaps.iter().map(|gap| (gap.from_ns, gap.to_ns)).collect();
    assert_eq!(begins, [(102 * SECOND, None)]);
}

#[test]
fn time_without_read_access_or_without_a_value_is_a_gap() {
    let connected = connection(ConnectionState::Connected, 0);
    let unreadable = Connection {
        read: false,
        ..connected
    };
    let refused = |missing_field: &str| Changes {
        metadata: vec![(
            PvId(0),
            Arc::new(Metadata {
                missing_field: missing_field.to_owned(),
                ..Metadata::default()
            }),
        )],
        ..Changes::default()
    };
    let expected = [PastGap {
        cause: GapCause::Disconnected,
        from_ns: 103 * SECOND,
        to_ns: Some(105 * SECOND),
    }];
    for changes in [
        [connections(unreadable), connections(connected)],
        [refused("it can't be sent"), refused("")],
    ] {
        let gaps = lost_and_back(100 * SECOND, changes, [103 * SECOND, 105 * SECOND]);
        assert_eq!(gaps, expected);
    }
}

#[test]
fn discarded_ticks_are_a_gap_and_the_alarm_after_them_is_right() {
    let mut store = store(usize::MAX);
    open(&mut store, &[(0, "ca://A")]);
    let first = ChangedRow {
        alarm: Some(alarm(Severity::NoAlarm)),
        ..row(0, 1, 1.0)
    };
    rows(&mut store, vec![first], 1);
    let missed = Missed {
        since_ns: 2,
        alarms: vec![(PvId(0), alarm(Severity::Major))],
        ..Missed::default()
    };
    let changes = Changes {
        rows: vec![row(0, 9, 9.0)],
        ..Changes::default()
    };
    let late = Tick {
        missed: Some(missed),
        ..tick(changes, 9)
    };
    store.take(&late);
    let past = read(&store, "ca://A", 0, 100);
    let severities: Vec<_> = past
        .samples
        .iter()
        .map(|sample| sample.alarm.severity)
        .collect();
    assert_eq!(severities, [Severity::NoAlarm, Severity::Major]);
    let causes: Vec<_> = past
        .gaps
        .iter()
        .map(|gap| (gap.cause, gap.from_ns))
        .collect();
    assert_eq!(causes, [(GapCause::Lost, 2)]);
}

#[test]
fn last_update_of_the_past_is_numbered_as_clients_number_it() {
    let mut store = store(usize::MAX);
    open(&mut store, &[(0, "ca://A")]);
    let described = |epoch| {
        let metadata = Metadata {
            epoch,
            ..Metadata::default()
        };
        vec![(PvId(0), Arc::new(metadata))]
    };
    let skipped = ChangedRow {
        skips: Skips {
            source: 2,
            ..Skips::NONE
        },
        ..row(0, 2, 2.0)
    };
    let changes = Changes {
        metadata: described(7),
        rows: vec![row(0, 1, 1.0), skipped],
        ..Changes::default()
    };
    store.take(&tick(changes, 2));
    let at = |epoch, sequence| Some(Position { epoch, sequence });
    assert_eq!(position(&store, "ca://A"), at(7, 4));
    let long = ChangedRow {
        value: RowValue::Blob(Arc::new(BlobValue::Text("x".repeat(257)))),
        ..row(0, 3, 0.0)
    };
    rows(&mut store, vec![long], 3);
    assert_eq!(
        position(&store, "ca://A"),
        at(7, 5),
        "not kept, but counted"
    );
    let again = Changes {
        metadata: described(8),
        rows: vec![row(0, 4, 1.0)],
        ..Changes::default()
    };
    store.take(&tick(again, 4));
    assert_eq!(position(&store, "ca://A"), at(8, 1));
    let missed = Missed {
        positions: vec![(
            PvId(0),
            Position {
                epoch: 8,
                sequence: 9,
            },
        )],
        ..Missed::default()
    };
    let late = Tick {
        missed: Some(missed),
        ..tick(Changes::default(), 5)
    };
    store.take(&late);
    rows(&mut store, vec![row(0, 6, 1.0)], 6);
    assert_eq!(position(&store, "ca://A"), at(8, 10));
    rows(&mut store, vec![row(0, 7, 2.0)], 7);
    close(&mut store, 1, 8);
    assert_eq!(position(&store, "ca://A"), None);
}

#[test]
fn pv_that_never_changed_leaves_no_past_when_it_is_closed() {
    let mut store = Store::new(options(&[("SR:*", 60)], usize::MAX));
    let names = ["ca://ONCE", "ca://TWICE", "ca://SR:ONCE"];
    let pvs = [(0, names[0]), (1, names[1]), (2, names[2])];
    open(&mut store, &pvs);
    let first = (0..3).map(|pv| row(pv, 1, 1.0)).collect();
    rows(&mut store, first, 1);
    rows(&mut store, vec![row(1, 2, 2.0)], 2);
    close(&mut store, 3, 3);
    assert_eq!(
        names.map(|name| numbers(&all(&store, name))),
        [vec![], vec![1.0, 2.0], vec![1.0]]
    );
    assert_eq!(store.rings(), 2);
}

#[test]
fn thousands_of_pvs_that_are_closed_at_once_cost_what_each_costs_alone() {
    const PVS: u32 = 40_000;
    let mut store = Store::new(options(&[("SR:*", 60)], usize::MAX));
    let names: Vec<_> = (0..PVS).map(|pv| format!("ca://{pv}")).collect();
    let pvs: Vec<_> = (0..).zip(names.iter().map(String::as_str)).collect();
    open(&mut store, &pvs);
    rows(&mut store, (0..PVS).map(|pv| row(pv, 1, 1.0)).collect(), 1);
    let mut took = |from: u32, to: u32| {
        let lifecycles = (from..to).map(|pv| opened(pv, None)).collect();
        let changes = Changes {
            lifecycles,
            ..Changes::default()
        };
        let begun = cpu_time();
        store.take(&tick(changes, 3));
        cpu_time() - begun
    };
    let few = took(0, PVS / 20);
    let many = took(PVS / 20, PVS);
    assert!(many < 100 * few, "{many:?} after {few:?}");
    assert!(many < Duration::from_secs(3), "{many:?}");
    assert_eq!((store.rings(), store.samples()), (0, 0));
}

#[test]
fn formulas_do_not_displace_the_past_of_servers() {
    let (before, bound) = (10, 100_000);
    let mut store = Store::new(options(&[], bound));
    open(&mut store, &[(0, "ca://A"), (1, "=`ca://A` + 1")]);
    let of_both = |at: u32| {
        vec![
            row(0, i64::from(at), f64::from(at)),
            row(1, i64::from(at), 0.0),
        ]
    };
    (0..before).for_each(|at| rows(&mut store, of_both(at), i64::from(at)));
    let mut noise = 1_u64;
    for at in i64::from(before)..100_000 {
        noise = noise
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        rows(&mut store, vec![row(1, at, noise as f64)], at);
    }
    assert!(store.evicted_total > 0);
    assert_eq!(all(&store, "ca://A").len(), before as usize);
    close(&mut store, 2, 100_000);
    assert_eq!(all(&store, "=`ca://A` + 1"), []);
    assert_eq!(all(&store, "ca://A").len(), before as usize);
}

#[test]
fn past_ends_after_the_time_of_its_pattern() {
    let mut store = Store::new(options(&[("SR:*", 60), ("NONE*", 0)], usize::MAX));
    open(
        &mut store,
        &[(0, "ca://SR:A"), (1, "pva://OTHER"), (2, "ca://NONE:1")],
    );
    rows(
        &mut store,
        (0..3).map(|pv| row(pv, 1, 1.0)).collect(),
        SECOND,
    );
    assert!(store.view("ca://NONE:1").is_none());
    let connected = |state, now_ns| {
        let connections = (0..3).map(|pv| (PvId(pv), connection(state, now_ns)));
        Changes {
            connections: connections.collect(),
            ..Changes::default()
        }
    };
    let lost = connected(ConnectionState::Disconnected, SECOND);
    store.take(&tick(lost, SECOND));
    store.expire(60 * SECOND);
    assert_eq!(all(&store, "ca://SR:A").len(), 1);
    store.expire(62 * SECOND);
    assert!(store.view("ca://SR:A").is_none());
    assert_eq!(all(&store, "pva://OTHER").len(), 1);
    store.expire(602 * SECOND);
    assert_eq!((store.rings(), store.bytes(), store.samples()), (0, 0, 0));
    assert_eq!(store.to_hold, Vec::<Arc<str>>::new(), "no PV has connected");
    let found = connected(ConnectionState::Connected, 603 * SECOND);
    store.take(&tick(found, 603 * SECOND));
    assert_eq!(
        store.to_hold,
        ["ca://SR:A".into()],
        "a pattern keeps its PVs monitored"
    );
}

#[test]
fn arrays_and_long_texts_are_not_kept() {
    let mut store = store(usize::MAX);
    open(&mut store, &[(0, "ca://A")]);
    let blob = |blob| RowValue::Blob(Arc::new(blob));
    let values = [
        blob(BlobValue::Text("x".repeat(257))),
        blob(BlobValue::TextArray(vec!["a".into()])),
        blob(BlobValue::Text("ok".into())),
    ];
    let changed = values.into_iter().map(|value| ChangedRow {
        value,
        ..row(0, 1, 0.0)
    });
    rows(&mut store, changed.collect(), 1);
    let values: Vec<_> = all(&store, "ca://A")
        .into_iter()
        .map(|sample| sample.value)
        .collect();
    assert_eq!(values, [PastValue::Text("ok".into())]);
}

#[test]
fn number_does_not_hold_on_in_the_past_when_the_pv_becomes_an_array() {
    let mut store = store(usize::MAX);
    open(&mut store, &[(0, "ca://A")]);
    let array = |time_ns| ChangedRow {
        value: RowValue::Blob(Arc::new(BlobValue::TextArray(vec!["a".into()]))),
        ..row(0, time_ns, 0.0)
    };
    let changed = vec![row(0, 1, 5.0), array(2), array(3), row(0, 4, 6.0), array(5)];
    rows(&mut store, changed, 1);
    let samples = all(&store, "ca://A").into_iter();
    let values: Vec<_> = samples
        .map(|sample| match sample.value {
            PastValue::Number(number) => (sample.time_ns, number.to_string()),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = [(1, "5"), (2, "NaN"), (4, "6"), (5, "NaN")];
    assert_eq!(values, expected.map(|(at, text)| (at, text.to_owned())));
}

#[test]
fn periodic_samples_of_an_adc_take_at_most_four_bytes_each() {
    let mut store = store(usize::MAX);
    open(&mut store, &[(0, "ca://A")]);
    let mut random = 88_172_645_463_325_252_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let samples = 36_000_i64;
    for n in 0..samples {
        let jitter = (next(100_000) + next(100_000)) as i64;
        let volts = (32_700 + next(80) + next(80)) as f64 * (10.0 / 65_536.0) - 5.0;
        let time_ns = n * SECOND / 10 + jitter;
        rows(&mut store, vec![row(0, time_ns, volts)], time_ns);
    }
    assert_eq!(store.samples(), samples as usize);
    let per_sample = store.bytes() as f64 / samples as f64;
    assert!(per_sample <= 4.0, "{per_sample} bytes per sample");
}
