//! Does an audit file still say what the relay wrote?

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use super::chain::hash;

/// Longer lines are not the relay's.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// What was found in audit files.
#[derive(Debug)]
pub struct Findings {
    /// For people.
    pub text: String,
    /// Whether every line follows from the one before it.
    pub is_whole: bool,
}

/// One line, and where it stands.
struct Line {
    at: String,
    hash: String,
    /// None if it is no record.
    record: Option<Value>,
    is_ended: bool,
}

impl Line {
    fn kind(&self) -> &str {
        let record = self.record.as_ref();
        record
            .and_then(|record| record["kind"].as_str())
            .unwrap_or("")
    }

    fn prev(&self) -> Option<&str> {
        self.record.as_ref()?["prev"].as_str()
    }
}

/// Reads files in the order in which they were written and says which is the first line that doesn't follow
/// from the one before it.
///
/// # Errors
/// When a file can't be read; the message names it.
pub fn check(paths: &[String]) -> Result<Findings, String> {
    let (mut text, mut records, mut lost) = (String::new(), 0_u64, 0_u64);
    // The line before, and the hash of the last whole one before a line that was cut off.
    let mut before: Option<Line> = None;
    let mut whole: Option<String> = None;
    let mut wrong = None;
    'files: for path in paths {
        let file = File::open(path).map_err(|error| format!("{path}: {error}"))?;
        let mut reader = BufReader::new(file);
        for number in 1_u64.. {
            let at = format!("{path}:{number}");
            let Some(line) = read(&mut reader, at).map_err(|error| format!("{path}: {error}"))?
            else {
                break;
            };
            if let Err(why) = follows(before.as_ref(), whole.as_deref(), &line) {
                wrong = Some(format!("{}: {why}", line.at));
                break 'files;
            }
            let _ = match (&before, line.kind()) {
                (None, _) if line.prev().is_some() => writeln!(
                    text,
                    "{}: goes on from an earlier file, whose last line has the SHA-256 {}",
                    line.at,
                    line.prev().unwrap_or_default()
                ),
                (Some(cut), "cut") => {
                    writeln!(
                        text,
                        "{}: cut off while it was written; the next line says so",
                        cut.at
                    )
                }
                (_, "lost") => {
                    let count = line
                        .record
                        .as_ref()
                        .and_then(|record| record["count"].as_u64());
                    lost += count.unwrap_or(0);
                    writeln!(
                        text,
                        "{}: {} records before it are lost",
                        line.at,
                        count.unwrap_or(0)
                    )
                }
                _ => Ok(()),
            };
            records += u64::from(["put", "call"].contains(&line.kind()));
            if line.record.is_none() {
                whole = before.map(|before| before.hash);
            }
            before = Some(line);
        }
    }
    if let Some(last) = before
        .as_ref()
        .filter(|last| last.record.is_none() || !last.is_ended)
        && wrong.is_none()
    {
        let why = "cut off: the relay stopped while it wrote this line, or is writing it now";
        let _ = writeln!(text, "{}: {why}", last.at);
    }
    let is_whole = wrong.is_none();
    if let Some(wrong) = wrong {
        let _ = writeln!(text, "{wrong}");
    } else if let Some(last) = before {
        let _ = writeln!(
            text,
            "{records} records in {} files follow from one another, {lost} are lost; the last line has the \
             SHA-256 {}",
            paths.len(),
            last.hash
        );
    } else {
        let _ = writeln!(text, "no records");
    }
    Ok(Findings { text, is_whole })
}

/// Whether a line is what comes behind the one before, or why not.
fn follows(before: Option<&Line>, whole: Option<&str>, line: &Line) -> Result<(), String> {
    let Some(before) = before else {
        return match line.kind() {
            "begin" => Ok(()),
            _ => Err("not the first line of an audit file: lines before it are missing".into()),
        };
    };
    if before.record.is_none() {
        let says_so = line.kind() == "cut"
            && line.prev() == Some(&before.hash)
            && line
                .record
                .as_ref()
                .and_then(|record| record["whole"].as_str())
                == whole;
        return match says_so {
            true => Ok(()),
            false => Err(format!(
                "the line before it ({}) is no record of the relay",
                before.at
            )),
        };
    }
    if line.record.is_none() {
        // The next line, if there is one, must say that it was cut off.
        return Ok(());
    }
    if line.prev() == Some(&before.hash) {
        return Ok(());
    }
    Err(match (line.kind(), line.prev()) {
        ("begin", None) => format!(
            "begins a chain of its own, which doesn't go on from {}: the relay was started without the file \
             before",
            before.at
        ),
        _ => format!(
            "doesn't follow from {}: one of both was changed, or lines between them were removed or added",
            before.at
        ),
    })
}

fn read(reader: &mut impl BufRead, at: String) -> std::io::Result<Option<Line>> {
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

    /// An audit file with three records, written in two lives of a relay.
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
    fn file_that_was_not_changed_is_whole_and_its_records_and_losses_are_counted() {
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
        fn bytes_of_any_kind_end_a_check_with_a_verdict(bytes in any::<Vec<u8>>()) {
            let path = written("any");
            fs::write(&path, &bytes).unwrap();
            let found = checked(&path);
            fs::remove_file(&path).unwrap();
            prop_assert!(!found.text.is_empty());
        }
    }
}
