//! What is read from a disk against what was in the rings, and what damage and kills do to it.

mod faults;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use pvwire_schema::types::{Alarm, ConnectionState};

use super::*;
use crate::state::history::disk::folder::{End, read as read_segment};
use crate::state::history::disk::restore::Restore;
use crate::state::history::tests::{
    SECOND, Update, alarm, all, connection, is_same, open, options, read, row, row_value, rows,
    tick, update,
};
use crate::state::history::{GapCause, PastGap, PastSample, PastValue};
use crate::state::table::{ChangedRow, Changes};
use pvwire_schema::types::PvId;

const NAMES: [&str; 4] = ["ca://A", "ca://B", "pva://C", "ca://D"];

/// A new folder, which is removed at the end of the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("pvwire-history-{}-{count}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    /// The segments in their order.
    fn segments(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        let mut segments: Vec<_> = entries
            .filter(|path| path.extension().is_some_and(|ending| ending == "past"))
            .collect();
        segments.sort();
        segments
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn kept() -> HistoryOptions {
    options(&[("*", 3600)], usize::MAX)
}

fn opened(
    scratch: &Scratch,
    max_bytes: u64,
    now_ns: i64,
) -> Result<(Mutex<Store>, Journal), FolderError> {
    let mut store = Store::new(kept());
    let journal = Journal::open(&scratch.0, max_bytes, &kept(), &mut store, now_ns)?;
    let pvs: Vec<_> = (0..).zip(NAMES).collect();
    open(&mut store, &pvs);
    Ok((Mutex::new(store), journal))
}

fn started(scratch: &Scratch, max_bytes: u64, now_ns: i64) -> (Mutex<Store>, Journal) {
    // A process that another test is just starting has the lock for a moment, too.
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match opened(scratch, max_bytes, now_ns) {
            Err(FolderError::InUse(_)) if Instant::now() < deadline => thread::yield_now(),
            other => return other.unwrap(),
        }
    }
}

fn pasts(store: &Mutex<Store>) -> Vec<Vec<PastSample>> {
    let store = store.lock().unwrap();
    NAMES.iter().map(|name| all(&store, name)).collect()
}

fn gaps(store: &Mutex<Store>, name: &str) -> Vec<PastGap> {
    read(&store.lock().unwrap(), name, i64::MIN, i64::MAX).gaps
}

fn connect(store: &Mutex<Store>, state: ConnectionState, now_ns: i64) {
    let connections = (0..4)
        .map(|pv| (PvId(pv), connection(state, now_ns)))
        .collect();
    let changes = Changes {
        connections,
        ..Changes::default()
    };
    store.lock().unwrap().take(&tick(changes, now_ns));
}

fn changed(updates: &[Update], clock: &mut i64) -> Vec<ChangedRow> {
    let change = |update: &Update| {
        *clock += update.step_ns;
        ChangedRow {
            value: row_value(&update.value),
            alarm: update.alarm.map(alarm),
            skips: update.skips,
            ..row(update.pv, *clock, 0.0)
        }
    };
    updates.iter().map(change).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, ..ProptestConfig::default() })]

    #[test]
    fn past_is_the_same_after_any_restarts(
        updates in prop::collection::vec(update(), 1..1500),
        per_tick in 1..50_usize,
        what in prop::collection::vec((0..10_u8, any::<bool>()), 1..60),
        max_bytes in prop_oneof![Just(u64::MAX / 4), Just(600_000_u64), Just(30_000)],
    ) {
        let scratch = Scratch::new();
        let mut clock = wall_ns();
        let (mut store, mut journal) = started(&scratch, max_bytes, clock);
        connect(&store, ConnectionState::Connected, clock);
        for (some, (kind, is_planned)) in updates.chunks(per_tick).zip(what.iter().cycle()) {
            let changes = changed(some, &mut clock);
            rows(&mut store.lock().unwrap(), changes, clock);
            match kind {
                0 => {
                    let before = pasts(&store);
                    connect(&store, ConnectionState::Disconnected, clock);
                    journal.write(&store, clock, *is_planned);
                    let gaps_before = NAMES.map(|name| gaps(&store, name));
                    drop(journal);
                    (store, journal) = started(&scratch, max_bytes, clock);
                    for ((past, before), name) in pasts(&store).iter().zip(&before).zip(NAMES) {
                        let kept = &before[before.len() - past.len().min(before.len())..];
                        prop_assert!(is_same(past, kept), "{name}: {} of {}", past.len(), before.len());
                        prop_assert!(past.len() == before.len() || max_bytes < 100_000, "{name}");
                    }
                    for (before, name) in gaps_before.iter().zip(NAMES) {
                        let restored = gaps(&store, name);
                        let is_all = before.iter().all(|gap| restored.contains(gap));
                        prop_assert!(is_all || max_bytes < 100_000, "{name}: {restored:?}, {before:?}");
                    }
                    connect(&store, ConnectionState::Connected, clock);
                }
                1..5 => journal.write(&store, clock, false),
                _ => {}
            }
            prop_assert!(journal.folder.bytes() <= max_bytes.max(256 << 10));
        }
    }
}

/// Three batches with a chunk, numbers, texts, alarms and a gap in one segment.
fn written(scratch: &Scratch) -> Vec<Vec<PastSample>> {
    let now_ns = wall_ns();
    let (store, mut journal) = started(scratch, 1 << 30, now_ns);
    let number = |n: i64| row(0, now_ns + n * 100_000_001, (n % 7) as f64);
    for (batch, count) in [(0, 300), (1, 20), (2, 3)] {
        let mut changes: Vec<_> = (0..count).map(|n| number(batch * 1000 + n)).collect();
        changes.push(ChangedRow {
            value: row_value(&PastValue::Text(format!("text {batch}").into())),
            alarm: Some(Alarm {
                status: 3,
                ..Alarm::NONE
            }),
            ..row(1, now_ns + batch, 0.0)
        });
        rows(&mut store.lock().unwrap(), changes, now_ns);
        connect(&store, ConnectionState::Disconnected, now_ns + batch);
        connect(&store, ConnectionState::Connected, now_ns + batch);
        journal.write(&store, now_ns, false);
    }
    pasts(&store)
}

fn restored(segment: &[u8]) -> (Vec<Vec<PastSample>>, End) {
    let mut restore = Restore::default();
    let (_, end) = read_segment(&mut &segment[..], &mut restore).unwrap();
    let mut store = Store::new(kept());
    store.restore(restore, wall_ns());
    (pasts(&Mutex::new(store)), end)
}

#[test]
fn segment_cut_at_any_byte_has_all_before_the_cut_and_nothing_else() {
    let scratch = Scratch::new();
    let whole = written(&scratch);
    let segment = fs::read(&scratch.segments()[0]).unwrap();
    let mut before = 0;
    for length in 0..=segment.len() {
        let (pasts, end) = restored(&segment[..length]);
        let is_begin = |(past, whole): (&Vec<_>, &Vec<_>)| {
            whole.len() >= past.len() && is_same(past, &whole[..past.len()])
        };
        assert!(pasts.iter().zip(&whole).all(is_begin), "cut at {length}");
        let samples: usize = pasts.iter().map(Vec::len).sum();
        assert!(samples >= before, "cut at {length}");
        before = samples;
        assert!(
            matches!(end, End::Whole | End::Torn(_)),
            "cut at {length}: {end:?}"
        );
    }
    assert_eq!(before, whole.iter().map(Vec::len).sum::<usize>());
    assert_eq!(before, 326);
}

#[test]
fn damaged_byte_costs_what_follows_in_its_segment_and_gives_no_other_value() {
    let scratch = Scratch::new();
    let whole = written(&scratch);
    let segment = fs::read(&scratch.segments()[0]).unwrap();
    for (index, flip) in (0..segment.len()).zip([1_u8, 0x10, 0x80, 0xff].into_iter().cycle()) {
        let mut damaged = segment.clone();
        damaged[index] ^= flip;
        let (found, end) = restored(&damaged);
        let (cut, _) = restored(&segment[..index]);
        assert!(!matches!(end, End::Whole), "byte {index}");
        for ((found, cut), whole) in found.iter().zip(&cut).zip(&whole) {
            assert!(is_same(found, &whole[..found.len()]), "byte {index}");
            assert_eq!(found.len(), cut.len(), "byte {index}");
        }
    }
}

#[test]
fn torn_end_is_cut_off_and_damage_is_counted_and_gone_after_a_start() {
    let scratch = Scratch::new();
    let whole = written(&scratch);
    let path = scratch.segments().remove(0);
    let segment = fs::read(&path).unwrap();
    fs::write(&path, [&segment[..], &[200, 0, 0, 0, 1, 2]].concat()).unwrap();
    let (_, journal) = started(&scratch, 1 << 30, wall_ns());
    assert_eq!(journal.state.damaged.load(Ordering::Relaxed), 0);
    assert_eq!(fs::read(&path).unwrap(), segment);
    drop(journal);

    let mut damaged = segment.clone();
    // The last batch, which only says that all is written, is as long as this.
    damaged[segment.len() - 16 - 3] ^= 1;
    fs::write(&path, damaged).unwrap();
    let (store, mut journal) = started(&scratch, 1 << 30, wall_ns());
    assert_eq!(journal.state.damaged.load(Ordering::Relaxed), 1);
    let left = pasts(&store);
    assert!(is_same(&left[0], &whole[0][..320]));
    journal.write(&store, wall_ns(), false);
    assert!(!path.exists(), "the rings are in other segments");
    drop(journal);
    let (store, journal) = started(&scratch, 1 << 30, wall_ns());
    assert_eq!(journal.state.damaged.load(Ordering::Relaxed), 0);
    assert!(
        pasts(&store)
            .iter()
            .zip(&left)
            .all(|(past, left)| is_same(past, left))
    );
}

#[test]
fn segment_with_an_absurd_length_takes_no_memory() {
    let scratch = Scratch::new();
    let whole = written(&scratch);
    let path = scratch.segments().remove(0);
    // Zeros without end, as a damaged file system may show them.
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(64 << 30).unwrap();
    let (store, journal) = started(&scratch, 1 << 30, wall_ns());
    assert_eq!(journal.state.damaged.load(Ordering::Relaxed), 1);
    let found = pasts(&store);
    assert!(is_same(&found[0], &whole[0]), "what is before them is kept");
}

#[test]
fn damaged_segment_costs_no_other_segment_anything_and_leaves_a_gap() {
    let scratch = Scratch::new();
    let mut clock = wall_ns();
    for begin in [0, 10, 20] {
        let (store, mut journal) = started(&scratch, 1 << 30, clock);
        let numbers = begin..begin + 10;
        let changes = numbers.map(|n| row(0, clock + n, n as f64)).collect();
        rows(&mut store.lock().unwrap(), changes, clock);
        connect(&store, ConnectionState::Connected, clock);
        journal.write(&store, clock, true);
        clock += SECOND;
    }
    let path = scratch.segments().remove(1);
    let mut segment = fs::read(&path).unwrap();
    segment[20] ^= 1;
    fs::write(&path, segment).unwrap();
    let (store, journal) = started(&scratch, 1 << 30, clock);
    assert_eq!(journal.state.damaged.load(Ordering::Relaxed), 1);
    let past = pasts(&store).remove(0);
    let expected = (0..10)
        .chain(20..30)
        .map(|n| PastValue::Number(f64::from(n)));
    assert!(past.iter().map(|sample| sample.value.clone()).eq(expected));
    let lost = |gap: &PastGap| gap.cause == GapCause::Lost;
    assert!(
        gaps(&store, NAMES[0]).iter().any(lost),
        "{:?}",
        gaps(&store, NAMES[0])
    );
}

#[test]
fn segments_of_the_version_before_are_read() {
    let scratch = Scratch::new();
    let before = written(&scratch);
    for path in scratch.segments() {
        let mut segment = fs::read(&path).unwrap();
        segment[7] = b'1';
        let checksum = crc32fast::hash(&segment[..8]).to_le_bytes();
        segment[8..12].copy_from_slice(&checksum);
        fs::write(&path, segment).unwrap();
    }
    let (store, _) = started(&scratch, 1 << 30, wall_ns());
    assert_eq!(pasts(&store), before);
}

#[test]
fn folder_of_another_relay_or_version_and_what_is_no_regular_file_are_refused_by_name() {
    let scratch = Scratch::new();
    written(&scratch);
    let (_, journal) = started(&scratch, 1 << 30, wall_ns());
    let refusal = || opened(&scratch, 1 << 30, wall_ns()).unwrap_err();
    let why = refusal().to_string();
    assert!(
        why.contains("another relay") && why.contains("separate folder"),
        "{why}"
    );
    drop(journal);
    let refusal = || loop {
        match refusal() {
            FolderError::InUse(_) => thread::yield_now(),
            other => return other.to_string(),
        }
    };

    let path = scratch.segments().remove(0);
    let segment = fs::read(&path).unwrap();
    let mut other = segment.clone();
    other[7] = b'3';
    let checksum = crc32fast::hash(&other[..8]).to_le_bytes();
    other[8..12].copy_from_slice(&checksum);
    fs::write(&path, other).unwrap();
    let why = refusal();
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(
        why.contains(name) && why.contains("another version"),
        "{why}"
    );

    let away = scratch.0.join("elsewhere");
    fs::rename(&path, &away).unwrap();
    symlink(&away, &path).unwrap();
    let why = refusal();
    assert!(
        why.contains(name) && why.contains("a symbolic link"),
        "{why}"
    );
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(refusal().contains("it is a folder"), "{}", refusal());
    fs::remove_dir(&path).unwrap();
    fs::write(&path, segment).unwrap();
    started(&scratch, 1 << 30, wall_ns());
}

#[test]
fn rings_are_written_again_when_the_segments_are_long_and_old_segments_go() {
    let scratch = Scratch::new();
    let (max_bytes, begin) = (2_000_000, wall_ns());
    let (store, mut journal) = started(&scratch, max_bytes, begin);
    let mut most = 0;
    for n in 0..3_000_i64 {
        let now_ns = begin + n * SECOND / 10;
        let value = |k: i64| {
            row(
                (k % 4) as u32,
                now_ns + k,
                ((n * 40 + k) as f64 * 0.37).sin(),
            )
        };
        let changes = (0..40).map(value).collect();
        rows(&mut store.lock().unwrap(), changes, now_ns);
        journal.write(&store, now_ns, false);
        most = most.max(journal.folder.bytes());
    }
    assert!(most <= max_bytes, "{most} bytes");
    assert!(
        journal.rewritten_bytes > 0,
        "the rings were not written again"
    );
    let before = pasts(&store);
    drop(journal);
    let (store, mut journal) = started(&scratch, max_bytes, begin + 300 * SECOND);
    let after = pasts(&store);
    assert!(
        before
            .iter()
            .zip(&after)
            .all(|(before, after)| is_same(before, after))
    );

    // Long after, all of it is older than any PV is kept.
    let later = begin + 5000 * SECOND;
    rows(&mut store.lock().unwrap(), vec![row(0, later, 1.0)], later);
    store.lock().unwrap().expire(later);
    journal.write(&store, later, false);
    assert_eq!(scratch.segments().len(), 1);
}

#[test]
fn pv_whose_past_memory_had_removed_has_all_of_it_after_any_restarts() {
    let scratch = Scratch::new();
    let now_ns = wall_ns();
    let mut store = Store::new(options(&[("*", 3600)], 30_000));
    let mut journal = Journal::open(&scratch.0, 1 << 30, &kept(), &mut store, now_ns).unwrap();
    open(&mut store, &[(0, NAMES[0]), (1, NAMES[1])]);
    let store = Mutex::new(store);
    let noise = |pv: u32, n: i64| row(pv, now_ns + n, (n as f64 * 0.37).sin());
    for (pv, numbers) in [(0, 0..300), (1, 300..6_000), (0, 6_000..6_010)] {
        for n in numbers {
            rows(&mut store.lock().unwrap(), vec![noise(pv, n)], now_ns);
            if n % 100 == 0 {
                journal.write(&store, now_ns, false);
            }
        }
    }
    journal.write(&store, now_ns, true);
    assert!(
        pasts(&store)[0].len() <= 10,
        "memory has removed the others"
    );
    drop(journal);
    for restart in 0..3 {
        let (store, mut journal) = started(&scratch, 1 << 30, now_ns);
        let times = pasts(&store).remove(0);
        let times = times.iter().map(|sample| sample.time_ns - now_ns);
        assert!(times.eq((0..300).chain(6_000..6_010)), "restart {restart}");
        let is_lost = |gap: &PastGap| gap.cause == GapCause::Lost;
        assert!(
            !gaps(&store, NAMES[0]).iter().any(is_lost),
            "restart {restart}"
        );
        journal.rewrite = Some(Rewrite {
            first: journal.folder.next_number(),
            slot: 0,
        });
        journal.write(&store, now_ns, false);
        assert!(journal.rewrite.is_none());
    }
}

/// Each kill reads all of it twice; it is enough for some segments, and for rings that are written again.
const BYTES_OF_KILLS: u64 = 400_000;

/// Writes without end what the test that kills it reads.
fn write_without_end(scratch: &Scratch) {
    let mut now_ns = wall_ns();
    let (store, mut journal) = started(scratch, BYTES_OF_KILLS, now_ns);
    let last = |past: &Vec<PastSample>| past.last().map_or(0, |sample| sample.time_ns);
    let mut number = pasts(&store).iter().map(last).max().unwrap_or(0);
    let mut out = std::io::stdout();
    loop {
        let count = 1 + number % 60;
        let numbers = number + 1..=number + count;
        let rows_of = |n| (0..4).map(move |pv| row(pv, n, (n as f64 * 0.37).sin()));
        let changes = numbers.flat_map(rows_of).collect();
        rows(&mut store.lock().unwrap(), changes, now_ns);
        number += count;
        now_ns = wall_ns();
        journal.write(&store, now_ns, false);
        // The test has ended when it doesn't read any more.
        if writeln!(out, "\nwritten {number}")
            .and_then(|()| out.flush())
            .is_err()
        {
            return;
        }
    }
}

/// `PVWIRE_HISTORY_KILLS` is the number of kills.
#[test]
fn writer_killed_at_any_moment_leaves_all_that_was_written() {
    const FOLDER: &str = "HISTORY_WRITES_TO";
    if let Ok(folder) = std::env::var(FOLDER) {
        return write_without_end(&std::mem::ManuallyDrop::new(Scratch(folder.into())));
    }
    let kills = std::env::var("PVWIRE_HISTORY_KILLS").map_or(5, |kills| kills.parse().unwrap());
    let scratch = Scratch::new();
    let name =
        "state::history::journal::tests::writer_killed_at_any_moment_leaves_all_that_was_written";
    let mut random = 88_172_645_463_325_252_u64;
    let (mut known, mut read) = (0, 0);
    for kill in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut writer = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FOLDER, &scratch.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let numbers = lines.map_while(Result::ok).filter_map(|line| {
            line.strip_prefix("written ")
                .and_then(|number| number.parse::<i64>().ok())
        });
        let mut numbers = numbers.peekable();
        assert!(numbers.peek().is_some(), "the writer has ended");
        for number in numbers.by_ref().take(1 + (random % 40) as usize) {
            known = number;
        }
        let micros = Duration::from_micros(random >> 20 & 0x7ff);
        let until = Instant::now() + micros;
        while Instant::now() < until {}
        writer.kill().unwrap();
        writer.wait().unwrap();
        known = numbers.last().unwrap_or(known);

        let (store, journal) = started(&scratch, BYTES_OF_KILLS, wall_ns());
        assert_eq!(
            journal.state.damaged.load(Ordering::Relaxed),
            0,
            "kill {kill}"
        );
        for (past, name) in pasts(&store).iter().zip(NAMES) {
            let last = past.last().unwrap().time_ns;
            assert!(
                last >= known,
                "kill {kill}: {name} ends with {last}, {known} was written"
            );
            read += past.len();
            let begin = last - past.len() as i64;
            let is_right = |(sample, n): (&PastSample, i64)| {
                sample.time_ns == n
                    && sample
                        .value
                        .is_same(&PastValue::Number((n as f64 * 0.37).sin()))
            };
            assert!(
                past.iter().zip(begin + 1..).all(is_right),
                "kill {kill}: {name}"
            );
            let is_lost = |gap: &PastGap| gap.cause == GapCause::Lost;
            assert!(
                !gaps(&store, name).iter().any(is_lost),
                "kill {kill}: {name}"
            );
        }
    }
    println!("{kills} kills, {read} samples read");
}
