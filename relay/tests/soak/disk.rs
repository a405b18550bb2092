//! A disk for the relay's audit file, which hangs or is full for a while.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use pvwire_schema::types::{Outcome, PutValue};

use super::World;
use testbed::{Client, How, in_tmp, prefix, relay_program};

/// A refused put needs no IOC: the relay alone answers it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);

pub(super) struct AuditDisk {
    /// The path that the relay is given: a link to one of the others.
    link: PathBuf,
    file: PathBuf,
    /// Opening a pipe without a reader blocks.
    pipe: PathBuf,
}

impl AuditDisk {
    pub(super) fn new() -> Self {
        let name = prefix().trim_end_matches(':').to_owned();
        let path = |end| in_tmp(&format!("{name}.{end}"));
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

    /// The relay's flags: some PVs may be written, and every attempt is recorded.
    pub(super) fn flags(&self, writable: &str) -> [String; 3] {
        [
            "--enable-put".to_owned(),
            format!("--allow-put={writable}"),
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
        // A relay that blocks in opening the pipe continues when the pipe has a reader.
        let mut reader = OpenOptions::new();
        drop(reader.read(true).custom_flags(O_NONBLOCK).open(&self.pipe));
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
        let name = if self.random.one_in(2) {
            self.audit.lead_to(&self.audit.pipe);
            "the audit disk hangs"
        } else {
            self.audit.lead_to(Path::new("/dev/full"));
            "the audit disk is full"
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
