//! The command line: its flags, its commands and their help.

use clap::builder::EnumValueParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use clap_complete::Shell;

use super::key::{KEYS, Key};
use super::value::origin;
use super::{Access, Config, version};

/// The question of the command `check`: may this user access these PVs? Without PVs: is the configuration valid?
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// User name; `None` for an anonymous client.
    pub user: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
    /// The PVs.
    pub pvs: Vec<String>,
    /// The accesses that are checked for each PV.
    pub access: Vec<Access>,
}

impl Check {
    /// Reads the arguments of the command `check`.
    pub(super) fn of(arguments: &ArgMatches) -> Self {
        let all = |name| {
            let values = arguments.get_many::<String>(name).into_iter().flatten();
            values.cloned().collect()
        };
        Self {
            user: arguments.get_one::<String>("user").cloned(),
            groups: all("group"),
            pvs: all("pv"),
            access: match arguments.get_one::<String>("access").map(String::as_str) {
                Some("read") => vec![Access::Read],
                Some(_) => vec![Access::Put],
                None => vec![Access::Read, Access::Put],
            },
        }
    }
}

/// The options of the command `demo`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DemoOptions {
    /// Port of the page; 0 for a free one.
    pub port: u16,
    /// Whether no IOC is started.
    pub simulated: bool,
    /// Origins of other pages that may connect.
    pub allow_origin: Vec<String>,
}

impl DemoOptions {
    /// Reads the arguments of the command `demo`.
    pub(super) fn of(arguments: &ArgMatches) -> Self {
        Self {
            port: arguments.get_one("port").copied().unwrap_or_default(),
            simulated: arguments.get_flag("simulated"),
            allow_origin: arguments
                .get_many("allow-origin")
                .into_iter()
                .flatten()
                .cloned()
                .collect(),
        }
    }
}

/// The options of the command `record`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordOptions {
    /// The recording, a new file.
    pub file: String,
    /// Names of the PVs.
    pub pvs: Vec<String>,
    /// WebSocket address of the relay.
    pub url: String,
    /// File with a token for the relay; empty for none.
    pub token_file: String,
    /// After how many seconds it ends; `None` for a signal alone.
    pub seconds: Option<u64>,
}

impl RecordOptions {
    /// Reads the arguments of the command `record`.
    pub(super) fn of(arguments: &ArgMatches) -> Self {
        let text = |name: &str| arguments.get_one::<String>(name).cloned();
        let pvs = arguments.get_many("pv").into_iter().flatten();
        Self {
            file: text("file").unwrap_or_default(),
            pvs: pvs.cloned().collect(),
            url: text("url").unwrap_or_default(),
            token_file: text("token-file").unwrap_or_default(),
            seconds: arguments.get_one("seconds").copied(),
        }
    }
}

/// The options of the command `export`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportOptions {
    /// The recording.
    pub recording: String,
    /// The MCAP file, a new one.
    pub file: String,
    /// Names of PVs as they were recorded; empty for all.
    pub pvs: Vec<String>,
}

impl ExportOptions {
    /// Reads the arguments of the command `export`.
    pub(super) fn of(arguments: &ArgMatches) -> Self {
        let text = |name: &str| arguments.get_one::<String>(name).cloned();
        let pvs = arguments.get_many("pv").into_iter().flatten();
        Self {
            recording: text("recording").unwrap_or_default(),
            file: text("file").unwrap_or_default(),
            pvs: pvs.cloned().collect(),
        }
    }
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Invocation {
    /// Run the relay with this configuration.
    Run(Box<Config>),
    /// Print this text, help or version, and exit.
    Print(String),
    /// The command `check`: print what a user may do, and exit.
    Check(Box<Config>, Check),
    /// The command `demo`: run an IOC, the relay and a page.
    Demo(DemoOptions),
    /// The command `record`: write the frames of a relay to a file.
    Record(RecordOptions),
    /// The command `export`: write a recording as MCAP.
    Export(ExportOptions),
    /// The command `check-audit`: verify these audit files, oldest first, and exit.
    CheckAudit(Vec<String>),
}

/// Flags that switch a thing off: each stands for a value of a key.
pub(super) const OFF: [(&str, &str, &str); 2] = [
    ("no-app", "app", "false"),
    ("no-history", "history_memory", "0"),
];

/// The flag of a key, without the dashes.
pub(super) fn flag(key: &Key) -> String {
    key.name.replace('_', "-")
}

/// All of the command line. `default_of` gives the default of a key as its help shows it.
pub(super) fn command(default_of: fn(&Key) -> String) -> Command {
    let command = Command::new("pvwire-relay")
        .version(version())
        .about("Relays EPICS process variables to web browsers")
        .after_help(
            "Every flag is also a key of the configuration file (with underscores) and an environment \
             variable (PVWIRE_LISTEN, ...). Flags override the environment, and the environment overrides \
             the file. EPICS's own variables (EPICS_CA_ADDR_LIST, ...) have their usual meaning. \
             PVWIRE_LOG=debug sets the log level.\n\n\
             Exit status: 64 for an invalid configuration, 1 when the system lacks a resource.",
        );
    let check = Command::new("check")
        .about("Check the configuration, and print what a user may do with a PV and which rule decides")
        .args([
            Arg::new("user")
                .long("user")
                .value_name("U")
                .requires("pv")
                .help("User name; without it, an anonymous client is checked"),
            Arg::new("group")
                .long("group")
                .value_name("G")
                .action(ArgAction::Append)
                .requires("pv")
                .help("Group of the user; may be repeated"),
            Arg::new("pv")
                .long("pv")
                .value_name("P")
                .action(ArgAction::Append)
                .help(
                    "PV name, with or without a prefix such as pva://; may be repeated. Without it only the \
                     configuration is checked, with the rules and files that it names",
                ),
            Arg::new("access")
                .long("access")
                .value_name("ACCESS")
                .value_parser(["read", "put"])
                .requires("pv")
                .help("Access to check; default: both"),
        ])
        .after_help(
            "Exit status: 0 if the configuration is valid and every access is allowed, 1 if one is denied, 64 for \
             an invalid configuration",
        );
    let check_audit = Command::new("check-audit")
        .about("Verify the hash chain of audit files: each record contains the hash of the one before")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .num_args(1..)
                .required(true)
                .help("Audit files, oldest first"),
        )
        .after_help(
            "Exit status: 0 if the chain is unbroken, 1 if a record was changed, removed or added (the \
             output names it), 64 if a file can't be read",
        );
    with_keys(command, default_of)
        .subcommand(demo())
        .subcommand(record())
        .subcommand(export())
        .subcommand(with_keys(check, default_of))
        .subcommand(check_audit)
        .subcommands(documents())
}

/// The command `demo`.
fn demo() -> Command {
    Command::new("demo")
        .about("Start an IOC, the relay and a page on this machine alone, and print the page's address; Ctrl-C ends them")
        .args([
            Arg::new("port")
                .long("port")
                .value_name("N")
                .value_parser(value_parser!(u16))
                .help("Port of the page [default: a free one]"),
            Arg::new("simulated")
                .long("simulated")
                .action(ArgAction::SetTrue)
                .help("Start no IOC: the relay simulates the PVs"),
            Arg::new("allow-origin")
                .long("allow-origin")
                .value_name("ORIGIN")
                .action(ArgAction::Append)
                .value_parser(one_origin)
                .help("Origin of your own pages that may connect too, as http://127.0.0.1:8000; may be repeated"),
        ])
        .after_help(
            "The IOC is epicscorelibs' of a Python environment (pip install 'pvwire-relay[demo]'), or softIoc of \
             EPICS base, found by PATH or EPICS_BASE. Without either the PVs are simulated. No setting of the \
             relay and no variable of EPICS applies to the demo, and nothing leaves this machine.",
        )
}

/// The command `record`.
fn record() -> Command {
    Command::new("record")
        .about("Record PVs of a relay to a file, which a relay serves again with --replay; Ctrl-C ends it")
        .args([
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("The recording, a new file"),
            Arg::new("pv")
                .long("pv")
                .value_name("NAME")
                .num_args(1..)
                .action(ArgAction::Append)
                .required(true)
                .help("PV names, with or without a prefix such as pva://; may be repeated"),
            Arg::new("url")
                .long("url")
                .value_name("URL")
                .default_value("ws://127.0.0.1:8080/ws")
                .help("WebSocket address of the relay: ws://HOST:PORT/ws or wss://HOST/ws"),
            Arg::new("token-file")
                .long("token-file")
                .value_name("FILE")
                .help("File with a token (JWT), for a relay that wants one"),
            Arg::new("seconds")
                .long("seconds")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..=31_536_000))
                .help("End after this time"),
        ])
        .after_help(
            "Exit status: 1 if the relay can't be reached at the start or the file can't be written. A relay that is \
             lost later is tried again.",
        )
}

/// The command `export`.
fn export() -> Command {
    Command::new("export")
        .about("Write a recording as MCAP, which Foxglove and Lichtblick open")
        .args([
            Arg::new("recording")
                .value_name("RECORDING")
                .required(true)
                .help("A file of the command record"),
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("The MCAP file, a new one"),
            Arg::new("pv")
                .long("pv")
                .value_name("NAME")
                .num_args(1..)
                .action(ArgAction::Append)
                .help("Names of PVs as they were recorded; may be repeated [default: all]"),
        ])
        .after_help("Exit status: 1 if the recording can't be read or the file can't be written; there is no file then.")
}

/// One origin: the demo takes puts, so it is not for all pages that the browser shows.
fn one_origin(text: &str) -> Result<String, &'static str> {
    let one = origin(text).ok().filter(|origin| origin != "*");
    one.ok_or("expected an origin without a path, as http://127.0.0.1:8000")
}

/// The commands that print what a package installs beside the program.
fn documents() -> [Command; 3] {
    [
        Command::new("completions")
            .about("Print the completions of a shell: bash, zsh or fish")
            .arg(
                Arg::new("shell")
                    .value_name("SHELL")
                    .required(true)
                    .value_parser(EnumValueParser::<Shell>::new()),
            ),
        Command::new("manual").about("Print the manual page, for man(1)"),
        Command::new("example-config")
            .about("Print a configuration file with every key and its default, all commented out"),
    ]
}

/// The default of a key on this machine.
pub(super) fn default_here(key: &Key) -> String {
    (key.show)(&Config::default())
}

/// Adds a flag for every key.
fn with_keys(mut command: Command, default_of: fn(&Key) -> String) -> Command {
    command = command.arg(
        Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help("Configuration file (TOML); also PVWIRE_CONFIG"),
    );
    for key in KEYS {
        let default = default_of(key);
        let help = if default.is_empty() {
            key.help.to_owned()
        } else {
            format!("{} [default: {default}]", key.help)
        };
        let action = if key.is_list() {
            ArgAction::Append
        } else {
            ArgAction::Set
        };
        let mut arg = Arg::new(key.name)
            .long(flag(key))
            .value_name(key.value)
            .help(help)
            .action(action);
        if key.value == "BOOL" {
            arg = arg
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true");
        }
        command = command.arg(arg);
    }
    for (off, key, value) in OFF {
        let arg = Arg::new(off).long(off).action(ArgAction::SetTrue);
        let same = format!("The same as --{}={value}", key.replace('_', "-"));
        command = command.arg(arg.conflicts_with(key).help(same));
    }
    command
}

/// The error of the command line's parser in one line, without the usage.
pub(super) fn one_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().map(str::trim);
    let lines =
        lines.take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let said: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let said = said.join(" ").replace(" tip: ", "; ");
    said.strip_prefix("error: ").unwrap_or(&said).to_owned()
}
