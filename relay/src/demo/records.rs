//! The records of the demo's IOC, as files for as long as it loads them.

use std::fmt::Write as _;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::{env, fs, io};

/// First part of the names of all records.
pub(super) const PREFIX: &str = "DEMO";

/// Records of the page's counters.
const COUNTERS: u32 = 1000;

const MACHINE: &str = include_str!("../../../web-demo/ioc/demo.db");

const ACCESS: &str = include_str!("../../../web-demo/ioc/demo.acf");

/// A folder with the files, which is removed when this is dropped.
pub(super) struct Records {
    folder: PathBuf,
}

impl Records {
    /// Writes the files.
    pub(super) fn write() -> io::Result<Self> {
        // A name that no other program can know before.
        let mut random = [0; 8];
        getrandom::fill(&mut random)?;
        let number = u64::from_ne_bytes(random);
        let folder = env::temp_dir().join(format!("pvwire-demo-{number:016x}"));
        // No other user may replace what the IOC reads, whatever the mask of new files is.
        DirBuilder::new().mode(0o700).create(&folder)?;
        let records = Self { folder };
        fs::write(records.machine(), MACHINE)?;
        fs::write(records.counters(), counters())?;
        fs::write(records.access(), ACCESS)?;
        Ok(records)
    }

    /// The database of the machine.
    pub(super) fn machine(&self) -> PathBuf {
        self.folder.join("demo.db")
    }

    /// The database of the counters.
    pub(super) fn counters(&self) -> PathBuf {
        self.folder.join("counters.db")
    }

    /// The access security file.
    pub(super) fn access(&self) -> PathBuf {
        self.folder.join("demo.acf")
    }
}

impl Drop for Records {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            log::warn!("{} can't be removed: {error}", self.folder.display());
        }
    }
}

/// Records that count at 10 Hz. Each begins at another number.
fn counters() -> String {
    let mut text = String::new();
    for number in 0..COUNTERS {
        let first = number * 619 % COUNTERS * 10;
        let _ = writeln!(
            text,
            "record(calc, \"$(P):N{number:04}\") {{ field(SCAN, \".1 second\") field(CALC, \"VAL+1\") \
             field(VAL, \"{first}\") }}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn folder_of_the_records_is_writable_by_its_user_alone() {
        let records = Records::write().unwrap();
        let mode = fs::metadata(&records.folder).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
