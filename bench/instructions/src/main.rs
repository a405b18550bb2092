//! The program whose instructions callgrind counts. `bench/instructions/count.py` runs every case under
//! callgrind and compares the counts with those that were accepted before.

#![forbid(unsafe_code)]

mod relay;
mod stage;
mod wire;

use std::hint::black_box;
use std::process::ExitCode;

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
    ("apply-200", 200, wire::apply),
    ("apply-1000", 1_000, wire::apply),
    ("request-subscribe-1000", 1_000, wire::subscribe),
    ("request-ack", 1, wire::acknowledge),
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
