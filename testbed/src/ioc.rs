//! A soft IOC: real records, real Channel Access and pvAccess, and a shell to write fields.

use std::fmt::Write as _;
use std::process::Command;

use super::process::Process;
use super::{Network, eventually, in_tmp, prefix, python};

/// Runs an IOC with Channel Access alone: pvAccess needs ports and a moment more.
const CHANNEL_ACCESS: &str = "ioc.main(extra_dbd_load=(), extra_dso_load=())\n";

/// Runs an IOC with both protocols, pvAccess by QSRV of pvxs.
const WITH_PV_ACCESS: &str = "import os, pvxslibs.path\n\
    os.environ['PVXS_QSRV_ENABLE'] = 'YES'\n\
    dbd = (('pvxsIoc.dbd', pvxslibs.path.dbd_path),)\n\
    ioc.main(extra_dbd_load=dbd, extra_dso_load=('pvxslibs.lib.pvxsIoc',))\n";

/// A running IOC; dropping it kills it.
pub struct SoftIoc {
    process: Process,
    prefix: String,
    answers: u32,
}

impl SoftIoc {
    /// Starts an IOC with a database in which `$(P)` stands for its own prefix, and waits until it
    /// runs.
    pub fn start(network: Network, database: &str) -> Self {
        Self::with_prefix(network, &prefix(), database, "")
    }

    /// The same with pvAccess (QSRV) besides Channel Access.
    pub fn with_pv_access(network: Network, prefix: &str, database: &str) -> Self {
        Self::run_main(
            Some(network),
            prefix,
            database.as_bytes(),
            "",
            WITH_PV_ACCESS,
        )
    }

    /// The same with access security rules.
    pub fn with_pv_access_and_rules(network: Network, database: &str, rules: &str) -> Self {
        Self::run_main(
            Some(network),
            &prefix(),
            database.as_bytes(),
            rules,
            WITH_PV_ACCESS,
        )
    }

    /// The same with the pvAccess server of EPICS base's own library, which reports squashed
    /// updates.
    pub fn with_pv_access_of_base(network: Network, database: &str) -> Self {
        Self::run_main(
            Some(network),
            &prefix(),
            database.as_bytes(),
            "",
            "ioc.main()\n",
        )
    }

    /// The same with Channel Access alone, whose server sends arrays of at most `bytes` bytes.
    pub fn with_array_limit(network: Network, database: &str, bytes: usize) -> Self {
        let main = format!(
            "import os\n\
             os.environ['EPICS_CA_AUTO_ARRAY_BYTES'] = 'NO'\n\
             os.environ['EPICS_CA_MAX_ARRAY_BYTES'] = '{bytes}'\n\
             {CHANNEL_ACCESS}"
        );
        Self::run_main(Some(network), &prefix(), database.as_bytes(), "", &main)
    }

    /// The same with a given prefix, as for the restart of an IOC that was killed, and with access
    /// security rules unless they are empty.
    pub fn with_prefix(network: Network, prefix: &str, database: &str, rules: &str) -> Self {
        Self::run_main(
            Some(network),
            prefix,
            database.as_bytes(),
            rules,
            CHANNEL_ACCESS,
        )
    }

    /// The same with pvAccess.
    pub fn with_prefix_and_pv_access(
        network: Network,
        prefix: &str,
        database: &str,
        rules: &str,
    ) -> Self {
        let database = database.as_bytes();
        Self::run_main(Some(network), prefix, database, rules, WITH_PV_ACCESS)
    }

    /// The same in the network of this process's environment, with a database that need not be
    /// UTF-8.
    pub fn in_environment(prefix: &str, database: &[u8], rules: &str) -> Self {
        Self::run_main(None, prefix, database, rules, CHANNEL_ACCESS)
    }

    /// The same with pvAccess.
    pub fn in_environment_with_pv_access(prefix: &str, database: &[u8]) -> Self {
        Self::run_main(None, prefix, database, "", WITH_PV_ACCESS)
    }

    fn run_main(
        network: Option<Network>,
        prefix: &str,
        database: &[u8],
        rules: &str,
        main: &str,
    ) -> Self {
        let file = |extension: &str| file_of(prefix, extension);
        let (db, acf) = (file("db"), file("acf"));
        std::fs::write(&db, database).unwrap();
        std::fs::write(&acf, rules).unwrap();
        let mut script = String::from("from epicscorelibs import ioc\n");
        if !rules.is_empty() {
            let acf = acf.to_str().unwrap();
            writeln!(script, "ioc.dbCore.asSetFilename({acf:?}.encode())").unwrap();
        }
        script.push_str(main);
        let mut command = Command::new(python());
        if let Some(network) = network {
            network.apply(&mut command);
        }
        command
            .args(["-u", "-c", &script, "-m", &format!("P={prefix}"), "-d"])
            .arg(&db);
        Self {
            process: Process::start(command, "IOC Running"),
            prefix: prefix.to_owned(),
            answers: 0,
        }
    }

    /// The number of its process.
    pub fn id(&self) -> u32 {
        self.process.id()
    }

    /// The prefix of its records.
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// A record's whole name.
    pub fn name(&self, record: &str) -> String {
        format!("{}{record}", self.prefix)
    }

    /// Whole names of several.
    pub fn names<const N: usize>(&self, records: [&str; N]) -> [String; N] {
        records.map(|record| self.name(record))
    }

    /// Writes a field, soon.
    pub fn put(&mut self, field: &str, value: &str) {
        let command = format!("dbpf \"{}{field}\" \"{value}\"", self.prefix);
        self.process.say(&format!("ioc({command:?})"));
    }

    /// Runs Python in the IOC; `ioc(line)` is its shell and `P` the prefix.
    pub fn run(&mut self, code: &str) {
        let code = format!("P = {:?}\n{code}", self.prefix);
        self.process.say(&format!("exec({code:?})"));
    }

    /// Waits until it has carried out everything that it was told so far.
    pub fn settle(&mut self) {
        self.ask("echo settled");
    }

    /// What a command of the IOC's shell prints.
    pub fn ask(&mut self, command: &str) -> String {
        self.answers += 1;
        let answer = file_of(&self.prefix, &format!("answer{}", self.answers));
        let done = file_of(&self.prefix, &format!("done{}", self.answers));
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
    pub fn kill(self) {
        drop(self);
    }

    /// Stops the process for a while, as a hung one does.
    pub fn hang(&self) {
        self.process.hang();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.process.resume();
    }
}

fn file_of(prefix: &str, extension: &str) -> std::path::PathBuf {
    in_tmp(&format!("{}.{extension}", prefix.trim_end_matches(':')))
}
