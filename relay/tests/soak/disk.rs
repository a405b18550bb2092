//! A disk for the relay's audit file, which hangs or is full for a while, or where something else takes its place.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use pvwire_schema::types::{Outcome, PutValue};

use super::World;
use testbed::{Client, Disk, How, in_tmp, prefix, relay_program};

/// A refused put needs no IOC: the relay alone answers it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct AuditDisk {
    disk: Disk,
    file: PathBuf,
    /// Where the file is while something else is in its place.
    kept: PathBuf,
}

impl AuditDisk {
    pub(super) fn new() -> Self {
        let name = prefix().trim_end_matches(':').to_owned();
        let file = in_tmp(&format!("{name}.jsonl"));
        Self {
            disk: Disk::of(&file),
            kept: file.with_extension("kept"),
            file,
        }
    }

    /// Lets a relay, which is not started yet, use the disk.
    pub(super) fn give_to(&self, relay: &mut Command) {
        self.disk.give_to(relay);
    }

    /// The relay's flags: some PVs may be written, and every attempt is recorded.
    pub(super) fn flags(&self, writable: &str) -> [String; 3] {
        [
            "--enable-put".to_owned(),
            format!("--allow-put={writable}"),
            format!("--audit-file={}", self.file.display()),
        ]
    }

    /// Puts something else into the place of the file, in one step: the relay makes a new file where it finds none.
    fn replace(&self, by_link: bool) {
        fs::hard_link(&self.file, &self.kept).unwrap();
        let other = self.file.with_extension("other");
        if by_link {
            symlink("/dev/full", &other).unwrap();
        } else {
            let made = Command::new("mkfifo").arg(&other).status();
            assert!(made.unwrap().success());
        }
        fs::rename(other, &self.file).unwrap();
    }

    fn mend(&self) {
        self.disk.mend();
        if self.kept.exists() {
            fs::rename(&self.kept, &self.file).unwrap();
        }
    }

    /// The records in the file still form one chain.
    pub(super) fn check(&self) {
        let mut command = Command::new(relay_program());
        let output = command.arg("check-audit").arg(&self.file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        println!("audit file: {}", text.lines().last().unwrap_or_default());
    }
}

impl World {
    /// The audit disk hangs or is full while a client writes.
    pub(super) fn break_audit_disk(&mut self) {
        let begin = SystemTime::now();
        let name = match self.random.below(4) {
            0 => {
                self.audit.disk.hang();
                "the audit disk hangs"
            }
            1 => {
                self.audit.disk.fill();
                "the audit disk is full"
            }
            2 => {
                self.audit.replace(false);
                "a pipe is in place of the audit file"
            }
            _ => {
                self.audit.replace(true);
                "a link is in place of the audit file"
            }
        };
        self.say(name);
        let end = Instant::now() + self.random.millis(500, 6_000);
        let address = self.relay.as_ref().unwrap().address();
        // An attack may still hold the relay's last descriptors.
        let mut client = Client::try_connect(address, How::default());
        while let Some(client) = &mut client
            && Instant::now() < end
        {
            // The IOC may be away: then it has another outcome.
            client.put_number(&self.scratch(), 1.0);
            let since = Instant::now();
            let refused = client.put("refused", PutValue::Number(1.0));
            assert_eq!(refused.0, Outcome::NotAllowed, "{}", refused.1);
            let took = since.elapsed();
            assert!(took < ANSWERS_WITHIN, "held up for {took:?} by the disk");
        }
        self.audit.mend();
        self.waits.add_window(name, begin, SystemTime::now());
    }
}
