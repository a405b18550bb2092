//! The command `pvwire-relay`: runs the relay, or one of its commands.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::panic;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use pvwire_relay::access::audit;
use pvwire_relay::app;
use pvwire_relay::config::{Asked, Config, ConfigError, LastRead};
use pvwire_relay::http::reload::refuse_damaged;
use pvwire_relay::limits::descriptors::Descriptors;
use pvwire_relay::ops::file_reads::read_text;
use pvwire_relay::ops::log_queue::{self, FlushAtEnd};

/// Longest configuration file, in bytes.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// Exit status of wrong usage, by sysexits(3).
const EXIT_USAGE: u8 = 64;

/// Exit status of the command `check` when an access is denied, and of `check-audit` when a line doesn't
/// follow from the one before.
const EXIT_NO: u8 = 1;

fn main() -> ExitCode {
    let environment = environment();
    log_queue::init(environment.get("PVWIRE_LOG").map_or("", String::as_str));
    // While there is one thread only.
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
        Ok(Asked::Run(config)) => run(*config, read, descriptors),
        Ok(Asked::Check(config, check)) => answer(app::check(&config, check)),
        Ok(Asked::CheckAudit(files)) => {
            answer(audit::check(&files).map(|found| (found.text, found.is_whole)))
        }
        Ok(Asked::Print(text)) => {
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
) -> impl Fn() -> Result<Asked, ConfigError> + Send + Sync {
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

fn run(
    config: Config,
    read: impl Fn() -> Result<Asked, ConfigError> + Send + Sync + 'static,
    descriptors: Descriptors,
) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            log::error!("the runtime can't start: {error}");
            return ExitCode::FAILURE;
        }
    };
    let relay = app::run(config, read, descriptors);
    let ended = tokio::task::LocalSet::new().block_on(&runtime, relay);
    // Doesn't wait for a read of a file that hangs.
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is_usage() => usage(&error),
        Err(error) => {
            log::error!("{error}");
            ExitCode::FAILURE
        }
    }
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
