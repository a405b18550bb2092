//! Documents that packages install beside the program, made from the keys as `--help` is: completions of shells, the
//! manual page and an example of a configuration file. They don't depend on the machine that makes them.

use std::fmt::Write as _;

use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Config;
use super::command::command;
use super::key::{KEYS, Key};
use super::reference::computed_default;

const PROGRAM: &str = "pvwire-relay";

/// Longest line of the example, in characters.
const LINE: usize = 100;

/// Begins the example.
const INTRODUCTION: &str = "\
# Configuration of pvwire-relay. Every key is here with its default, or with the kind of its value in capital letters.
# Remove the # before a key to set it, and check the file before the relay reads it:
#   pvwire-relay check --config FILE
# Who may read and write which PVs is said by [[rule]] tables at the end of the file.
";

/// Files that packages install, with their meaning.
const FILES: [(&str, &str); 2] = [
    (
        "/etc/pvwire/pvwire.toml",
        "Configuration that the service of the packages reads.",
    ),
    (
        "/etc/pvwire/environment",
        "Environment of this service, such as EPICS_CA_ADDR_LIST=192.168.1.255; it need not exist.",
    ),
];

/// The default of a key on any machine.
fn default_anywhere(key: &Key) -> String {
    computed_default(key).map_or_else(|| (key.show)(&Config::default()), str::to_owned)
}

/// The completions of a shell.
pub(super) fn completions(shell: Option<Shell>) -> String {
    let mut text = Vec::new();
    let mut command = command(default_anywhere);
    clap_complete::generate(
        shell.unwrap_or(Shell::Bash),
        &mut command,
        PROGRAM,
        &mut text,
    );
    String::from_utf8_lossy(&text).into_owned()
}

/// The manual page.
pub(super) fn manual() -> String {
    let man = Man::new(command(default_anywhere)).section("1");
    let mut files = Roff::new();
    files.control("SH", ["FILES"]);
    for (path, meaning) in FILES {
        files
            .control("TP", [])
            .text([bold(path)])
            .text([roman(meaning)]);
    }
    let mut text = Vec::new();
    let written = man
        .render(&mut text)
        .and_then(|()| files.to_writer(&mut text));
    debug_assert!(written.is_ok(), "memory takes all that is written");
    String::from_utf8_lossy(&text).into_owned()
}

/// A configuration file with every key, all commented out.
pub(super) fn example_config() -> String {
    let defaults = Config::default();
    let mut text = INTRODUCTION.to_owned();
    for key in KEYS {
        text.push('\n');
        let computed = computed_default(key);
        let computed = computed.map_or_else(String::new, |default| format!(" Default: {default}."));
        for line in wrapped(&format!("{}.{computed}", key.help)) {
            let _ = writeln!(text, "# {line}");
        }
        let shown = match computed_default(key) {
            Some(_) => String::new(),
            None => (key.show)(&defaults),
        };
        let _ = writeln!(text, "#{} = {}", key.name, example_value(key, &shown));
    }
    text
}

/// A value as TOML. A key without a default gets the kind of its value.
fn example_value(key: &Key, shown: &str) -> String {
    let is_text = !["BOOL", "MS", "N"].contains(&key.value);
    let value = if shown.is_empty() { key.value } else { shown };
    let value = if is_text {
        format!("\"{value}\"")
    } else {
        value.to_owned()
    };
    if key.is_list() {
        format!("[{value}]")
    } else {
        value
    }
}

/// The words of a text in lines.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        if !lines[last].is_empty() && lines[last].len() + 1 + word.len() > LINE {
            lines.push(word.to_owned());
        } else {
            let space = if lines[last].is_empty() { "" } else { " " };
            lines[last].extend([space, word]);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::Invocation;
    use super::super::command::flag;
    use super::*;

    #[test]
    fn completions_and_manual_have_every_key_and_command() {
        let manual = manual().replace("\\-", "-");
        let shells = [Shell::Bash, Shell::Zsh, Shell::Fish];
        let mut texts = shells.map(|shell| completions(Some(shell))).to_vec();
        texts.push(manual);
        for text in texts {
            for key in KEYS {
                let flag = flag(key);
                assert!(
                    text.contains(&flag),
                    "no {flag} in {}",
                    text.lines().next().unwrap()
                );
            }
            for command in [
                "demo",
                "record",
                "export",
                "check",
                "check-audit",
                "completions",
                "example-config",
            ] {
                assert!(text.contains(command), "no {command}");
            }
        }
    }

    #[test]
    fn example_is_a_valid_file_that_changes_nothing() {
        let example = example_config();
        let read = |text: &str| {
            let arguments = ["pvwire-relay", "--config", "pvwire.toml"].map(str::to_owned);
            match Config::read(&arguments, &BTreeMap::new(), |_| Ok(text.to_owned())) {
                Ok(Invocation::Run(config)) => *config,
                other => panic!("{other:?}"),
            }
        };
        let unchanged = Config {
            config_file: "pvwire.toml".to_owned(),
            ..Config::default()
        };
        assert_eq!(read(&example), unchanged);

        let mut set = Vec::new();
        for line in example.lines().filter_map(|line| line.strip_prefix('#')) {
            let Some((name, value)) = line.split_once(" = ") else {
                continue;
            };
            if name.starts_with(' ') {
                continue;
            }
            assert!(KEYS.iter().any(|key| key.name == name), "{name}");
            let placeholder = KEYS
                .iter()
                .any(|key| key.name == name && value.contains(key.value));
            set.push(name);
            if !placeholder {
                assert_eq!(read(&format!("{line}\n")), unchanged, "{line}");
            }
        }
        assert_eq!(set.len(), KEYS.len());
    }
}
