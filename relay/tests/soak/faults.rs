//! The faults: IOC, network, relay and clients stop, stall and come back. The disk of the relay's audit file hangs or is
//! full for a while, or something else takes the file's place.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};
use std::{fs, thread};

use pvwire_schema::types::{Outcome, PutValue};
use testbed::records::KINDS;
use testbed::{Client, Disk, How, eventually, in_tmp, prefix, relay_program, try_get};

use super::watcher::Order;
use super::{World, attacks, door, pva};

/// Longer than any time-out: libca gives a circuit up after 10 s, the relay a client after 15.
const STALL: Duration = Duration::from_millis(15_500);

impl World {
    pub(super) fn restart_ioc(&mut self) {
        self.ioc.take().unwrap().kill();
        match self.random.below(3) {
            0 => self.say("the IOC dies and comes back as it was"),
            1 => {
                self.say("the IOC dies and comes back with other values and metadata");
                for entry in &mut self.entries {
                    entry.variant = self.random.below(1000) as u32;
                }
            }
            _ => {
                self.say("the IOC dies and comes back with other types, and not with all records");
                for (number, entry) in self.entries.iter_mut().enumerate() {
                    // The long string is asked for by a name that other types don't have.
                    if entry.kind != "lso" && self.random.one_in(3) {
                        entry.kind = self.random.pick(&KINDS);
                        if entry.kind == "lso" {
                            entry.kind = "lsi";
                        }
                        let by_pva = self.fleet.is_some() && pva::is_watched(number);
                        if by_pva && pva::NOT_SERVED.contains(&entry.kind) {
                            entry.kind = "SHORT";
                        }
                    }
                    entry.variant = self.random.below(1000) as u32;
                    self.has_returned |= !entry.exists;
                    entry.exists = !self.random.one_in(30);
                }
            }
        }
        let pause = self.random.millis(1, 2_000);
        thread::sleep(pause);
        self.start_ioc();
    }

    pub(super) fn restart_relay(&mut self) {
        self.say("the relay dies and comes back");
        *self.address.lock().unwrap() = None;
        self.waits.relay_ends();
        self.streams.waits.relay_ends();
        self.relay = None;
        let pause = self.random.millis(1, 500);
        thread::sleep(pause);
        self.start_relay();
    }

    pub(super) fn hang_ioc(&mut self) {
        let (name, begin) = ("the IOC hangs for a while", SystemTime::now());
        self.say(name);
        let ioc = self.ioc.as_ref().unwrap();
        ioc.hang();
        thread::sleep(self.random.millis(50, 1_500));
        ioc.resume();
        self.waits.add_window(name, begin, SystemTime::now());
    }

    /// The IOC, or the network to it, stalls while other things go on.
    pub(super) fn stall(&mut self, hangs: bool) {
        let begin = SystemTime::now();
        let name = if hangs {
            self.ioc.as_ref().unwrap().hang();
            "the IOC hangs for longer than any time-out"
        } else {
            self.wire.set(true);
            "the network to the IOC is cut for longer than any time-out"
        };
        self.say(name);
        let end = Instant::now() + STALL;
        while Instant::now() < end {
            // A relay that started now would not find the IOC for a long time.
            match self.random.below(if hangs { 3 } else { 8 }) {
                7 => self.change_rules(),
                0 => self.cut(),
                1 => self.hold_up(),
                2 => self.renew(),
                3 => self.switch(),
                4 => self.change_metadata(),
                _ => self.burst(),
            }
            let pause = self.random.millis(100, 1_000);
            thread::sleep(pause);
        }
        self.ioc.as_ref().unwrap().resume();
        self.wire.set(false);
        self.waits.add_window(name, begin, SystemTime::now());
    }

    /// Hostile clients attack for a while, beside whatever else happens.
    pub(super) fn attack(&mut self, kind: usize) {
        let relay = self.relay.as_ref().unwrap().address();
        let time = self.random.millis(500, 4_000);
        let begin = SystemTime::now();
        let (name, begin_attack) = attacks::ALL[kind];
        self.say(name);
        self.attacks.push(begin_attack(relay, time));
        self.waits.add_window(name, begin, begin + time);
    }

    /// Waits for the end of all attacks under way.
    pub(super) fn end_attacks(&mut self) {
        for attack in self.attacks.drain(..) {
            attack.end();
        }
        let relay = self.relay.as_ref().unwrap().address();
        eventually("the relay is live", || {
            // While it has few file descriptors left it ends connections at once.
            try_get(relay, "/live").is_some_and(|answer| answer.status == 200)
        });
    }

    pub(super) fn cut(&mut self) {
        self.say("a client is cut");
        let number = self.random.below(self.watchers.len() + self.doors.len());
        match number.checked_sub(self.watchers.len()) {
            None => self.watchers[number].order(Order::Cut),
            Some(number) => self.doors[number].order(door::Order::Cut),
        }
    }

    /// Some clients stop reading for a while, others stop acknowledging.
    pub(super) fn hold_up(&mut self) {
        self.say("some clients stall or fall silent");
        for watcher in &mut self.watchers {
            let time = self.random.millis(100, 3_000);
            match self.random.below(4) {
                0 => watcher.order(Order::Stall(time)),
                1 => watcher.order(Order::Mute(time)),
                _ => {}
            }
        }
        for door in &mut self.doors {
            let time = self.random.millis(100, 3_000);
            if self.random.one_in(3) {
                door.order(door::Order::Stall(time));
            }
        }
    }

    pub(super) fn renew(&mut self) {
        self.say("a client gives up some PVs and takes them again");
        let number = self.random.below(self.watchers.len() + self.doors.len());
        let random = &mut self.random;
        let mut some = |wanted: &[String]| {
            let names = wanted.iter().filter(|_| random.one_in(4));
            names.cloned().collect::<Vec<_>>()
        };
        match number.checked_sub(self.watchers.len()) {
            None => {
                let watcher = &mut self.watchers[number];
                watcher.order(Order::Renew(some(&watcher.wanted)));
            }
            Some(number) => {
                let door = &mut self.doors[number];
                door.order(door::Order::Renew(some(&door.wanted)));
            }
        }
    }

    pub(super) fn switch(&mut self) {
        self.say("access rights change");
        let switch = self.random.pick(&["switch", "curtain"]);
        let position = self.random.pick(&["0", "1"]);
        self.ioc.as_mut().unwrap().put(switch, position);
    }
}

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
