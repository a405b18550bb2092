//! Who tried to write what, and what became of it: one line of JSON for each attempt.

mod record;

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

pub use self::record::{Attempt, new_value, old_value};

/// Where attempts are written.
pub struct Audit {
    place: Mutex<Place>,
    /// Nothing may be written to a PV that isn't on record.
    closed: bool,
}

struct Place {
    file: File,
    /// The last line may have been cut off.
    torn: bool,
}

impl Audit {
    /// Appends to a file. With `closed` nothing is written to a PV unless a line that says so was
    /// written before.
    ///
    /// # Errors
    /// When the file can't be opened.
    pub fn open(path: &str, closed: bool) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let place = Mutex::new(Place { file, torn: false });
        Ok(Self { place, closed })
    }

    /// Puts an attempt that is about to be made on record, where nothing may be written otherwise.
    ///
    /// # Errors
    /// When it must not be made.
    pub fn begin(&self, attempt: &Attempt<'_>) -> io::Result<()> {
        if self.closed {
            self.write(attempt)?;
        }
        Ok(())
    }

    /// Puts on record what became of an attempt.
    pub fn end(&self, attempt: &Attempt<'_>) {
        if let Err(error) = self.write(attempt) {
            log::error!("the audit file can't be written: {error}");
        }
    }

    fn write(&self, attempt: &Attempt<'_>) -> io::Result<()> {
        let line = attempt.line(SystemTime::now());
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        if place.torn {
            place.file.write_all(b"\n")?;
        }
        place.torn = true;
        place.file.write_all(line.as_bytes())?;
        place.torn = false;
        Ok(())
    }
}
