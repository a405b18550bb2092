//! A disk for the relay's audit file, which hangs or is full for a while.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use pvwire_schema::types::{Outcome, PutValue};

use super::World;
use crate::support::{Client, How, prefix};

/// A refused put needs no IOC: all of its time is the relay's.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct AuditDisk {
    /// What the relay takes for its file: a link to one of the others.
    link: PathBuf,
    file: PathBuf,
    /// To open a pipe that has no reader hangs.
    pipe: PathBuf,
}

impl AuditDisk {
    pub(super) fn new() -> Self {
        let name = prefix().trim_end_matches(':').to_owned();
        let path = |end| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{end}"));
        let disk = Self {
            link: path("link"),
            file: path("jsonl"),
            pipe: path("pipe"),
        };
        let made = Command::new("mkfifo").arg(&disk.pipe).status();
        assert!(made.unwrap().success());
        disk.lead_to(&disk.file);
        disk
    }

    /// The relay's flags: one PV may be written, and all that is tried is put on record.
    pub(super) fn flags(&self, scratch: &str) -> [String; 3] {
        [
            "--enable-put".to_owned(),
            format!("--allow-put={scratch}"),
            format!("--audit-file={}", self.link.display()),
        ]
    }

    fn lead_to(&self, to: &Path) {
        let new = self.link.with_extension("new");
        symlink(to, &new).unwrap();
        fs::rename(&new, &self.link).unwrap();
    }

    fn mend(&self) {
        const O_NONBLOCK: i32 = 0o4000;
        self.lead_to(&self.file);
        // A relay that hangs in opening the pipe goes on when the pipe is read.
        let mut reader = OpenOptions::new();
        drop(reader.read(true).custom_flags(O_NONBLOCK).open(&self.pipe));
    }

    /// Whether the file is one chain after all that happened.
    pub(super) fn check(&self) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pvwire-relay"));
        let output = command.arg("check-audit").arg(&self.file).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.code(), Some(0), "{text}");
        println!("audit file: {}", text.lines().last().unwrap_or_default());
    }
}

impl World {
    /// The audit disk hangs or is full, and a client puts all that while.
    pub(super) fn break_audit_disk(&mut self) {
        if self.random.one_in(2) {
            self.say("the audit disk hangs");
            self.audit.lead_to(&self.audit.pipe);
        } else {
            self.say("the audit disk is full");
            self.audit.lead_to(Path::new("/dev/full"));
        }
        let end = Instant::now() + self.random.millis(500, 6_000);
        let address = self.relay.as_ref().unwrap().address();
        // Attackers may still hold the relay's last descriptors.
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
    }
}
