//! Fuzzes every reader of untrusted input: none may panic or hang.
//!
//! `pvwire-fuzz [--seconds N] [--seed N] [TARGET …]` reads the corpus, and then randomly changed
//! inputs for N seconds per target. `pvwire-fuzz --replay FILE TARGET` reads one input again,
//! `pvwire-fuzz --write FOLDER TARGET` writes the initial inputs for libFuzzer, and `pvwire-fuzz
//! --list` lists the targets.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pvwire_fuzz::corpus;
use pvwire_fuzz::mutate::{Random, mutated};
use pvwire_fuzz::targets::{TARGETS, Target};
use thiserror::Error;

/// Time limit of a reader for one input, on a slow machine in a debug build.
const PATIENCE: Duration = Duration::from_secs(5);

struct Options {
    each: Duration,
    seed: u64,
    replay: Option<String>,
    write: Option<String>,
    list: bool,
    targets: Vec<&'static Target>,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("pvwire-fuzz: {error}");
            return ExitCode::from(64);
        }
    };
    if let Some(file) = &options.replay {
        let Ok(input) = std::fs::read(file) else {
            eprintln!("pvwire-fuzz: {file} can't be read");
            return ExitCode::from(64);
        };
        options
            .targets
            .iter()
            .for_each(|target| (target.run)(&input));
        return ExitCode::SUCCESS;
    }
    if options.list {
        TARGETS
            .iter()
            .for_each(|target| println!("{}", target.name));
        return ExitCode::SUCCESS;
    }
    if let Some(folder) = &options.write {
        for target in &options.targets {
            if let Err(error) = corpus::write(target, Path::new(folder)) {
                eprintln!("pvwire-fuzz: {folder}: {error}");
                return ExitCode::FAILURE;
            }
        }
        return ExitCode::SUCCESS;
    }
    let mut failed = 0;
    for target in &options.targets {
        failed += usize::from(!fuzz(target, options.each, options.seed));
    }
    let passed = options.targets.len() - failed;
    println!("{passed} passed, {failed} failed");
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// The command line can't be used.
#[derive(Debug, Error)]
enum UsageError {
    #[error("{0} needs a value")]
    NoValue(String),
    #[error("{0} is not a whole number")]
    Number(String),
    #[error("no target {0}; expected one of {1}")]
    Target(String, String),
}

fn options() -> Result<Options, UsageError> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut options = Options {
        each: Duration::from_secs(10),
        seed: clock.map_or(1, |since| since.as_nanos() as u64),
        replay: None,
        write: None,
        list: false,
        targets: Vec::new(),
    };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || {
            words
                .next()
                .ok_or_else(|| UsageError::NoValue(word.clone()))
        };
        let number = |text: String| {
            let parsed: Result<u64, _> = text.parse();
            parsed.map_err(|_| UsageError::Number(text))
        };
        match word.as_str() {
            "--seconds" => options.each = Duration::from_secs(number(value()?)?),
            "--seed" => options.seed = number(value()?)?,
            "--replay" => options.replay = Some(value()?),
            "--write" => options.write = Some(value()?),
            "--list" => options.list = true,
            name => {
                let found = TARGETS.iter().find(|target| target.name == name);
                let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
                let unknown = || UsageError::Target(name.to_owned(), names.join(", "));
                options.targets.push(found.ok_or_else(unknown)?);
            }
        }
    }
    if options.targets.is_empty() {
        options.targets = TARGETS.iter().collect();
    }
    Ok(options)
}

/// Reads the corpus, and then changed inputs for `each`; returns whether all succeeded.
fn fuzz(target: &Target, each: Duration, seed: u64) -> bool {
    let seeds = corpus::inputs(target);
    let mut random = Random::new(seed);
    if !seeds.iter().all(|input| read(target, input, seed)) {
        return false;
    }
    let (start, mut inputs) = (Instant::now(), 0_u64);
    while start.elapsed() < each {
        let input = mutated(&mut random, &seeds, target.words);
        if !read(target, &input, seed) {
            return false;
        }
        inputs += 1;
    }
    let begun = seeds.len();
    println!("{}: {inputs} inputs from {begun}, seed {seed}", target.name);
    true
}

/// Reads one input; returns whether that succeeded, and keeps the input otherwise.
fn read(target: &Target, input: &[u8], seed: u64) -> bool {
    let began = Instant::now();
    let read = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let took = began.elapsed();
    if read.is_ok() && took <= PATIENCE {
        return true;
    }
    let file = std::env::temp_dir().join(format!("pvwire-fuzz-{}-{seed}", target.name));
    let kept = std::fs::write(&file, input).is_ok();
    let what = if read.is_err() {
        "panics"
    } else {
        "takes too long"
    };
    let kept = if kept {
        "read it again by --replay "
    } else {
        "it can't be kept in "
    };
    println!(
        "{}: an input of {} bytes {what} (seed {seed}); {kept}{}",
        target.name,
        input.len(),
        file.display(),
    );
    false
}
