//! Pages of random pasts, and what a page may weigh.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use pvwire_fleet::MemberId;
use pvwire_schema::limits::MAX_PAGE_BYTES;
use pvwire_schema::types::{Alarm, BlobValue, PvId, Severity, Skips};
use serde_json::Value;

use super::*;
use crate::access::rule::Rules;
use crate::compute::Pool;
use crate::config::HistoryRule;
use crate::fleet::Fleet;
use crate::ingest::{Intake, Line, Monitor, OpenError, Queue, RowValue, Source};
use crate::state::history::{HistoryOptions, PastPart, PastValue, RunningHistory};
use crate::state::table::{Before, ChangedRow, Changes, Lifecycle, Now, Table};
use crate::state::tick::TickSink;

/// A source that opens nothing.
struct Closed;

impl Source for Closed {
    fn scheme(&self) -> &'static str {
        "ca"
    }

    fn open(&self, _: &str, _: Line, _: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        Err(OpenError::name("nothing is opened here"))
    }
}

/// The past of the PVs with these names, which are numbered in their order, with these updates, a hundred in a tick.
pub(super) fn histories(names: &[&str], rows: Vec<ChangedRow>) -> (Arc<Histories>, RunningHistory) {
    histories_in(None, names, rows)
}

fn histories_in(
    owners: Option<FleetPast>,
    names: &[&str],
    rows: Vec<ChangedRow>,
) -> (Arc<Histories>, RunningHistory) {
    let registry = Registry::new(
        Intake::new(),
        vec![Box::new(Closed)],
        "ca",
        Duration::ZERO,
        Rules::default(),
    );
    let registry = Arc::new(registry);
    let rule = HistoryRule {
        pattern: "*".to_owned(),
        keep: Duration::from_secs(3600),
    };
    let history = History::new(HistoryOptions::new(&[rule], usize::MAX));
    let (running, mut sink) = RunningHistory::start(&history, Arc::clone(&registry)).unwrap();
    let opened = (0..).zip(names).map(|(pv, name)| Lifecycle {
        pv: PvId(pv),
        opened: Some(format!("ca://{name}").into()),
        before: Before::default(),
    });
    let opened: Vec<_> = opened.collect();
    let mut rows = rows.into_iter().peekable();
    let table = Table::new(Duration::ZERO);
    for tick in 1.. {
        let changes = Changes {
            tick,
            rows: rows.by_ref().take(100).collect(),
            lifecycles: if tick == 1 {
                opened.clone()
            } else {
                Vec::new()
            },
            ..Changes::default()
        };
        let now = Now {
            instant: Instant::now(),
            wall_ns: wall_ns(),
        };
        sink.tick(&table, &Arc::new(changes), now);
        if rows.peek().is_none() {
            break;
        }
    }
    (
        Histories::new(registry, Some(history), None, owners),
        running,
    )
}

pub(super) fn rows(values: &[(i64, RowValue, Option<Alarm>, Skips)]) -> Vec<ChangedRow> {
    let row = |(time_ns, value, alarm, skips): &(i64, RowValue, Option<Alarm>, Skips)| ChangedRow {
        pv: PvId(0),
        time_ns: *time_ns,
        value: value.clone(),
        alarm: *alarm,
        detail: None,
        skips: *skips,
    };
    values.iter().map(row).collect()
}

/// The JSON text, times and numbers of a page.
pub(super) type PageSeen = (Value, Vec<i64>, Vec<f64>);

fn answer(histories: &Histories, query: Query) -> Vec<PageSeen> {
    let reading = histories.read(&Arc::default(), query).unwrap();
    pages_of(Answering {
        reading: Box::new(reading),
        pool: Pool::start().unwrap().handle(),
        cpu: CpuShare::unlimited(),
    })
}

/// The pages of an answer.
pub(super) fn pages_of(reading: impl Pages + 'static) -> Vec<PageSeen> {
    let (sent, got) = channel();
    let mut next: Option<Box<dyn Pages>> = Some(Box::new(reading));
    let mut pages = Vec::new();
    while let Some(reading) = next {
        let sent = sent.clone();
        reading.next(Reply::new(move |page| sent.send(page).unwrap()));
        let page = got.recv().unwrap().unwrap();
        assert!(
            page.content.len() <= MAX_PAGE_BYTES,
            "{} bytes",
            page.content.len()
        );
        let (words, _) = page.content.as_chunks::<8>();
        let text = u32::from_le_bytes(page.content[..4].try_into().unwrap()) as usize;
        let count = u32::from_le_bytes(page.content[4..8].try_into().unwrap()) as usize;
        let (times, numbers) = words[1 + text / 8..].split_at(count);
        pages.push((
            serde_json::from_slice(&page.content[8..8 + text]).unwrap(),
            times.iter().copied().map(i64::from_le_bytes).collect(),
            numbers.iter().copied().map(f64::from_le_bytes).collect(),
        ));
        next = page.rest;
    }
    pages
}

#[test]
fn no_page_exceeds_its_limit_whatever_the_values_are() {
    let worst = |n: u32| Alarm {
        severity: if n.is_multiple_of(2) {
            Severity::Major
        } else {
            Severity::Invalid
        },
        status: u16::MAX,
    };
    let skips = Skips {
        relay: u32::MAX,
        source: u32::MAX,
        filter: u32::MAX,
        bus: u32::MAX,
    };
    let blob = |n: u32| {
        RowValue::Blob(Arc::new(match n % 3 {
            0 => BlobValue::Int64(i64::MIN),
            1 => BlobValue::UInt64(u64::MAX),
            _ => BlobValue::Text("\u{1}".repeat(256)),
        }))
    };
    let begin_ns = wall_ns() - 3_000_000_000;
    let values: Vec<_> = (0..3_000)
        .map(|n| {
            (
                begin_ns + 1_000_000 * i64::from(n),
                blob(n),
                Some(worst(n)),
                skips,
            )
        })
        .collect();
    let (histories, _running) = histories(&["A"], rows(&values));
    let query = |points| Query {
        name: "A".to_owned(),
        points,
        ..Query::default()
    };
    for points in [None, Some(MAX_POINTS), Some(1_000)] {
        let pages = answer(&histories, query(points));
        assert!(pages.len() > 2, "{points:?}: {}", pages.len());
        if points != Some(1_000) {
            assert_eq!(
                pages.iter().map(|(_, times, _)| times.len()).sum::<usize>(),
                3_000
            );
        }
    }
}

/// An owner's page with numbers from one second before those of [`own`], in steps of one nanosecond.
fn of_owner(numbers: std::ops::Range<i64>, rest: bool) -> Result<PastPage, NoPage> {
    let sample = |number: i64| PastSample {
        time_ns: OWN_NS - 1_000_000_000 + number,
        value: PastValue::Number(number as f64),
        alarm: Alarm::NONE,
        skips: Skips::NONE,
    };
    let end = numbers.end as u64;
    Ok(PastPage {
        of: MemberId(1),
        ends_at_update: true,
        part: Some(PastPart {
            kept_since_ns: Some(OWN_NS - 1_000_000_000),
            newest_ns: Some(OWN_NS),
            has_held: false,
            gaps: Vec::new(),
            samples: numbers.map(sample).collect(),
            rest: rest.then_some((end, 1_000)),
        }),
    })
}

/// Time of the first of three updates that this relay has.
const OWN_NS: i64 = 1_795_000_000_000_000_000;

fn own(points: Option<usize>) -> (Box<Reading>, RunningHistory) {
    let values = [7.0, 8.0, 9.0].map(|number| {
        let time_ns = OWN_NS + number as i64 - 7;
        (time_ns, RowValue::Number(number), None, Skips::NONE)
    });
    let owners = Some(Fleet::default().past());
    let (histories, running) = histories_in(owners, &["A"], rows(&values));
    let query = Query {
        name: "A".to_owned(),
        points,
        ..Query::default()
    };
    let reading = histories.read(&Arc::default(), query).unwrap();
    (Box::new(reading), running)
}

/// Goes on with an owner's answer.
fn with_answer(reading: Box<Reading>, answer: Result<PastPage, NoPage>) -> Result<Step, Problem> {
    let Step::Wait(Waiting(mut reading)) = reading.step()? else {
        panic!("the owner is not asked");
    };
    reading.asking.as_mut().unwrap().answer = Some(answer);
    reading.step()
}

fn piece(step: Result<Step, Problem>) -> (Preface, Vec<f64>, Option<Box<Reading>>) {
    let Step::Piece(piece) = step.unwrap() else {
        panic!("the owner is asked again");
    };
    let number = |sample: &PastSample| match sample.value {
        PastValue::Number(number) => number,
        _ => f64::NAN,
    };
    let numbers = piece.samples.iter().map(number).collect();
    (piece.preface.unwrap_or_default(), numbers, piece.rest)
}

fn lost() -> Result<PastPage, NoPage> {
    Err(NoPage::Because("it is lost".to_owned()))
}

#[test]
fn owner_that_has_kept_less_or_does_not_answer_leaves_this_relays_own_past() {
    let nothing = || PastPage {
        of: MemberId(1),
        ends_at_update: true,
        part: None,
    };
    let short = || PastPage {
        part: Some(PastPart {
            kept_since_ns: Some(OWN_NS + 1),
            ..PastPart::default()
        }),
        ..nothing()
    };
    for (answer, why) in [
        (Ok(nothing()), None),
        (Ok(short()), None),
        (Err(NoPage::Here), None),
        (lost(), Some("it is lost".to_owned())),
    ] {
        let (reading, _running) = own(None);
        let (preface, numbers, rest) = piece(with_answer(reading, answer));
        assert_eq!((numbers, preface.incomplete), (vec![7.0, 8.0, 9.0], why));
        assert_eq!(preface.kept_since_ns, Some(OWN_NS));
        assert!(preface.position.is_some() && rest.is_none());
    }
}

#[test]
fn answer_of_an_owner_that_is_lost_in_its_midst_does_not_look_whole() {
    let (reading, _running) = own(None);
    let (preface, numbers, rest) = piece(with_answer(reading, of_owner(0..3, true)));
    assert_eq!((numbers, preface.incomplete), (vec![0.0, 1.0, 2.0], None));
    assert_eq!(preface.kept_since_ns, Some(OWN_NS - 1_000_000_000));
    let (_, numbers, rest) = piece(with_answer(rest.unwrap(), of_owner(3..5, true)));
    assert_eq!(numbers, [3.0, 4.0]);
    let asking = rest.as_ref().unwrap().asking.as_ref().unwrap();
    assert_eq!(asking.question.next, Some((MemberId(1), (5, 1_000))));
    let Err(problem) = with_answer(rest.unwrap(), lost()) else {
        panic!("it ends");
    };
    let why = "the answer is not whole: it is lost; ask again";
    assert_eq!(problem, Problem::new(Outcome::Interrupted, why));

    // Of a thinned answer the client has nothing yet.
    let (reading, _running) = own(Some(4));
    let Ok(Step::Wait(Waiting(reading))) = with_answer(reading, of_owner(0..9, true)) else {
        panic!("the rest is not asked for");
    };
    let (preface, numbers, rest) = piece(with_answer(reading, lost()));
    assert_eq!(numbers, [7.0, 8.0, 9.0]);
    assert_eq!(preface.incomplete.as_deref(), Some("it is lost"));
    assert_eq!(preface.kept_since_ns, Some(OWN_NS));
    assert!(rest.is_none());
}

#[test]
fn pages_of_an_owner_are_thinned_as_one_answer() {
    let (reading, _running) = own(Some(8));
    let Ok(Step::Wait(Waiting(reading))) = with_answer(reading, of_owner(0..500, true)) else {
        panic!("the rest is not asked for");
    };
    let last = with_answer(reading, of_owner(500..900, false));
    let Ok(Step::Piece(piece)) = last else {
        panic!("the owner is asked again");
    };
    let updates = piece.bins.iter().map(|bin| bin.updates).sum::<u32>();
    assert_eq!((updates, piece.rest.is_none()), (900, true));
    assert!(piece.samples.len() <= 8);
}

#[test]
fn updates_that_the_owner_does_not_number_leave_the_join_to_times() {
    let (reading, _running) = own(None);
    let answer = of_owner(0..3, false).map(|page| PastPage {
        ends_at_update: false,
        ..page
    });
    let (preface, numbers, rest) = piece(with_answer(reading, answer));
    assert_eq!((numbers.len(), preface.position), (3, None));
    assert!(rest.is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    #[test]
    fn pages_have_every_update_once_with_its_alarm(
        steps in prop::collection::vec((1..1_000_i64, -9..9_i32, prop::option::weighted(0.1, 0..4_u8)), 1..6_000),
    ) {
        let (mut time_ns, mut severity) = (1_795_000_000_000_000_000, 0);
        let mut expected = Vec::new();
        let values: Vec<_> = steps.iter().map(|(step, number, changed)| {
            time_ns += step;
            severity = changed.unwrap_or(severity);
            expected.push((time_ns, f64::from(*number), severity));
            let alarm = changed.map(|number| Alarm {
                severity: Severity::from_number(number),
                status: 0,
            });
            (time_ns, RowValue::Number(f64::from(*number)), alarm, Skips::NONE)
        }).collect();
        let (histories, _running) = histories(&["A"], rows(&values));
        let pages = answer(&histories, Query { name: "A".to_owned(), ..Query::default() });
        let mut found = Vec::new();
        for (head, times, numbers) in &pages {
            let mut alarms = head["alarms"].as_array().into_iter().flatten().peekable();
            let mut severity = None;
            for (row, (time, number)) in times.iter().zip(numbers).enumerate() {
                if let Some(alarm) = alarms.next_if(|alarm| alarm[0] == row) {
                    severity = alarm[1].as_u64();
                }
                found.push((*time, *number, severity.unwrap() as u8));
            }
        }
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(pages[0].0["sequence"].as_u64(), Some(steps.len() as u64));
        prop_assert!(pages.iter().rev().skip(1).all(|(head, ..)| head["last"] == false));
        prop_assert_eq!(&pages[pages.len() - 1].0["last"], true);
    }
}
