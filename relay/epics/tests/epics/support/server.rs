//! How does a test start real servers, and stop them?

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

/// A server in Python, killed when dropped.
pub(crate) struct Server {
    process: Child,
    shell: ChildStdin,
}

impl Server {
    /// Starts a soft IOC of Channel Access with a database in which `$(P)` stands for `prefix`, and
    /// waits until it runs.
    pub(crate) fn soft_ioc(prefix: &str, database: &[u8]) -> Self {
        Self::with_access_security(prefix, database, "")
    }

    /// The same with an access security file.
    pub(crate) fn with_access_security(prefix: &str, database: &[u8], rules: &str) -> Self {
        let mut script = String::from("from epicscorelibs import ioc\n");
        if !rules.is_empty() {
            let acf = file_of(prefix, "acf");
            std::fs::write(&acf, rules).unwrap();
            let acf = acf.to_str().unwrap();
            writeln!(script, "ioc.dbCore.asSetFilename({acf:?}.encode())").unwrap();
        }
        script.push_str("ioc.main(extra_dbd_load=(), extra_dso_load=())\n");
        Self::with_database(&["-c", &script], prefix, database)
    }

    /// The same of Channel Access and pvAccess.
    pub(crate) fn ioc(prefix: &str, database: &str) -> Self {
        Self::with_database(&["-m", "pvxslibs.ioc"], prefix, database.as_bytes())
    }

    fn with_database(program: &[&str], prefix: &str, database: &[u8]) -> Self {
        let db = file_of(prefix, "db");
        std::fs::write(&db, database).unwrap();
        let mut command = Command::new(python());
        command.arg("-u").args(program);
        command.args(["-m", &format!("P={prefix}"), "-d"]).arg(&db);
        Self::start(command, "IOC Running")
    }

    /// Starts the server of structures, `pva_server.py`, and waits until it runs.
    pub(crate) fn structures(prefix: &str) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/epics/pva_server.py");
        let mut command = Command::new(python());
        command.arg("-u").arg(script).arg(prefix);
        Self::start(command, "running")
    }

    fn start(mut command: Command, running: &str) -> Self {
        let mut process = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = process.kill();
                panic!("the server did not start:\n{seen}");
            };
            if line.contains(running) {
                break;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        // Reads on, so that the pipe never fills, until the server ends.
        thread::spawn(move || lines.for_each(drop));
        Self {
            shell: process.stdin.take().unwrap(),
            process,
        }
    }

    /// Writes a field of the IOC, soon.
    pub(crate) fn put(&mut self, pv: &str, value: &str) {
        let command = format!("dbpf \"{pv}\" \"{value}\"");
        writeln!(self.shell, "ioc({command:?})").unwrap();
    }

    /// The process's number.
    pub(crate) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Ends the process at once, as in a power cut.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn file_of(prefix: &str, extension: &str) -> PathBuf {
    let name = format!("{}.{extension}", prefix.trim_end_matches(':'));
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The python that has the servers' packages, searched as the build script does.
fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("PVWIRE_PYTHON") {
        return PathBuf::from(python);
    }
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.local/venv/bin/python");
    if ours.exists() {
        ours
    } else {
        PathBuf::from("python3")
    }
}
