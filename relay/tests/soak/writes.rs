//! What changes in the IOC: bursts of updates, metadata and puts of another client, which process its records. And the
//! relay's rules, which deny some PVs for a while.

use std::collections::HashMap;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, SystemTime};

use testbed::random::Random;
use testbed::records::{ANALOG, CHOICES, TEXTS, analog_value};
use testbed::{Client, How, Truth, eventually, file};

use super::fleet::Fleet;
use super::watcher::Order;
use super::{World, door};

/// Longer than the updates of a burst are on their way.
const PAUSE: Duration = Duration::from_secs(1);

/// A kind of update that every run has.
pub(super) const CROSSED: &str = "a 64-bit PV crosses 2^53";

impl World {
    pub(super) fn change_metadata(&mut self) {
        self.say("metadata changes");
        let mut puts = Vec::new();
        for _ in 0..self.random.below(20) + 1 {
            let number = self.random.below(self.entries.len());
            let text = format!("{}", self.random.below(100));
            let (random, entry) = (&mut self.random, &mut self.entries[number]);
            let field = match entry.kind {
                kind if ANALOG.contains(&kind) => {
                    let fields = ["EGU", "HOPR", "LOPR", "HIHI", "HIGH", "LOW", "LOLO", "PREC"];
                    let whole = usize::from(!["ai", "ao", "calc"].contains(&kind));
                    random.pick(&fields[..fields.len() - whole])
                }
                "bi" | "bo" => random.pick(&["ZNAM", "ONAM"]),
                "mbbi" | "mbbo" => random.pick(&["ZRST", "ONST", "TWST", "THST"]),
                kind if TEXTS.contains(&kind) => continue,
                "STRING" | "ENUM" | "one text of one" => continue,
                _ => random.pick(&["EGU", "HOPR", "PREC"]),
            };
            let value = match field {
                // A label that is a number would be taken for an index.
                _ if CHOICES.contains(&entry.kind) => format!("label {text}"),
                "PREC" => format!("{}", random.below(15)),
                _ => text,
            };
            puts.push((format!("{}.{field}", entry.name), value.into_bytes()));
            // The field may have processed the record, whose stamp moves on without an event.
            if CHOICES.contains(&entry.kind) {
                puts.push(process(random, entry));
            }
        }
        self.write(&puts);
    }

    pub(super) fn burst(&mut self) {
        self.say("a burst of updates");
        let mut puts = Vec::new();
        for _ in 0..self.random.below(800) + 1 {
            let number = self.random.below(self.entries.len());
            let (random, entry) = (&mut self.random, &mut self.entries[number]);
            let has_no_alarm = !ANALOG.contains(&entry.kind) && !CHOICES.contains(&entry.kind);
            if has_no_alarm && random.one_in(3) {
                // The alarm of what has no limits comes from its simulation mode.
                let on = random.pick(&["YES", "NO"]).as_bytes().to_vec();
                puts.push((format!("{}.SIMM", entry.name), on));
            }
            puts.push(process(random, entry));
        }
        self.write(&puts);
        if let Some(makers) = &mut self.makers {
            let crossed = makers.post(&mut self.random);
            *self.done.entry(CROSSED).or_default() += crossed;
        }
        if self.random.one_in(4) {
            self.healthy.change_arrays(&mut self.random);
        }
    }

    /// Writes fields in the IOC, one after the other, soon.
    pub(super) fn write(&mut self, puts: &[(String, Vec<u8>)]) {
        let exists: HashMap<&str, bool> = self
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.exists))
            .collect();
        let mut pairs = String::new();
        for (field, value) in puts {
            let name = field.split('.').next().unwrap();
            if exists[name] {
                let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
                pairs += &format!("('{field}','{hex}'),");
            }
        }
        self.ioc.as_mut().unwrap().run(&format!(
            "from epicscorelibs.ioc import dbCore
for field, value in [{pairs}]: dbCore.dbpf(field.encode(), bytes.fromhex(value))"
        ));
    }

    /// Updates each text, array and mbbo once more, after a pause.
    ///
    /// The IOC queues no copies of these. When a second update follows before the first was sent,
    /// monitors get the second value with the first one's alarm and time stamp, and nothing more; a
    /// get then returns something that no monitor has seen.
    pub(super) fn last_words(&mut self) {
        let mut puts = Vec::new();
        for entry in &mut self.entries {
            if !has_copies(entry.kind) {
                puts.push(process(&mut self.random, entry));
            }
        }
        let ioc = self.ioc.as_mut().unwrap();
        ioc.run("import time\ntime.sleep(1)");
        self.write(&puts);
        if let Some(makers) = &mut self.makers {
            thread::sleep(PAUSE);
            makers.last_words(&mut self.random);
        }
    }

    pub(super) fn put(&mut self) {
        self.say("another client puts");
        let mut pairs = Vec::new();
        for _ in 0..self.random.below(5) + 1 {
            let number = self.random.below(self.entries.len());
            let (random, entry) = (&mut self.random, &self.entries[number]);
            let name = entry.name.clone();
            if TEXTS.contains(&entry.kind) {
                pairs.push((name, format!("put {}", random.below(1000))));
            } else if ANALOG.contains(&entry.kind) && entry.kind != "calc" {
                pairs.push((name, analog_value(random.below(1000) as u32, true)));
            }
        }
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        if !pairs.is_empty() {
            // Access rights and missing records may rightly refuse it.
            Truth::put(self.network, &pairs);
        }
    }
}

/// One record of the IOC, as it is since the IOC's last start.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) variant: u32,
    /// The IOC may restart without it.
    pub(super) exists: bool,
    /// Of a choice the index that was written last: only a different one posts an event.
    pub(super) choice: u32,
}

impl Entry {
    /// The PV to subscribe; some long strings with their whole text.
    pub(super) fn pv(&self) -> String {
        match self.kind {
            "lso" => format!("{}.VAL$", self.name),
            _ => self.name.clone(),
        }
    }
}

/// Whether the IOC queues copies of the updates of a record of this kind.
pub(super) fn has_copies(kind: &str) -> bool {
    ANALOG.contains(&kind) || ["bi", "bo", "mbbi"].contains(&kind)
}

/// A record's DESC: empty, short, or the full 40 bytes.
pub(super) fn description(number: usize, variant: u32) -> String {
    match variant % 5 {
        0 => String::new(),
        1 => format!("{number:02} of {variant:03} has 40 bytes, all that can fit"),
        2 => format!("gap {number} in µm, {variant}"),
        _ => format!("record {number}, {variant}"),
    }
}

/// The put that processes a record so that it posts an event.
pub(super) fn process(random: &mut Random, entry: &mut Entry) -> (String, Vec<u8>) {
    let number = random.below(1000) as u32;
    let few = |random: &mut Random, most: usize, element: &dyn Fn(usize) -> String| {
        let elements: Vec<String> = (0..random.below(most + 1)).map(element).collect();
        format!("[{}]", elements.join(","))
    };
    let kind = entry.kind;
    let (field, value) = match kind {
        "calc" => (".A", analog_value(number, false)),
        "ai" | "ao" => ("", analog_value(number, false)),
        "longin" | "longout" | "int64out" => ("", analog_value(number, true)),
        kind if CHOICES.contains(&kind) => {
            let choices = if kind.starts_with("mb") { 3 } else { 2 };
            entry.choice = (entry.choice + 1 + number % (choices - 1)) % choices;
            ("", entry.choice.to_string())
        }
        "lsi" | "lso" => ("", "long ".repeat(random.below(600))),
        kind if TEXTS.contains(&kind) => ("", format!("text {number}")),
        "STRING" => ("", few(random, 4, &|at| format!("\"t{number} {at}\""))),
        "one of one" => ("", format!("{number}.5")),
        "one text of one" => ("", format!("alone {number}")),
        "DOUBLE" => ("", few(random, 400, &|at| format!("{}.5", at * 7))),
        "CHAR" => (
            "",
            few(random, 5, &|at| format!("{}", number as usize % 100 + at)),
        ),
        _ => (
            "",
            few(random, 4, &|at| format!("{}", number as usize % 250 + at)),
        ),
    };
    (format!("{}{field}", entry.name), value.into_bytes())
}

/// The relay has read and applied changed rules within this time.
const TAKES_EFFECT: Duration = Duration::from_secs(3);

/// The file with the rules, which the relay reads again when it changes.
pub(super) struct RulesFile {
    pub(super) path: PathBuf,
    /// A PV that may not be read now.
    denied: Option<String>,
    /// A PV was denied since everything was last allowed, so clients may lack it.
    was_denied: bool,
}

impl RulesFile {
    pub(super) fn new(prefix: &str) -> Self {
        let name = format!("{}.soak.toml", prefix.replace(':', ""));
        Self {
            path: file(&name, &text(None)),
            denied: None,
            was_denied: false,
        }
    }

    fn deny(&mut self, denied: Option<String>) {
        // Replaced atomically: the relay never sees half a file.
        let next = self.path.with_extension("next");
        std::fs::write(&next, text(denied.as_deref())).unwrap();
        std::fs::rename(next, &self.path).unwrap();
        self.was_denied |= denied.is_some();
        self.denied = denied;
    }
}

/// There is always a rule: the relay refuses a file that has lost its last one.
fn text(denied: Option<&str>) -> String {
    let deny = denied.map(|name| format!("[[rule]]\npv = '{name}'\ndeny = 'read'\n"));
    deny.unwrap_or_default() + "[[rule]]\npv = '*'\nallow = 'read'\n"
}

impl World {
    /// A PV and its fields may not be read any more, or may be read again.
    pub(super) fn change_rules(&mut self) {
        let (name, begin) = ("the rules change", SystemTime::now());
        self.say(name);
        self.waits.add_window(name, begin, begin + TAKES_EFFECT);
        let number = self.random.below(self.entries.len());
        let is_denied = self.rules.denied.is_some();
        let denied = (!is_denied).then(|| self.entries[number].name.clone());
        self.rules.deny(denied);
    }

    /// All PVs may be read again, and every client that lost one subscribes again.
    pub(super) fn open_rules(&mut self) {
        if !std::mem::take(&mut self.rules.was_denied) {
            return;
        }
        self.say("the rules allow everything");
        self.rules.deny(None);
        let names: Vec<String> = self
            .entries
            .iter()
            .map(|entry| entry.name.clone())
            .collect();
        let relay = self.relay.as_ref().unwrap().address();
        let second = self.fleet.as_ref().and_then(Fleet::second_address);
        for relay in [relay].into_iter().chain(second) {
            eventually("the rules allow everything", || {
                // For a moment an attack may have left too few file descriptors.
                let client = Client::try_connect(relay, How::default());
                client.is_some_and(|mut client| client.subscribe(&names).is_empty())
            });
        }
        for watcher in &mut self.watchers {
            watcher.order(Order::Cut);
        }
        for door in &mut self.doors {
            door.order(door::Order::Cut);
        }
    }
}
