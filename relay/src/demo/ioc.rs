//! The demo's IOC: a child process that ends with the demo, also when the demo is killed, because an IOC ends when its
//! input does. An IOC that is killed is started again, so that a visitor sees what the page says meanwhile.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{env, iter};

use super::DemoError;
use super::greeting::say;
use super::records::{PREFIX, Records};

/// An IOC in Python, with epicscorelibs.
const SCRIPT: &str = include_str!("../../../tools/softioc.py");

/// How long an IOC may take to start. A busy machine takes long to read its files the first time; a program that is no
/// IOC ends by itself.
const PATIENCE: Duration = Duration::from_secs(30);

const RESTART_AFTER: Duration = Duration::from_secs(5);

/// Texts with which an IOC says that it runs.
const READY: [&str; 2] = ["iocRun: All initialization complete", "IOC Running"];

/// Lines of an IOC that failed which the log shows.
const LINES: usize = 5;

/// What happened to the IOC, or should happen.
enum Event {
    Ready,
    /// It closed its output; these were the last lines.
    Ended(VecDeque<String>),
    Stop,
}

/// A program that may be an IOC on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Program {
    path: PathBuf,
    is_python: bool,
}

impl Program {
    /// The command that loads the records.
    fn command(&self, records: &Records) -> Command {
        let mut command = Command::new(&self.path);
        if self.is_python {
            command.args(["-u", "-c", SCRIPT, "--access"]);
            command.arg(records.access()).arg("--pva");
        } else {
            command.arg("-a").arg(records.access());
        }
        command.arg("-m").arg(format!("P={PREFIX}"));
        for database in [records.machine(), records.counters()] {
            command.arg("-d").arg(database);
        }
        command
    }
}

/// The running IOC. It ends when this is dropped.
pub(super) struct Ioc {
    name: String,
    events: Sender<Event>,
    keeper: Option<JoinHandle<()>>,
}

impl Ioc {
    /// Starts the first program of this machine that is an IOC; `None` if there is no such program, or no folder for
    /// its records, as in a read-only container.
    ///
    /// # Errors
    /// When the system gives no pipe or thread.
    pub(super) fn start() -> Result<Option<Self>, DemoError> {
        let beside = env::current_exe().ok();
        let beside = beside.and_then(|program| Some(environment_of(program.parent()?)));
        for program in programs(beside, |name| env::var_os(name)) {
            let (sender, events) = channel();
            let started = match Process::start(&program, &sender, &events) {
                Err(error @ DemoError::Records { .. }) => {
                    log::warn!("{error}");
                    return Ok(None);
                }
                started => started?,
            };
            if let Started::Running(process) = started {
                let name = program.path.display().to_string();
                let keeper = thread::Builder::new().name("demo-ioc".into());
                let again = sender.clone();
                let keep = move || keep_running(&program, process, &again, &events);
                return Ok(Some(Self {
                    name,
                    events: sender,
                    keeper: Some(keeper.spawn(keep)?),
                }));
            }
        }
        Ok(None)
    }

    /// The IOC's program.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Ioc {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Stop);
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// What came of an attempt to start the IOC.
enum Started {
    Running(Process),
    /// The program is not an IOC, or it doesn't start.
    Failed,
    /// The demo ends.
    Stopped,
}

/// One run of the IOC, which is killed when this is dropped.
struct Process(Child);

impl Process {
    /// Starts the program and waits until its records are loaded.
    fn start(
        program: &Program,
        sender: &Sender<Event>,
        events: &Receiver<Event>,
    ) -> Result<Started, DemoError> {
        let records = Records::write().map_err(|source| DemoError::Records {
            folder: env::temp_dir().display().to_string(),
            source,
        })?;
        let (output, input) = io::pipe()?;
        let mut command = program.command(&records);
        command
            // Its end tells the IOC to end.
            .stdin(Stdio::piped())
            .stdout(input.try_clone()?)
            .stderr(input)
            // Ctrl-C reaches the demo only, which then ends the IOC.
            .process_group(0);
        let Ok(child) = command.spawn() else {
            return Ok(Started::Failed);
        };
        // It has the writing end of the pipe.
        drop(command);
        let process = Self(child);
        let sender = sender.clone();
        thread::Builder::new()
            .name("demo-output".into())
            .spawn(move || follow(output, &sender))?;
        let path = program.path.display();
        Ok(match events.recv_timeout(PATIENCE) {
            Ok(Event::Ready) => Started::Running(process),
            Ok(Event::Ended(lines)) => {
                let last = lines.back().map_or("it said nothing", String::as_str);
                log::debug!("{path} is not an IOC: {last}");
                Started::Failed
            }
            Ok(Event::Stop) => Started::Stopped,
            Err(_) => {
                log::warn!("{path} did not start an IOC within {PATIENCE:?}");
                Started::Failed
            }
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads an IOC's output until its end, so that its pipe never fills.
fn follow(output: PipeReader, events: &Sender<Event>) {
    let mut last = VecDeque::new();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).into_owned();
        if READY.iter().any(|ready| line.contains(ready)) {
            let _ = events.send(Event::Ready);
        }
        last.push_back(line);
        if last.len() > LINES {
            last.pop_front();
        }
    }
    let _ = events.send(Event::Ended(last));
}

/// Starts the IOC again whenever it ends, until the demo does.
fn keep_running(
    program: &Program,
    mut process: Process,
    sender: &Sender<Event>,
    events: &Receiver<Event>,
) {
    loop {
        match events.recv() {
            Ok(Event::Ready) => continue,
            Ok(Event::Ended(lines)) => {
                for line in lines {
                    log::debug!("IOC: {line}");
                }
            }
            Ok(Event::Stop) | Err(_) => return,
        }
        drop(process);
        let wait = RESTART_AFTER.as_secs();
        say(&format!(
            "  The IOC is gone; it starts again in {wait} s.\n"
        ));
        if !pause(events, RESTART_AFTER) {
            return;
        }
        process = match Process::start(program, sender, events) {
            Ok(Started::Running(process)) => process,
            Ok(Started::Stopped) => return,
            Ok(Started::Failed) => return log::error!("the IOC doesn't start again"),
            Err(error) => return log::error!("{error}"),
        };
        say("  The IOC is back.\n");
    }
}

/// Waits for a time; returns false when the demo ends.
fn pause(events: &Receiver<Event>, time: Duration) -> bool {
    let until = Instant::now() + time;
    loop {
        match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Event::Ready | Event::Ended(_)) => {}
            Ok(Event::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            Err(RecvTimeoutError::Timeout) => return true,
        }
    }
}

/// Folder of the programs of the relay's environment: pip installs the relay itself below the packages there.
fn environment_of(folder: &Path) -> PathBuf {
    let mut folders = folder.ancestors().map(|each| each.join("bin"));
    let found = folders.find(|bin| bin.join("python3").exists());
    found.unwrap_or_else(|| folder.to_owned())
}

/// Programs that may be an IOC, in the order in which they are tried: Python of the environment that the relay is
/// installed in, EPICS base's, and what is on the path.
fn programs(beside: Option<PathBuf>, variable: impl Fn(&str) -> Option<OsString>) -> Vec<Program> {
    let python = |path: PathBuf| Program {
        path,
        is_python: true,
    };
    let soft_ioc = |path: PathBuf| Program {
        path,
        is_python: false,
    };
    let base = variable("EPICS_BASE").zip(variable("EPICS_HOST_ARCH"));
    let base = base.map(|(base, arch)| PathBuf::from(base).join("bin").join(arch).join("softIoc"));
    let chosen = variable("PVWIRE_PYTHON").map(PathBuf::from);
    let beside = beside.map(|folder| folder.join("python3"));
    (chosen.into_iter().chain(beside).map(python))
        .chain(
            base.into_iter()
                .chain(iter::once(PathBuf::from("softIoc")))
                .map(soft_ioc),
        )
        .chain(["python3", "python"].map(|name| python(PathBuf::from(name))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_beside_the_relay_is_tried_before_programs_of_the_system() {
        let set = |name: &str| match name {
            "EPICS_BASE" => Some(OsString::from("/epics")),
            "EPICS_HOST_ARCH" => Some(OsString::from("linux-x86_64")),
            _ => None,
        };

        let found = programs(Some(PathBuf::from("/env/bin")), set);

        let found: Vec<_> = found
            .iter()
            .map(|program| program.path.to_str().unwrap())
            .collect();
        assert_eq!(
            found,
            [
                "/env/bin/python3",
                "/epics/bin/linux-x86_64/softIoc",
                "softIoc",
                "python3",
                "python"
            ]
        );
    }
}
