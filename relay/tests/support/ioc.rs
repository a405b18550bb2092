//! A soft IOC of a test: real records, real Channel Access, a shell to write fields by.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use super::{Network, eventually, prefix, signal};

/// Runs an IOC with both protocols.
const WITH_PV_ACCESS: &str = "import os, pvxslibs.path\n\
    os.environ['PVXS_QSRV_ENABLE'] = 'YES'\n\
    dbd = (('pvxsIoc.dbd', pvxslibs.path.dbd_path),)\n\
    ioc.main(extra_dbd_load=dbd, extra_dso_load=('pvxslibs.lib.pvxsIoc',))\n";

/// A running IOC, killed when dropped.
pub(crate) struct SoftIoc {
    process: Child,
    shell: ChildStdin,
    prefix: String,
    answers: u32,
}

impl SoftIoc {
    /// Starts an IOC with a database in which `$(P)` stands for a prefix of its own, and waits
    /// until it runs.
    pub(crate) fn start(network: Network, database: &str) -> Self {
        Self::with_prefix(network, &prefix(), database, "")
    }

    /// The same with pvAccess (QSRV) besides Channel Access.
    pub(crate) fn with_pv_access(network: Network, prefix: &str, database: &str) -> Self {
        Self::run_main(network, prefix, database, "", WITH_PV_ACCESS)
    }

    /// The same with access security rules.
    pub(crate) fn with_pv_access_and_rules(network: Network, database: &str, rules: &str) -> Self {
        Self::run_main(network, &prefix(), database, rules, WITH_PV_ACCESS)
    }

    /// The same with the pvAccess server of EPICS base's own library, which says when it put several
    /// updates into one.
    pub(crate) fn with_pv_access_of_base(network: Network, database: &str) -> Self {
        Self::run_main(network, &prefix(), database, "", "ioc.main()\n")
    }

    /// The same with a prefix that is known, as for the next life of an IOC that was killed, and
    /// access security rules unless they are empty.
    pub(crate) fn with_prefix(network: Network, prefix: &str, database: &str, rules: &str) -> Self {
        // Without pvAccess, whose ports cost a moment.
        let main = "ioc.main(extra_dbd_load=(), extra_dso_load=())\n";
        Self::run_main(network, prefix, database, rules, main)
    }

    fn run_main(network: Network, prefix: &str, database: &str, rules: &str, main: &str) -> Self {
        let (db, acf) = (in_tmp(prefix, "db"), in_tmp(prefix, "acf"));
        std::fs::write(&db, database).unwrap();
        std::fs::write(&acf, rules).unwrap();
        let mut script = String::from("from epicscorelibs import ioc\n");
        if !rules.is_empty() {
            let acf = acf.to_str().unwrap();
            writeln!(script, "ioc.dbCore.asSetFilename({acf:?}.encode())").unwrap();
        }
        script.push_str(main);
        let mut command = Command::new(python());
        network.apply(&mut command);
        let mut process = command
            .args(["-u", "-c", &script, "-m", &format!("P={prefix}"), "-d"])
            .arg(&db)
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
                let _ = process.wait();
                panic!("the IOC did not start:\n{seen}");
            };
            if line.contains("IOC Running") {
                break;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        // Reads on, so that the pipe never fills, until the IOC ends.
        thread::spawn(move || lines.for_each(drop));
        Self {
            shell: process.stdin.take().unwrap(),
            process,
            prefix: prefix.to_owned(),
            answers: 0,
        }
    }

    /// The prefix of its records.
    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A record's whole name.
    pub(crate) fn name(&self, record: &str) -> String {
        format!("{}{record}", self.prefix)
    }

    /// Whole names of several.
    pub(crate) fn names<const N: usize>(&self, records: [&str; N]) -> [String; N] {
        records.map(|record| self.name(record))
    }

    /// Writes a field, soon.
    pub(crate) fn put(&mut self, field: &str, value: &str) {
        let command = format!("dbpf \"{}{field}\" \"{value}\"", self.prefix);
        writeln!(self.shell, "ioc({command:?})").unwrap();
    }

    /// Runs Python in the IOC; `ioc(line)` is its shell and `P` the prefix.
    pub(crate) fn run(&mut self, code: &str) {
        let code = format!("P = {:?}\n{code}", self.prefix);
        writeln!(self.shell, "exec({code:?})").unwrap();
    }

    /// What a command of the IOC's shell prints.
    pub(crate) fn ask(&mut self, command: &str) -> String {
        self.answers += 1;
        let answer = in_tmp(&self.prefix, &format!("answer{}", self.answers));
        let done = in_tmp(&self.prefix, &format!("done{}", self.answers));
        let code = format!(
            "ioc({:?})\nopen({:?}, 'w').close()",
            format!("{command} > {}", answer.display()),
            done.to_str().unwrap()
        );
        self.run(&code);
        eventually("the IOC's shell has answered", || done.exists());
        std::fs::read_to_string(answer).unwrap()
    }

    /// Ends the process at once, as in a power cut.
    pub(crate) fn kill(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    /// Stops the process for a while, as a hung one does.
    pub(crate) fn hang(&self) {
        signal(self.process.id(), "STOP");
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        signal(self.process.id(), "CONT");
    }
}

impl Drop for SoftIoc {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn in_tmp(prefix: &str, extension: &str) -> PathBuf {
    let name = prefix.trim_end_matches(':');
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{extension}"))
}

/// The python that has the package epicscorelibs, searched as the build script does.
pub(crate) fn python() -> PathBuf {
    if let Some(python) = std::env::var_os("PVWIRE_PYTHON") {
        return PathBuf::from(python);
    }
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.local/venv/bin/python");
    if ours.exists() {
        ours
    } else {
        PathBuf::from("python3")
    }
}
