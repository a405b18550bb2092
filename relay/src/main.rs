//! The command `pvwire-relay`: runs the relay, or one of its commands.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::future::Future;
use std::io;
use std::panic;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use pvwire_relay::access::audit;
use pvwire_relay::app::{self, StartError};
use pvwire_relay::config::{Config, ConfigError, DemoOptions, Invocation, LastRead, set_commit};
use pvwire_relay::demo::{self, Demo};
use pvwire_relay::http::reload::refuse_damaged;
use pvwire_relay::limits::descriptors::Descriptors;
use pvwire_relay::ops::file_reads::read_text;
use pvwire_relay::ops::log_queue::{self, FlushAtEnd};
use pvwire_relay::record::{self, export};

/// Longest configuration file, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Exit status of wrong usage, by sysexits(3).
const EXIT_USAGE: u8 = 64;

/// Exit status of the command `check` when an access is denied, and of `check-audit` when a line doesn't
/// follow from the one before.
const EXIT_NO: u8 = 1;

fn main() -> ExitCode {
    if let Some(commit) = option_env!("PVWIRE_COMMIT").filter(|commit| !commit.is_empty()) {
        set_commit(commit);
    }
    let environment = environment();
    let is_demo = std::env::args()
        .nth(1)
        .is_some_and(|command| command == "demo");
    // pvxs warns of a missing IOC, which is no news where PVs are simulated.
    let level = if is_demo { "error" } else { "" };
    log_queue::init(environment.get("PVWIRE_LOG").map_or(level, String::as_str));
    // While there is one thread only.
    let network = is_demo.then(demo::private_network).transpose();
    if let Err(error) = &network {
        eprintln!("pvwire-relay: the system gives no ports on 127.0.0.1: {error}");
        return ExitCode::FAILURE;
    }
    pvwire_epics::prepare_environment();
    pvwire_epics::allocate_from_one_arena();
    if let Err(error) = log_queue::start() {
        eprintln!("pvwire-relay: the thread of the log can't start: {error}");
        return ExitCode::FAILURE;
    }
    let _flush = FlushAtEnd;
    pvwire_epics::ca::take_messages();
    panic::set_hook(Box::new(log_queue::log_panic));
    let descriptors = Descriptors::new(pvwire_epics::raise_descriptor_limit());
    let read = configuration(environment);
    match read() {
        Ok(Invocation::Run(config)) => run(app::run(*config, read, descriptors, |_| {})),
        Ok(Invocation::Demo(options)) => show(options, descriptors),
        Ok(Invocation::Record(options)) => {
            let recorded = block_on(record::record(options));
            recorded.map_or_else(
                |error| failed(&error),
                |text| answer(Ok::<_, StartError>((text, true))),
            )
        }
        Ok(Invocation::Export(options)) => export::export(&options).map_or_else(
            |error| failed(&error),
            |text| answer(Ok::<_, StartError>((text, true))),
        ),
        Ok(Invocation::Check(config, check)) => answer(app::check(&config, check)),
        Ok(Invocation::CheckAudit(files)) => {
            answer(audit::check(&files).map(|found| (found.text, found.is_whole)))
        }
        Ok(Invocation::Print(text)) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => usage(&error),
    }
}

/// The environment's variables, without those that aren't UTF-8.
fn environment() -> BTreeMap<String, String> {
    let text = |text: OsString| text.into_string().ok();
    std::env::vars_os()
        .filter_map(|(name, value)| Some((text(name)?, text(value)?)))
        .collect()
}

/// Reads the configuration each time it is called. A file that was damaged since the last call is refused.
fn configuration(
    environment: BTreeMap<String, String>,
) -> impl Fn() -> Result<Invocation, ConfigError> + Send + Sync {
    let arguments: Vec<String> = std::env::args().collect();
    let last_good = Mutex::new(String::new());
    let read_file = move |path: &str| {
        let text = read_text(path, MAX_CONFIG_BYTES)?;
        let mut last_good = last_good.lock().unwrap_or_else(PoisonError::into_inner);
        refuse_damaged(last_good.as_bytes(), text.as_bytes()).map_err(io::Error::other)?;
        last_good.clone_from(&text);
        Ok(text)
    };
    let last = LastRead::default();
    move || {
        last.read(&read_file, |read_file| {
            Config::read(&arguments, &environment, read_file)
        })
    }
}

/// Runs the demo.
fn show(options: DemoOptions, descriptors: Descriptors) -> ExitCode {
    match Demo::start(options) {
        Ok(demo) => run(demo.run(descriptors)),
        Err(error) => {
            eprintln!("pvwire-relay: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(relay: impl Future<Output = Result<(), StartError>>) -> ExitCode {
    match block_on(relay) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_usage() => usage(&error),
        Err(error) => failed(&error),
    }
}

fn failed(error: &impl Display) -> ExitCode {
    log::error!("{error}");
    ExitCode::FAILURE
}

/// Runs a future that needs a `LocalSet`.
fn block_on<T, E: From<io::Error>>(future: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let ended = tokio::task::LocalSet::new().block_on(&runtime, future);
    // Doesn't wait for a read of a file that hangs.
    runtime.shutdown_background();
    ended
}

/// Prints what a command found.
fn answer(found: Result<(String, bool), impl Display>) -> ExitCode {
    match found {
        Ok((text, is_good)) => {
            print!("{text}");
            ExitCode::from(if is_good { 0 } else { EXIT_NO })
        }
        Err(error) => usage(&error),
    }
}

fn usage(error: &impl Display) -> ExitCode {
    eprintln!("pvwire-relay: {error}");
    ExitCode::from(EXIT_USAGE)
}
