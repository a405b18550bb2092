//! The last result of reading the configuration, which is valid as long as the file has the same text: flags and
//! environment don't change, and parsing all of them every second costs more than reading the file.

use std::cell::RefCell;
use std::io;
use std::sync::{Mutex, PoisonError};

use super::{ConfigError, Invocation};

/// The configuration file of the last read and its result.
#[derive(Debug, Default)]
pub struct LastRead(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    /// Path and text; `None` without a configuration file.
    file: Option<(String, String)>,
    asked: Result<Invocation, ConfigError>,
}

impl LastRead {
    /// The configuration. `parse` is called only when the file has another text than at the last call, or can't be
    /// read; it reads the file with the function that it is given.
    ///
    /// # Errors
    /// Those of `parse`.
    pub fn read(
        &self,
        read_file: &impl Fn(&str) -> io::Result<String>,
        parse: impl FnOnce(&dyn Fn(&str) -> io::Result<String>) -> Result<Invocation, ConfigError>,
    ) -> Result<Invocation, ConfigError> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |last: &&Last| match &last.file {
            None => true,
            Some((path, text)) => read_file(path).is_ok_and(|now| now == *text),
        };
        if let Some(last) = last.as_ref().filter(is_same) {
            return last.asked.clone();
        }
        let (file, failed) = (RefCell::new(None), RefCell::new(false));
        let asked = parse(&|path| {
            let text = read_file(path).inspect_err(|_| *failed.borrow_mut() = true)?;
            *file.borrow_mut() = Some((path.to_owned(), text.clone()));
            Ok(text)
        });
        *last = (!failed.into_inner()).then(|| Last {
            file: file.into_inner(),
            asked: asked.clone(),
        });
        asked
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Reads a file with this text (`None`: it can't be read); returns the result, and how often it was parsed.
    fn read(last: &LastRead, text: Option<&str>) -> (Result<Invocation, ConfigError>, u32) {
        let parsed = Cell::new(0);
        let file = |_: &str| {
            text.map(str::to_owned)
                .ok_or_else(|| io::Error::other("gone"))
        };
        let asked = last.read(&file, |file| {
            parsed.set(parsed.get() + 1);
            let text = file("relay.toml").map_err(|error| ConfigError::Flags(error.to_string()))?;
            Ok(Invocation::Print(text))
        });
        (asked, parsed.get())
    }

    #[test]
    fn configuration_is_parsed_again_only_when_its_file_changed() {
        let last = LastRead::default();
        let text = |text: &str| Ok(Invocation::Print(text.to_owned()));
        assert_eq!(read(&last, Some("a")), (text("a"), 1));
        assert_eq!(read(&last, Some("a")), (text("a"), 0));
        assert_eq!(read(&last, Some("b")), (text("b"), 1));
        let gone = || Err(ConfigError::Flags("gone".to_owned()));
        for _ in 0..2 {
            assert_eq!(read(&last, None), (gone(), 1));
        }
        assert_eq!(read(&last, Some("b")), (text("b"), 1));
    }

    #[test]
    fn without_a_file_the_configuration_is_parsed_once() {
        let (last, parsed) = (LastRead::default(), Cell::new(0));
        for _ in 0..3 {
            let no_file = |_: &str| Err(io::Error::other("not asked for"));
            let asked = last.read(&no_file, |_| {
                parsed.set(parsed.get() + 1);
                Ok(Invocation::Print(String::new()))
            });
            assert!(asked.is_ok());
        }
        assert_eq!(parsed.get(), 1);
    }
}
