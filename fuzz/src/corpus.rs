//! The corpus, `corpus.txt`: inputs that reach code which no other input reaches.
//!
//! A line is one input: its target's name, a space, and a JSON string of which each character stands for a byte
//! (U+0000 to U+00FF). The lines are sorted by target and by the inputs' bytes and differ, so that equal sets of inputs
//! make equal files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::targets::{TARGETS, Target};

/// A file of the corpus can't be used.
#[derive(Debug, Error)]
pub enum CorpusError {
    /// It can't be read or written.
    #[error("{0}: {1}")]
    File(PathBuf, io::Error),
    /// A line is not a JSON string of bytes.
    #[error("{0}:{1}: expected a target, a space and a JSON string of characters up to U+00FF")]
    Line(PathBuf, usize),
}

/// The file with the inputs of all targets.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus.txt")
}

/// A target's seeds, and behind them its corpus, each input with its name for reports.
///
/// # Errors
/// When the corpus can't be read.
pub fn named(target: &Target) -> Result<Vec<(String, Vec<u8>)>, CorpusError> {
    let seeds = (target.seeds)().into_iter().enumerate();
    let seeds = seeds.map(|(number, seed)| (format!("seed {number}"), seed));
    let kept = kept(target)?.into_iter().enumerate();
    let kept = kept.map(|(number, input)| (format!("input {number} of the corpus"), input));
    Ok(seeds.chain(kept).collect())
}

/// A target's inputs in the corpus, in the order of its lines.
///
/// # Errors
/// When the file can't be read, or has a line of another form.
pub fn kept(target: &Target) -> Result<Vec<Vec<u8>>, CorpusError> {
    let path = file();
    let text = fs::read_to_string(&path).map_err(|error| CorpusError::File(path.clone(), error))?;
    let lines = text.lines().enumerate();
    let inputs = lines.filter_map(|(at, line)| match line.split_once(' ') {
        Some((name, input_text)) if name == target.name => {
            Some(input(input_text).ok_or_else(|| CorpusError::Line(path.clone(), at + 1)))
        }
        Some(_) => None,
        None => Some(Err(CorpusError::Line(path.clone(), at + 1))),
    });
    inputs.collect()
}

/// The input that a JSON string stands for.
fn input(text: &str) -> Option<Vec<u8>> {
    let text: String = serde_json::from_str(text).ok()?;
    text.chars()
        .map(|character| u8::try_from(character).ok())
        .collect()
}

/// The lines of a target with these inputs.
fn lines(target: &str, mut inputs: Vec<Vec<u8>>) -> String {
    inputs.sort();
    inputs.dedup();
    let lines = inputs.iter().map(|input| {
        let text: String = input.iter().copied().map(char::from).collect();
        format!("{target} {}\n", serde_json::Value::String(text))
    });
    lines.collect()
}

/// Makes the files of a folder the corpus of a target; returns the number of inputs and of their bytes.
///
/// # Errors
/// When one of the files can't be read, or the corpus can't be written.
pub fn keep(target: &Target, folder: &Path) -> Result<(usize, usize), CorpusError> {
    let failed = |error| CorpusError::File(folder.to_owned(), error);
    let entries = fs::read_dir(folder).map_err(failed)?;
    let inputs = entries.map(|entry| fs::read(entry?.path()));
    let inputs: Vec<_> = inputs.collect::<io::Result<_>>().map_err(failed)?;
    let counts = (inputs.len(), inputs.iter().map(Vec::len).sum());
    let mut others = TARGETS.iter().collect::<Vec<_>>();
    others.sort_by_key(|other| other.name);
    let mut text = String::new();
    for other in others {
        let is_it = other.name == target.name;
        let of_other = if is_it { inputs.clone() } else { kept(other)? };
        text += &lines(other.name, of_other);
    }
    fs::write(file(), text).map_err(|error| CorpusError::File(file(), error))?;
    Ok(counts)
}

/// Writes what libFuzzer begins with as files: `FOLDER/seeds/…`, `FOLDER/corpus/…`, and the words as a
/// dictionary, `FOLDER/words`.
///
/// # Errors
/// When the corpus can't be read, or a file can't be written.
pub fn write(target: &Target, to: &Path) -> Result<(), CorpusError> {
    let inputs = [("seeds", (target.seeds)()), ("corpus", kept(target)?)];
    let written = inputs.iter().try_for_each(|(name, inputs)| {
        let folder = to.join(name);
        fs::create_dir_all(&folder)?;
        let mut inputs = inputs.iter().enumerate();
        inputs.try_for_each(|(number, input)| fs::write(folder.join(number.to_string()), input))
    });
    let quoted = |word: &&str| {
        let bytes = word.bytes().map(|byte| format!("\\x{byte:02x}"));
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    let words: String = target.words.iter().map(quoted).collect();
    written
        .and_then(|()| fs::write(to.join("words"), words))
        .map_err(|error| CorpusError::File(to.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corpus_has_inputs_of_each_target_and_all_are_small() {
        // The program reads them all and measures how long each takes; tools/test.py runs it.
        let all: Vec<_> = TARGETS
            .iter()
            .map(|target| (target.name, kept(target).unwrap()))
            .collect();
        for (name, inputs) in &all {
            assert!(!inputs.is_empty(), "{name} has no corpus");
        }
        let bytes: usize = all
            .iter()
            .flat_map(|(_, inputs)| inputs)
            .map(Vec::len)
            .sum();
        assert!(bytes <= 1 << 20, "{bytes} bytes");
    }

    #[test]
    fn equal_sets_of_inputs_make_equal_files() {
        let mut targets: Vec<_> = TARGETS.iter().collect();
        targets.sort_by_key(|target| target.name);
        let text: String = targets
            .iter()
            .map(|target| lines(target.name, kept(target).unwrap()))
            .collect();
        // Each line is a target's: those of unknown targets would be missing.
        assert!(fs::read_to_string(file()).unwrap() == text);
        let all_bytes: Vec<u8> = (0..=255).collect();
        let (long, short) = (all_bytes.repeat(2), Vec::new());
        let written = lines("a", vec![long.clone(), short.clone(), long.clone()]);
        let read: Vec<_> = written
            .lines()
            .map(|line| input(line.strip_prefix("a ").unwrap()).unwrap())
            .collect();
        assert_eq!(read, [short, long]);
    }

    #[test]
    fn a_line_of_another_form_is_refused() {
        for line in ["", "1", "\"a", "\"\\u0100\"", "\"€\"", "[\"a\"]"] {
            assert_eq!(input(line), None, "{line}");
        }
        assert_eq!(input("\"\\u00ff\\n\""), Some(vec![0xff, b'\n']));
    }
}
