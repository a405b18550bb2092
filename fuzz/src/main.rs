//! Fuzzes every reader of untrusted input: none may panic, hang, or take more CPU time than its limit.
//!
//! `pvwire-fuzz [--seconds N] [--seed N] [TARGET …]` reads the corpus and generated worst shapes, and
//! then randomly changed inputs for N seconds per target. `pvwire-fuzz --replay FILE TARGET` reads one
//! input again and prints the time, `pvwire-fuzz --times [TARGET …]` prints the slowest inputs, and
//! `pvwire-fuzz --list` lists the targets. `pvwire-fuzz --write FOLDER TARGET` writes the initial inputs
//! as files for libFuzzer, and `pvwire-fuzz --keep FOLDER TARGET` makes the files of a folder the corpus.

#![forbid(unsafe_code)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pvwire_fuzz::corpus::CorpusError;
use pvwire_fuzz::cpu::{self, Speed};
use pvwire_fuzz::mutate::{Random, mutated};
use pvwire_fuzz::targets::{TARGETS, Target};
use pvwire_fuzz::{corpus, shapes};
use thiserror::Error;

struct Options {
    each: Duration,
    seed: u64,
    replay: Option<String>,
    write: Option<String>,
    keep: Option<String>,
    list: bool,
    times: bool,
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
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("pvwire-fuzz: {error}");
            ExitCode::from(64)
        }
    }
}

/// Does what the options say; returns whether no target failed.
fn run(options: &Options) -> Result<bool, CorpusError> {
    if options.list {
        TARGETS
            .iter()
            .for_each(|target| println!("{}", target.name));
        return Ok(true);
    }
    if let Some(file) = &options.replay {
        let failed = |error| CorpusError::File(file.into(), error);
        let input = std::fs::read(file).map_err(failed)?;
        for target in &options.targets {
            let took = cpu::time(|| (target.run)(&input));
            println!("{}: {took:?}", target.name);
        }
        return Ok(true);
    }
    if let Some(folder) = &options.write {
        for target in &options.targets {
            corpus::write(target, Path::new(folder))?;
        }
        return Ok(true);
    }
    if let Some(folder) = &options.keep {
        for target in &options.targets {
            let (inputs, bytes) = corpus::keep(target, Path::new(folder))?;
            println!("{}: {inputs} inputs of {bytes} bytes", target.name);
        }
        return Ok(true);
    }
    let speed = Speed::measure();
    if options.times {
        for target in &options.targets {
            times(target, speed)?;
        }
        return Ok(true);
    }
    let mut failed = 0;
    for target in &options.targets {
        failed += usize::from(!fuzz(target, options.each, options.seed, speed)?);
    }
    let passed = options.targets.len() - failed;
    println!("{passed} passed, {failed} failed");
    Ok(failed == 0)
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
        keep: None,
        list: false,
        times: false,
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
            "--keep" => options.keep = Some(value()?),
            "--list" => options.list = true,
            "--times" => options.times = true,
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

/// Number of inputs whose times are printed.
const SLOWEST: usize = 5;

/// Prints the inputs of the corpus and the worst shapes that take longest.
fn times(target: &Target, speed: Speed) -> Result<(), CorpusError> {
    let timed = known(target)?.into_iter().map(|(name, input)| {
        let took = cpu::time(|| (target.run)(&input));
        (took / target.readings, name)
    });
    let mut timed: Vec<_> = timed.collect();
    timed.sort_by_key(|(took, _)| std::cmp::Reverse(*took));
    let limit = speed.limit(target, 0) / target.readings;
    println!("{}, limit {limit:?}", target.name);
    for (took, name) in timed.iter().take(SLOWEST) {
        println!("  {took:?}: {name}");
    }
    Ok(())
}

/// The seeds, the corpus and the worst shapes, with their names.
fn known(target: &Target) -> Result<Vec<(String, Vec<u8>)>, CorpusError> {
    let shapes = shapes::of(target).into_iter();
    let shapes = shapes.map(|shape| (shape.name, shape.bytes));
    Ok(corpus::named(target)?.into_iter().chain(shapes).collect())
}

/// Reads the corpus and the worst shapes, and then changed inputs for `each`; returns whether all succeeded.
fn fuzz(target: &Target, each: Duration, seed: u64, speed: Speed) -> Result<bool, CorpusError> {
    let mut are_read = true;
    for (name, input) in known(target)? {
        are_read &= read(target, (&name, &input), seed, speed);
    }
    if !are_read {
        return Ok(false);
    }
    let seeds: Vec<_> = (corpus::named(target)?.into_iter())
        .map(|(_, input)| input)
        .collect();
    let mut random = Random::new(seed);
    let (start, mut inputs) = (Instant::now(), 0_u64);
    while start.elapsed() < each {
        let input = mutated(&mut random, &seeds, target.words);
        if !read(target, ("a changed input", &input), seed, speed) {
            return Ok(false);
        }
        inputs += 1;
    }
    let begun = seeds.len();
    println!("{}: {inputs} inputs from {begun}, seed {seed}", target.name);
    Ok(true)
}

/// Reads one input; returns whether that succeeded, and keeps the input otherwise.
fn read(target: &Target, (name, input): (&str, &[u8]), seed: u64, speed: Speed) -> bool {
    let mut read = Ok(());
    let took = cpu::time(|| {
        read = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    });
    let what = match (read, speed.exceeded(target, input, took)) {
        (Err(_), _) => "panics".to_owned(),
        (Ok(()), Some(took)) => {
            let limit = speed.limit(target, input.len());
            format!("takes {took:?} of CPU time, limit {limit:?},")
        }
        (Ok(()), None) => return true,
    };
    let file = format!("pvwire-fuzz-{}-{seed}-{}", target.name, input.len());
    let file = std::env::temp_dir().join(file);
    let kept = if std::fs::write(&file, input).is_ok() {
        "read it again by --replay "
    } else {
        "it can't be kept in "
    };
    println!(
        "{}: {name}, {} bytes, {what} (seed {seed}); {kept}{}",
        target.name,
        input.len(),
        file.display(),
    );
    false
}
