//! Names of PVs in files of the operator: one name in a line, the records of a database, or those of all databases that
//! a file of substitutions loads. Of records their types and descriptions are known, too.

mod substitutions;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use regex::Regex;
use serde::Serialize;

use self::substitutions::{Loaded, Macros, SubstitutionsError, expanded};
use super::directory::{Directory, NameList, Origin};
use crate::ops::file_reads::{RegularFileError, read_text};

/// Maximum length of a file, in bytes: about a million names.
const MAX_FILE: u64 = 64 << 20;

/// Most names that a file of substitutions makes.
const MAX_EXPANDED_NAMES: usize = 2_000_000;

/// What a name without expanded macros contains.
const MACROS: [&str; 2] = ["$(", "${"];

/// Longest description of which clients are told, in bytes; a record's own have less than 41.
const MAX_DESCRIPTION: usize = 200;

/// A text in quotes, or a word.
const TEXT: &str = r#""(?:[^"\\\n]|\\.)*"|[^\s,"()]+"#;

/// `record(ai, "NAME")`, and both forms of `alias("NAME", "ALIAS")`.
static RECORDS: LazyLock<Regex> = LazyLock::new(|| {
    let record = format!(r#"\bg?record\s*\(\s*"?(?<type>\w+)"?\s*,\s*(?<record>{TEXT})\s*\)"#);
    let alias = format!(r"\balias\s*\(\s*(?:(?<of>{TEXT})\s*,\s*)?(?<alias>{TEXT})\s*\)");
    Regex::new(&format!("{record}|{alias}")).expect("a regular expression")
});

/// `field(DESC, "TEXT")`.
static DESCRIPTION: LazyLock<Regex> = LazyLock::new(|| {
    let field = format!(r#"\bfield\s*\(\s*"?DESC"?\s*,\s*({TEXT})\s*\)"#);
    Regex::new(&field).expect("a regular expression")
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

/// A name in a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Named {
    name: String,
    about: About,
}

/// What clients are told of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct About {
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    record_type: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
}

impl About {
    /// An object of JSON; empty for nothing.
    fn json(&self) -> String {
        if *self == Self::default() {
            return String::new();
        }
        serde_json::to_string(self).expect("texts can be written as JSON")
    }
}

impl Named {
    /// With the macros of a database.
    fn expanded(&self, macros: &Macros) -> Self {
        let about = About {
            record_type: self.about.record_type.clone(),
            description: expanded(&self.about.description, macros),
        };
        Self {
            name: expanded(&self.name, macros),
            about,
        }
    }

    fn has_macros(&self) -> bool {
        has_macros(&self.name)
    }
}

fn has_macros(text: &str) -> bool {
    MACROS.iter().any(|begin| text.contains(begin))
}

/// A text without its quotes.
fn unquoted(text: &str) -> String {
    match text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
    {
        Some(inside) => inside.replace(r#"\""#, "\""),
        None => text.to_owned(),
    }
}

/// The records and aliases in a database. An alias has the type and the description of its record.
fn records(text: &str) -> Vec<Named> {
    let lines = text
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n");
    let found: Vec<_> = RECORDS.captures_iter(&text).collect();
    let begins = found.iter().filter(|found| found.name("record").is_some());
    let mut ends = begins
        .skip(1)
        .map(|found| found.get(0).map_or(text.len(), |whole| whole.start()))
        .chain([text.len()]);
    let mut records: Vec<Named> = Vec::new();
    let mut indices: HashMap<String, usize> = HashMap::new();
    let mut last = About::default();
    for found in &found {
        let (name, about) = match (found.name("record"), found.name("alias")) {
            (Some(name), _) => {
                let body = &text[name.end()..ends.next().unwrap_or(text.len())];
                let description = DESCRIPTION.captures(body).map(|found| unquoted(&found[1]));
                let description = description.filter(|text| text.len() <= MAX_DESCRIPTION);
                last = About {
                    record_type: found["type"].to_owned(),
                    description: description.unwrap_or_default(),
                };
                (name, last.clone())
            }
            (None, Some(name)) => {
                let of = found
                    .name("of")
                    .map(|of| indices.get(&unquoted(of.as_str())));
                let of = of.map(|index| index.map(|index| records[*index].about.clone()));
                (
                    name,
                    of.map_or_else(|| last.clone(), Option::unwrap_or_default),
                )
            }
            (None, None) => continue,
        };
        let name = unquoted(name.as_str());
        indices.insert(name.clone(), records.len());
        records.push(Named { name, about });
    }
    records
}

/// The names of the records and aliases in all databases that a text of substitutions loads from a folder.
fn substituted(text: &str, folder: &Path) -> Result<Vec<Named>, NameFileProblem> {
    let mut databases: HashMap<PathBuf, Vec<Named>> = HashMap::new();
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
        names.extend(records.iter().map(|named| named.expanded(&macros)));
    }
    Ok(names)
}

/// The first word of each line; the rest is a comment, as in the lists that `dbl` writes with fields.
fn lines(text: &str) -> Vec<Named> {
    let words = text
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let names = words.filter(|word| !word.starts_with('#'));
    names
        .map(|name| Named {
            name: name.trim_matches(['"', ',']).to_owned(),
            about: About::default(),
        })
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
            let unexpanded = names.iter().filter(|named| named.has_macros()).count();
            if unexpanded > 0 {
                log::warn!(
                    "names_file: {path}: {unexpanded} names have macros and are not offered to clients: give a file \
                     in which they are expanded, such as the output of dbl"
                );
            }
            lists.extend(by_scheme(
                names.iter().filter(|named| !named.has_macros()),
                default_scheme,
            ));
        }
        Ok(Self(lists))
    }
}

/// A list for each protocol.
fn by_scheme<'a>(
    names: impl Iterator<Item = &'a Named>,
    default_scheme: &str,
) -> Vec<Arc<NameList>> {
    let mut named: Vec<(&str, Vec<(&str, String)>)> = Vec::new();
    for Named { name, about } in names {
        let (scheme, name) = name.split_once("://").unwrap_or((default_scheme, name));
        let about = match has_macros(&about.description) {
            true => About {
                description: String::new(),
                ..about.clone()
            }
            .json(),
            false => about.json(),
        };
        match named.iter_mut().find(|(known, _)| *known == scheme) {
            Some((_, names)) => names.push((name, about)),
            None => named.push((scheme, vec![(name, about)])),
        }
    }
    let lists = named.into_iter();
    lists
        .map(|(scheme, names)| Arc::new(NameList::described(scheme, names)))
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
        let names = |found: &[Named]| -> Vec<String> {
            found.iter().map(|named| named.name.clone()).collect()
        };
        assert_eq!(names(&lines(list)), ["SR:I", "pva://SR:IMAGE", "SR:V"]);
        let database = r#"
            # record(ai, "COMMENTED")
            record(ai, "A:1") { field(DESC, "a (b)") alias("A:ONE") }
            grecord(ao, B-2) {}
            record( mbbo , "$(P)M" )
            { field(ZRST, "record of x") }
            alias("A:1", "A:FIRST")
        "#;
        let found = records(database);
        assert_eq!(names(&found), ["A:1", "A:ONE", "B-2", "$(P)M", "A:FIRST"]);
    }

    #[test]
    fn records_and_their_aliases_have_types_and_descriptions() {
        let database = r#"
            record(ai, "A") { field(DESC, "say \"no\" (b)") alias("A:ONE") field(INP, "B.DESC") }
            record("ao", B) { # field(DESC, "old")
                # field(DESC, "older")
            }
            record(bo, C) { field("DESC", word) }
            alias("A", "A:FIRST")
            alias("ELSEWHERE", "X")
        "#;
        let found = records(database);
        let abouts: Vec<_> = found.iter().map(|named| named.about.json()).collect();
        let of_a = r#"{"type":"ai","description":"say \"no\" (b)"}"#;
        let of_c = r#"{"type":"bo","description":"word"}"#;
        assert_eq!(abouts[0], of_a);
        assert_eq!(abouts[1], of_a);
        assert_eq!(abouts[3..], [of_c, of_a, ""]);
        assert!(abouts[2].starts_with(r#"{"type":"ao""#));
        let macros = HashMap::from([("D".to_owned(), "two".to_owned())]);
        let open = &records(r#"record(ai, "E") { field(DESC, "$(D) $(N)") }"#)[0];
        let expanded = open.expanded(&macros);
        assert_eq!(expanded.about.description, "two $(N)");
        let lists = by_scheme([expanded].iter(), "ca");
        assert_eq!(lists[0].about(0), r#"{"type":"ai"}"#);
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
