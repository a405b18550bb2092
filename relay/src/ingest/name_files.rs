//! Names of PVs in files of the operator: one name in a line, the records of a database, or those of all databases that
//! a file of substitutions loads.

mod substitutions;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use regex::Regex;

use self::substitutions::{Loaded, SubstitutionsError, expanded};
use super::directory::{Directory, NameList, Origin};
use crate::ops::file_reads::{RegularFileError, read_text};

/// Maximum length of a file, in bytes: about a million names.
const MAX_FILE: u64 = 64 << 20;

/// Most names that a file of substitutions makes.
const MAX_EXPANDED_NAMES: usize = 2_000_000;

/// What a name without expanded macros contains.
const MACROS: [&str; 2] = ["$(", "${"];

/// `record(ai, "NAME")`, and both forms of `alias("NAME", "ALIAS")`.
static RECORDS: LazyLock<Regex> = LazyLock::new(|| {
    let text = r#""((?:[^"\\\n]|\\.)*)"|[^\s,"()]+"#;
    let record = format!(
        r"\bg?record\s*\(\s*(?:{})\s*,\s*({text})\s*\)",
        r#""?\w+"?"#
    );
    let alias = format!(r"\balias\s*\(\s*(?:(?:{text})\s*,\s*)?({text})\s*\)");
    Regex::new(&format!("{record}|{alias}")).expect("a regular expression")
});

/// A file of names that can't be used.
#[derive(Debug, thiserror::Error)]
#[error("names_file: {path}: {why}")]
pub struct NameFileError {
    path: String,
    why: NameFileProblem,
}

#[derive(Debug, thiserror::Error)]
enum NameFileProblem {
    #[error(transparent)]
    File(#[from] RegularFileError),
    #[error(transparent)]
    Substitutions(#[from] SubstitutionsError),
    #[error("{database}: {why}; databases are looked for in the folder of this file")]
    Database {
        database: String,
        why: RegularFileError,
    },
    #[error("it makes more than {MAX_EXPANDED_NAMES} names: split it")]
    TooMany,
}

/// The names in all files.
#[derive(Debug)]
pub struct NameFiles(Vec<Arc<NameList>>);

/// The names of the records and aliases in a database.
fn records(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n");
    let found = RECORDS.captures_iter(&text);
    let names = found.filter_map(|found| {
        let name = found.get(1).or_else(|| found.get(4))?.as_str();
        Some(name.trim_matches('"').to_owned())
    });
    names.collect()
}

/// The names of the records and aliases in all databases that a text of substitutions loads from a folder.
fn substituted(text: &str, folder: &Path) -> Result<Vec<String>, NameFileProblem> {
    let mut databases: HashMap<PathBuf, Vec<String>> = HashMap::new();
    let mut names = Vec::new();
    for Loaded { file, macros } in substitutions::read(text)? {
        let path = folder.join(&file);
        let records = match databases.get(&path) {
            Some(records) => records,
            None => {
                let text = read_text(&path, MAX_FILE).map_err(|why| NameFileProblem::Database {
                    database: file,
                    why,
                })?;
                &*databases.entry(path).or_insert_with(|| records(&text))
            }
        };
        if names.len() + records.len() > MAX_EXPANDED_NAMES {
            return Err(NameFileProblem::TooMany);
        }
        names.extend(records.iter().map(|name| expanded(name, &macros)));
    }
    Ok(names)
}

/// The first word of each line; the rest is a comment, as in the lists that `dbl` writes with fields.
fn lines(text: &str) -> Vec<String> {
    let words = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let names = words.filter(|word| !word.starts_with('#'));
    names
        .map(|name| name.trim_matches(['"', ',']).to_owned())
        .collect()
}

impl NameFiles {
    /// Reads the files. Names without a protocol have that of `default_scheme`.
    ///
    /// # Errors
    /// When a file can't be read or isn't text, or isn't what its ending says.
    pub fn read(paths: &[String], default_scheme: &str) -> Result<Self, NameFileError> {
        let mut lists = Vec::new();
        for path in paths {
            let failed = |why| NameFileError {
                path: path.clone(),
                why,
            };
            let text = read_text(path, MAX_FILE).map_err(|why| failed(why.into()))?;
            let ending = Path::new(path)
                .extension()
                .and_then(|ending| ending.to_str());
            let names = match ending {
                Some("db" | "vdb" | "template") => records(&text),
                Some("substitutions" | "subs") => {
                    let folder = Path::new(path).parent().unwrap_or_else(|| Path::new(""));
                    substituted(&text, folder).map_err(failed)?
                }
                _ => lines(&text),
            };
            let is_open = |name: &&String| MACROS.iter().any(|begin| name.contains(begin));
            let unexpanded = names.iter().filter(is_open).count();
            if unexpanded > 0 {
                log::warn!(
                    "names_file: {path}: {unexpanded} names have macros and are not offered to clients: give a file \
                     in which they are expanded, such as the output of dbl"
                );
            }
            lists.extend(by_scheme(
                names.iter().filter(|name| !is_open(name)),
                default_scheme,
            ));
        }
        Ok(Self(lists))
    }
}

/// A list for each protocol.
fn by_scheme<'a>(
    names: impl Iterator<Item = &'a String>,
    default_scheme: &str,
) -> Vec<Arc<NameList>> {
    let mut named: Vec<(&str, Vec<&str>)> = Vec::new();
    for name in names {
        let (scheme, name) = name.split_once("://").unwrap_or((default_scheme, name));
        match named.iter_mut().find(|(known, _)| *known == scheme) {
            Some((_, names)) => names.push(name),
            None => named.push((scheme, vec![name])),
        }
    }
    let lists = named.into_iter();
    lists
        .map(|(scheme, names)| Arc::new(NameList::new(scheme, names)))
        .collect()
}

impl Directory for NameFiles {
    fn origin(&self) -> Origin {
        Origin::File
    }

    fn lists(&self) -> Vec<Arc<NameList>> {
        self.0.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_list_and_of_a_database_are_read() {
        let list = "# all\nSR:I\n  pva://SR:IMAGE ai\n\n\"SR:V\",\n";
        assert_eq!(lines(list), ["SR:I", "pva://SR:IMAGE", "SR:V"]);
        let database = r#"
            # record(ai, "COMMENTED")
            record(ai, "A:1") { field(DESC, "a (b)") alias("A:ONE") }
            grecord(ao, B-2) {}
            record( mbbo , "$(P)M" )
            { field(ZRST, "record of x") }
            alias("A:1", "A:FIRST")
        "#;
        let found = records(database);
        assert_eq!(found, ["A:1", "A:ONE", "B-2", "$(P)M", "A:FIRST"]);
    }

    #[test]
    fn records_of_substitutions_are_those_of_their_databases_with_macros() {
        let folder = std::env::temp_dir().join(format!("pvwire-subs-{}", std::process::id()));
        std::fs::create_dir_all(folder.join("db")).unwrap();
        let database =
            r#"record(ai, "$(P)$(R=I)") { alias("$(P)$(NONE)") } record(ao, "${P}S") {}"#;
        std::fs::write(folder.join("db/a.template"), database).unwrap();
        let path = folder.join("a.substitutions");
        let path = path.to_str().unwrap();
        let read = |text: &str| {
            std::fs::write(path, text).unwrap();
            NameFiles::read(&[path.to_owned()], "ca")
        };
        let files = read("file db/a.template { pattern {P, R} {A:, V} {B:, W} }").unwrap();
        let names: Vec<_> = files.0[0].names().collect();
        assert_eq!(names, ["A:S", "A:V", "B:S", "B:W"]);
        for (text, why) in [
            (
                "file db/b.template { {P=A} }",
                "a.substitutions: db/b.template: No such file",
            ),
            (
                "file db/a.template {\n{P} }",
                "a.substitutions: line 2: expected NAME=VALUE",
            ),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn names_have_the_default_protocol_and_macros_are_left_out() {
        let folder = std::env::temp_dir().join(format!("pvwire-names-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let paths = [
            path("a.txt", "X\npva://Y\n"),
            path("b.db", "record(ai, \"$(P)Z\") {} record(ai, W) {}"),
        ];
        let files = NameFiles::read(&paths, "ca").unwrap();
        let all: Vec<_> = (files.lists().iter())
            .flat_map(|list| {
                let names = list
                    .names()
                    .map(|name| format!("{}://{name}", list.scheme()));
                names.collect::<Vec<_>>()
            })
            .collect();
        assert_eq!(all, ["ca://X", "pva://Y", "ca://W"]);
        let missing = NameFiles::read(&["/nowhere".to_owned()], "ca").unwrap_err();
        assert!(
            missing.to_string().starts_with("names_file: /nowhere: "),
            "{missing}"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
