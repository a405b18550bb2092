//! What does the command line look like, and what may it ask for?

use clap::{Arg, ArgAction, Command};

use super::key::{KEYS, Key};
use super::{Access, Config};

/// Somebody who might ask for a PV.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Check {
    /// User name, if there is one.
    pub user: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
    /// The PVs.
    pub pvs: Vec<String>,
    /// What is asked of each.
    pub access: Vec<Access>,
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Run with this.
    Run(Box<Config>),
    /// Print this and end well: help or version.
    Print(String),
    /// Say what would happen with this if somebody asked, and end.
    Check(Box<Config>, Check),
    /// Check whether these audit files, in their order, still say what the relay wrote, and end.
    CheckAudit(Vec<String>),
}

/// As it is written on the command line.
pub(super) fn flag(key: &Key) -> String {
    key.name.replace('_', "-")
}

/// All of the command line.
pub(super) fn command() -> Command {
    let command = Command::new("pvwire-relay")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Relays EPICS process variables to web browsers")
        .after_help(
            "Every flag is also a key of the file (with underscores) and an environment variable \
             (PVWIRE_LISTEN, ...); flags win over the environment, that over the file. EPICS's own \
             variables (EPICS_CA_ADDR_LIST, ...) mean what they always mean. Log: PVWIRE_LOG=debug.",
        );
    let check = Command::new("check")
        .about("Says what somebody may do with a PV, and which rule says so")
        .args([
            Arg::new("user")
                .long("user")
                .value_name("U")
                .help("User name; without one it is somebody who hasn't logged in"),
            Arg::new("group")
                .long("group")
                .value_name("G")
                .action(ArgAction::Append)
                .help("Group of the user; may be repeated"),
            Arg::new("pv")
                .long("pv")
                .value_name("P")
                .action(ArgAction::Append)
                .required(true)
                .help("PV name, with or without a source; may be repeated"),
            Arg::new("access")
                .long("access")
                .value_name("ACCESS")
                .value_parser(["read", "put"])
                .help("Check this access only; by default both"),
        ])
        .after_help(
            "Exit code: 0 when every access is allowed, 1 when one is not, 64 for an error",
        );
    let check_audit = Command::new("check-audit")
        .about("Says whether audit files hold what the relay wrote, each line following from the one before")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .num_args(1..)
                .required(true)
                .help("Audit files in the order in which they were written, the oldest first"),
        )
        .after_help(
            "Exit code: 0 when every line follows from the one before, 1 when one doesn't, which is named, \
             64 when a file can't be read",
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
        let action = if key.list {
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
