//! Checks that audit files are unchanged: each line must follow from the one before it.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use serde_json::Value;
use thiserror::Error;

use super::chain::hash;

/// The relay writes no longer lines.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// The result of a check.
#[derive(Debug)]
pub struct Findings {
    /// For the operator, one line for each finding.
    pub text: String,
    /// Whether every line follows from the one before it.
    pub is_whole: bool,
}

/// A file can't be read.
#[derive(Debug, Error)]
#[error("{path}: {cause}")]
pub struct CheckError {
    path: String,
    cause: io::Error,
}

/// Why a line doesn't follow from the one before it.
#[derive(Debug, Error)]
enum Break {
    #[error("not the first line of an audit file: lines before it are missing")]
    NoBegin,
    #[error("the line before it ({0}) is not a record of the relay")]
    NoRecord(String),
    #[error(
        "begins a new chain, which doesn't continue {0}: the relay was started without the previous file"
    )]
    NewChain(String),
    #[error(
        "doesn't follow from {0}: one of the two was changed, or lines between them were removed or added"
    )]
    Changed(String),
}

/// One line and its position.
struct Line {
    at: String,
    hash: String,
    /// `None` when the line isn't a record.
    record: Option<Value>,
    is_ended: bool,
}

impl Line {
    fn kind(&self) -> &str {
        self.text("kind").unwrap_or_default()
    }

    fn prev(&self) -> Option<&str> {
        self.text("prev")
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.record.as_ref()?[key].as_str()
    }

    /// Number of lost records that it mentions.
    fn lost(&self) -> u64 {
        let count = self
            .record
            .as_ref()
            .and_then(|record| record["count"].as_u64());
        count.filter(|_| self.kind() == "lost").unwrap_or(0)
    }
}

/// The state of a check.
#[derive(Default)]
struct Chain {
    text: String,
    records: u64,
    lost: u64,
    /// The line before.
    before: Option<Line>,
    /// Hash of the last whole line before one that was cut off.
    whole: Option<String>,
}

/// Reads files in the order in which they were written, up to the first line that doesn't follow
/// from the one before it.
///
/// # Errors
/// When a file can't be read.
pub fn check(paths: &[String]) -> Result<Findings, CheckError> {
    let mut chain = Chain::default();
    for path in paths {
        let failed = |cause| CheckError {
            path: path.clone(),
            cause,
        };
        let mut reader = BufReader::new(File::open(path).map_err(failed)?);
        for number in 1_u64.. {
            let Some(line) = read(&mut reader, format!("{path}:{number}")).map_err(failed)? else {
                break;
            };
            if let Err(why) = chain.follows(&line) {
                let _ = writeln!(chain.text, "{}: {why}", line.at);
                return Ok(Findings {
                    text: chain.text,
                    is_whole: false,
                });
            }
            chain.add(line);
        }
    }
    Ok(Findings {
        text: chain.end(paths.len()),
        is_whole: true,
    })
}

impl Chain {
    /// Takes a line that follows from the one before it.
    fn add(&mut self, line: Line) {
        let text = &mut self.text;
        // Writing to a text can't fail.
        let _ = match (&self.before, line.kind()) {
            (None, _) if let Some(prev) = line.prev() => writeln!(
                text,
                "{}: continues an earlier file, whose last line has the SHA-256 {prev}",
                line.at
            ),
            (Some(cut), "cut") => writeln!(
                text,
                "{}: cut off while it was written; the next line says so",
                cut.at
            ),
            (_, "lost") => writeln!(
                text,
                "{}: {} records before it are lost",
                line.at,
                line.lost()
            ),
            _ => Ok(()),
        };
        self.lost += line.lost();
        self.records += u64::from(["put", "call", "disconnect"].contains(&line.kind()));
        let before = self.before.replace(line);
        if self
            .before
            .as_ref()
            .is_some_and(|line| line.record.is_none())
        {
            self.whole = before.map(|before| before.hash);
        }
    }

    /// The findings after the last of `files` files.
    fn end(mut self, files: usize) -> String {
        let Some(last) = self.before else {
            return "no records\n".to_owned();
        };
        if last.record.is_none() || !last.is_ended {
            let why = "cut off: the relay stopped while it wrote this line, or is writing it now";
            let _ = writeln!(self.text, "{}: {why}", last.at);
        }
        let _ = writeln!(
            self.text,
            "{} records in {files} files follow from one another, {} are lost; the last line has the SHA-256 {}",
            self.records, self.lost, last.hash
        );
        self.text
    }

    fn follows(&self, line: &Line) -> Result<(), Break> {
        let Some(before) = &self.before else {
            return match line.kind() {
                "begin" => Ok(()),
                _ => Err(Break::NoBegin),
            };
        };
        let continues = line.prev() == Some(&before.hash);
        if before.record.is_none() {
            let is_cut = line.kind() == "cut" && line.text("whole") == self.whole.as_deref();
            return match continues && is_cut {
                true => Ok(()),
                false => Err(Break::NoRecord(before.at.clone())),
            };
        }
        // The line after one that isn't a record must say that it was cut off.
        if continues || line.record.is_none() {
            return Ok(());
        }
        match (line.kind(), line.prev()) {
            ("begin", None) => Err(Break::NewChain(before.at.clone())),
            _ => Err(Break::Changed(before.at.clone())),
        }
    }
}

fn read(reader: &mut impl BufRead, at: String) -> io::Result<Option<Line>> {
    let mut bytes = Vec::new();
    reader.take(MAX_LINE_BYTES).read_until(b'\n', &mut bytes)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let is_ended = bytes.ends_with(b"\n");
    let record = serde_json::from_slice::<Value>(&bytes).ok();
    if !is_ended {
        bytes.push(b'\n');
    }
    Ok(Some(Line {
        at,
        hash: hash(&bytes),
        record: record.filter(|record| is_ended && record.get("prev").is_some()),
        is_ended,
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::time::UNIX_EPOCH;

    use proptest::prelude::*;

    use super::super::file::LogFile;
    use super::*;
    use crate::config::AuditSync;

    /// An audit file with three records, written by a relay that was restarted once.
    fn written(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("pvwire-{}-{name}", std::process::id()));
        let _ = fs::remove_file(&path);
        let write = |records: &[&str], lost| {
            let mut file = LogFile::new(Path::new(&path), AuditSync::Never);
            file.write(records, lost, UNIX_EPOCH).unwrap();
        };
        write(
            &[r#"{"kind":"put","pv":"A"}"#, r#"{"kind":"put","pv":"B"}"#],
            0,
        );
        write(&[r#"{"kind":"call","pv":"C"}"#], 7);
        path
    }

    fn checked(path: &Path) -> Findings {
        check(&[path.to_str().unwrap().to_owned()]).unwrap()
    }

    #[test]
    fn unchanged_file_is_whole_and_its_records_are_counted() {
        let path = written("whole");
        let Findings { text, is_whole } = checked(&path);
        fs::remove_file(&path).unwrap();
        assert!(is_whole, "{text}");
        assert!(text.contains("3 records in 1 files"), "{text}");
        assert!(text.contains("7 are lost"), "{text}");
        assert!(text.contains(":4: 7 records before it are lost"), "{text}");
    }

    proptest! {
        #[test]
        fn change_of_any_byte_before_the_last_line_is_found(
            at in any::<prop::sample::Index>(), to in any::<u8>(),
        ) {
            let path = written("changed");
            let mut bytes = fs::read(&path).unwrap();
            let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap();
            let at = at.index(last);
            let before = std::mem::replace(&mut bytes[at], to);
            fs::write(&path, &bytes).unwrap();
            let found = checked(&path);
            fs::remove_file(&path).unwrap();
            prop_assert_eq!(found.is_whole, before == to, "{}", found.text);
        }

        #[test]
        fn check_of_any_bytes_ends_with_findings(bytes in any::<Vec<u8>>()) {
            let path = written("any");
            fs::write(&path, &bytes).unwrap();
            let found = checked(&path);
            fs::remove_file(&path).unwrap();
            prop_assert!(!found.text.is_empty());
        }
    }
}
