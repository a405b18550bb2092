//! What changes in the IOC: bursts of updates, metadata and puts of another client.

use std::collections::HashMap;
use std::thread;
use std::time::Duration;

use super::World;
use super::entry::{has_copies, process};
use testbed::Truth;
use testbed::records::{ANALOG, CHOICES, TEXTS, analog_value};

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
