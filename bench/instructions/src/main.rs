//! The program whose instructions callgrind counts. `bench/instructions/count.py` runs every case under
//! callgrind and compares the counts with those that were accepted before. Here is the work for received bytes: in the
//! browser for each frame, in the relay for each request.

#![forbid(unsafe_code)]

mod relay;
mod stage;

use std::hint::black_box;
use std::process::ExitCode;

use pvwire_core::ingest::Session;
use pvwire_schema::encode::{self, FrameEncoder, RowMarks};
use pvwire_schema::types::{Filter, FrameKind, PvId, Request, RequestBody};
use pvwire_schema::{decode, types};

/// Calls before the counted ones, so that buffers have their final size.
const WARM_UP: usize = 3;

/// Counted calls.
const CALLS: usize = 20;

/// A case: its name, the number of rows (or names) per call, and the function that prepares and runs it.
type Case = (&'static str, usize, fn(rows: usize));

const CASES: &[Case] = &[
    ("encode-200", 200, relay::encode),
    ("encode-1000", 1_000, relay::encode),
    ("gather-40-of-400", 40, relay::gather_of_2_000),
    ("gather-40-of-2000", 40, relay::gather_of_10_000),
    ("catch-up-1000", 1_000, relay::catch_up),
    ("tick-1000", 1_000, stage::tick),
    ("tick-beside-doors-1000", 1_000, stage::tick_with_doors),
    ("thread-1000", 1_000, stage::turn),
    ("thread-beside-doors-1000", 1_000, stage::turn_with_doors),
    ("apply-200", 200, apply),
    ("apply-1000", 1_000, apply),
    ("request-subscribe-1000", 1_000, subscribe),
    ("request-ack", 1, acknowledge),
];

/// callgrind counts only in this function. The result of `work` is dropped outside it.
#[inline(never)]
fn counted_work<T>(work: &mut impl FnMut() -> T) -> T {
    work()
}

/// Runs `work` for the warm-up, and then for the counted calls.
fn repeat<T>(mut work: impl FnMut() -> T) {
    for _ in 0..WARM_UP {
        black_box(work());
    }
    for _ in 0..CALLS {
        black_box(counted_work(&mut work));
    }
}

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let Some(wanted) = wanted else {
        for (name, rows, _) in CASES {
            println!("{name} {CALLS} {rows}");
        }
        return ExitCode::SUCCESS;
    };
    let Some((_, rows, run)) = CASES.iter().find(|(name, ..)| *name == wanted) else {
        eprintln!("pvwire-instructions: there is no case {wanted}");
        return ExitCode::FAILURE;
    };
    run(*rows);
    ExitCode::SUCCESS
}

/// Decodes a frame and applies it to the client's store.
fn apply(rows: usize) {
    let mut session = Session::new();
    for number in 0..rows as u32 {
        let slot = session.live.add(&name(number));
        session.live.bind(slot, PvId(number));
    }
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::Update, 1, 0);
    for number in 0..rows as u32 {
        let time_ns = 1_700_000_000_000_000_000 + i64::from(number) * 1_500;
        encoder.number(PvId(number), time_ns, number.into(), RowMarks::default());
    }
    let frame = encoder.finish();
    let applied = session.apply(frame).expect("it is a frame");
    assert_eq!((applied.rows, applied.gap), (rows as u32, false));
    assert_eq!(session.live.updates_total(), rows as u64);
    repeat(|| session.apply(black_box(frame)));
}

/// Reads a request for several PVs.
fn subscribe(names: usize) {
    let names = (0..names as u32).map(name).collect();
    read(&RequestBody::Subscribe {
        names,
        filter: Filter::default(),
    });
}

/// Reads the request that every client sends several times a second.
fn acknowledge(_: usize) {
    read(&RequestBody::Ack { tick: 4_711 });
}

fn read(body: &types::RequestBody) {
    let body = body.clone();
    let bytes = encode::request(&Request { id: 1, body });
    repeat(|| decode::request(black_box(&bytes)));
}

fn name(number: u32) -> String {
    format!("SR{:02}C-DI-EBPM-{number:04}:SA:X", number % 24)
}
