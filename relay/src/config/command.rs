//! The command line: its flags, its commands and their help.

use clap::{Arg, ArgAction, ArgMatches, Command};

use super::key::{KEYS, Key};
use super::{Access, Config};

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

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Run the relay with this configuration.
    Run(Box<Config>),
    /// Print this text, help or version, and exit.
    Print(String),
    /// The command `check`: print what a user may do, and exit.
    Check(Box<Config>, Check),
    /// The command `check-audit`: verify these audit files, oldest first, and exit.
    CheckAudit(Vec<String>),
}

/// The flag of a key, without the dashes.
pub(super) fn flag(key: &Key) -> String {
    key.name.replace('_', "-")
}

/// All of the command line.
pub(super) fn command() -> Command {
    let command = Command::new("pvwire-relay")
        .version(env!("CARGO_PKG_VERSION"))
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
    let (command, check) = (with_keys(command), with_keys(check));
    command.subcommand(check).subcommand(check_audit)
}

/// Adds a flag for every key.
fn with_keys(mut command: Command) -> Command {
    command = command.arg(
        Arg::new("config")
            .long("config")
            .value_name("FILE")
            .help("Configuration file (TOML); also PVWIRE_CONFIG"),
    );
    let defaults = Config::default();
    for key in KEYS {
        let default = (key.show)(&defaults);
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
