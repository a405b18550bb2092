//! The records of the soft IOC, and the puts that process them.

use testbed::random::Random;
use testbed::records::{ANALOG, CHOICES, TEXTS, analog_value};

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
