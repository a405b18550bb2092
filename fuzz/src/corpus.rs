//! The corpus in `corpus/TARGET/`: inputs that reach code which no other input reaches.

use std::fs;
use std::path::{Path, PathBuf};

use crate::targets::Target;

/// Where a target's files are.
#[must_use]
pub fn folder(target: &Target) -> PathBuf {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    corpus.join(target.name)
}

/// A target's seeds, and behind them its files in the order of their names.
#[must_use]
pub fn inputs(target: &Target) -> Vec<Vec<u8>> {
    named(target).into_iter().map(|(_, input)| input).collect()
}

/// The same, each with its name for reports.
#[must_use]
pub fn named(target: &Target) -> Vec<(String, Vec<u8>)> {
    let seeds = (target.seeds)().into_iter().enumerate();
    let seeds = seeds.map(|(number, seed)| (format!("seed {number}"), seed));
    let files = fs::read_dir(folder(target)).into_iter().flatten();
    let mut files: Vec<_> = files.filter_map(|entry| Some(entry.ok()?.path())).collect();
    files.sort();
    let kept = files
        .iter()
        .filter_map(|path| Some((path.display().to_string(), fs::read(path).ok()?)));
    seeds.chain(kept).collect()
}

/// Writes seeds as files and words as a dictionary for libFuzzer: `FOLDER/seeds/…` and
/// `FOLDER/words`.
///
/// # Errors
/// When a file can't be written.
pub fn write(target: &Target, to: &Path) -> std::io::Result<()> {
    let seeds = to.join("seeds");
    fs::create_dir_all(&seeds)?;
    for (number, seed) in (target.seeds)().iter().enumerate() {
        fs::write(seeds.join(number.to_string()), seed)?;
    }
    let quoted = |word: &&str| {
        let bytes = word.bytes().map(|byte| format!("\\x{byte:02x}"));
        format!("\"{}\"\n", bytes.collect::<String>())
    };
    let words: String = target.words.iter().map(quoted).collect();
    fs::write(to.join("words"), words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::{self, Speed};
    use crate::shapes;
    use crate::targets::TARGETS;

    #[test]
    fn every_file_of_the_corpus_is_read_without_a_finding() {
        for target in TARGETS {
            let inputs = inputs(target);
            assert!(
                inputs.len() > (target.seeds)().len(),
                "{} has no corpus",
                target.name
            );
            inputs.iter().for_each(|input| (target.run)(input));
        }
    }

    #[test]
    fn no_input_and_no_worst_shape_takes_a_reader_longer_than_its_limit() {
        let speed = Speed::measure();
        let mut slow = Vec::new();
        for target in TARGETS {
            let shapes = shapes::of(target).into_iter();
            let shapes = shapes.map(|shape| (shape.name, shape.bytes));
            for (name, input) in named(target).into_iter().chain(shapes) {
                let took = cpu::time(|| (target.run)(&input));
                if let Some(took) = speed.exceeded(target, &input, took) {
                    let limit = speed.limit(target, input.len());
                    slow.push(format!(
                        "{}: {name}: {took:?}, limit {limit:?}",
                        target.name
                    ));
                }
            }
        }
        assert!(slow.is_empty(), "{}", slow.join("\n"));
    }

    #[test]
    fn every_folder_of_the_corpus_is_a_targets_and_all_are_small() {
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
        let mut bytes = 0;
        for entry in fs::read_dir(corpus).unwrap() {
            let path = entry.unwrap().path();
            assert!(
                TARGETS.iter().any(|target| folder(target) == path),
                "{} is no target's",
                path.display()
            );
            let files = fs::read_dir(path).unwrap();
            bytes += files
                .map(|file| file.unwrap().metadata().unwrap().len())
                .sum::<u64>();
        }
        assert!(bytes <= 1 << 20, "{bytes} bytes");
    }
}
