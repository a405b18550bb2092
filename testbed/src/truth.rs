//! Compares a client's PVs with the answers of an independent Channel Access client.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

use pvwire_schema::types::{Alarm, ConnectionState, Limits, Metadata, Severity, ValueType};
use serde_json::Value;

use super::{Client, DEADLINE, Kept, Network, Pv, in_repository, python};

/// Start of the EPICS epoch, 1990-01-01 UTC, in nanoseconds past the POSIX epoch.
const EPICS_EPOCH_NS: i64 = 631_152_000_000_000_000;

/// Everything that Channel Access knows of a connected PV.
#[derive(Clone, Debug)]
pub struct Told {
    pub value: Kept,
    pub alarm: Alarm,
    pub time_ns: i64,
    /// Without what Channel Access doesn't tell: the epoch, and the description unless it was asked
    /// for.
    pub metadata: Metadata,
    /// The description was asked for, and is compared.
    pub is_described: bool,
    pub read: bool,
    pub write: bool,
}

/// The state of some PVs in their IOC at one moment, by name; `None` if no IOC answers.
#[derive(Clone, Debug)]
pub struct Truth(BTreeMap<String, Option<Told>>);

impl Truth {
    /// Asks `tools/truth.py`, which makes a new client for each call.
    pub fn ask(network: Network, names: &[impl AsRef<str>]) -> Self {
        Self::get(network, names, &["get"])
    }

    /// The same with the description of each record, which clients must have asked for.
    pub fn ask_described(network: Network, names: &[impl AsRef<str>]) -> Self {
        Self::get(network, names, &["get", "--describe"])
    }

    fn get(network: Network, names: &[impl AsRef<str>], arguments: &[&str]) -> Self {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        let answer = run(network, arguments, &names.join("\n"));
        let pvs = answer.as_object().unwrap().iter();
        let told = |told: &Value| (!told.is_null()).then(|| Told::read(told));
        Self(pvs.map(|(name, of)| (name.clone(), told(of))).collect())
    }

    /// Writes through Channel Access as text and waits for the answers; returns the errors.
    pub fn put(network: Network, pairs: &[(&str, &str)]) -> Vec<String> {
        let mut arguments = vec!["put"];
        arguments.extend(pairs.iter().flat_map(|(name, value)| [name, value]));
        let answer = run(network, &arguments, "");
        let errors = answer.as_object().unwrap().iter();
        let errors = errors.filter(|(_, error)| !error.is_null());
        errors
            .map(|(name, error)| format!("{name}: {error}"))
            .collect()
    }

    /// What is known of a PV; `None` if no IOC answers.
    pub fn told(&self, name: &str) -> Option<&Told> {
        self.0[name].as_ref()
    }

    /// What is known of a PV that must be connected.
    pub fn of(&self, name: &str) -> &Told {
        self.told(name)
            .unwrap_or_else(|| panic!("no IOC answers for {name}"))
    }

    /// Every field in which a client differs, of the PVs that it holds.
    pub fn differences<'a>(
        &self,
        pv_of: impl Fn(&str) -> Option<&'a Pv>,
    ) -> BTreeMap<String, Vec<String>> {
        let held = self.0.iter().filter_map(|(name, told)| {
            let differences = match told {
                Some(told) => told.differences(pv_of(name)?),
                None => undue_connection(pv_of(name)?),
            };
            Some((name.clone(), differences))
        });
        held.filter(|(_, differences)| !differences.is_empty())
            .collect()
    }

    /// Reads until the client differs in nothing.
    pub fn wait_equal(&self, client: &mut Client) {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let differences = self.differences(|name| Some(client.pv(name)));
            if differences.is_empty() {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "the client differs from the truth: {differences:#?}"
            );
            client.read_for_a_moment();
        }
    }
}

impl Told {
    fn read(told: &Value) -> Self {
        assert!(told.get("error").is_none(), "{told}");
        let flag = |of: &str| told[of].as_bool().unwrap();
        if !flag("read") {
            return Self::unreadable(told);
        }
        let value_type = value_type(text(told, "type"));
        let limits = |of: &str| Limits {
            low: number(&told[of][0]),
            high: number(&told[of][1]),
        };
        let texts = |of: &Value| -> Vec<String> {
            let texts = of.as_array().unwrap().iter();
            texts.map(|text| text.as_str().unwrap().into()).collect()
        };
        let value = match (value_type, &told["value"]) {
            (ValueType::String, value @ Value::Array(_)) => Kept::Texts(texts(value)),
            (ValueType::String, _) => Kept::text(text(told, "value")),
            (_, Value::Array(elements)) => {
                let bytes = elements
                    .iter()
                    .map(|each| element(value_type, number(each)));
                Kept::Array(value_type, bytes.flatten().collect())
            }
            (_, value) => Kept::Number(number(value)),
        };
        let integer = |of: &str| told[of].as_i64().unwrap();
        let description = told.get("description").and_then(Value::as_str);
        let severity = u8::try_from(integer("severity")).unwrap();
        Self {
            value,
            alarm: Alarm {
                severity: Severity::from_number(severity),
                status: u16::try_from(integer("status")).unwrap(),
            },
            // A record that was never processed has the start of the EPICS epoch, which is no time.
            time_ns: Some(integer("time_ns"))
                .filter(|ns| *ns != EPICS_EPOCH_NS)
                .unwrap_or(0),
            metadata: Metadata {
                value_type,
                element_count: u32::try_from(integer("element_count")).unwrap(),
                units: text(told, "units").to_owned(),
                precision: told["precision"].as_i64().map(|digits| digits as i16),
                choices: texts(&told["choices"]),
                display: limits("display"),
                control: limits("control"),
                warning: limits("warning"),
                alarm: limits("alarm"),
                description: description.unwrap_or_default().to_owned(),
                ..Metadata::default()
            },
            is_described: description.is_some(),
            read: true,
            write: flag("write"),
        }
    }

    /// Of a PV without read access only the type and the rights are known.
    fn unreadable(told: &Value) -> Self {
        Self {
            value: Kept::text(""),
            alarm: Alarm {
                severity: Severity::NoAlarm,
                status: 0,
            },
            time_ns: 0,
            metadata: Metadata {
                value_type: value_type(text(told, "type")),
                element_count: u32::try_from(told["element_count"].as_u64().unwrap()).unwrap(),
                ..Metadata::default()
            },
            // Clients without read access get no description, whether or not they asked for it.
            is_described: true,
            read: false,
            write: told["write"].as_bool().unwrap(),
        }
    }

    /// Every field in which a client differs.
    pub fn differences(&self, pv: &Pv) -> Vec<String> {
        let mut found = Differences::default();
        let state = pv.connection.map(|connection| connection.state);
        found.unless_equal("connection", &state, &Some(ConnectionState::Connected));
        let rights = pv
            .connection
            .map(|connection| (connection.read, connection.write));
        found.unless_equal("access", &rights, &Some((self.read, self.write)));
        if state == Some(ConnectionState::Connected) {
            let heard = pv.connection.map(|connection| connection.heard_ns);
            found.unless_equal("no news since", &heard, &Some(0));
        }
        match &pv.metadata {
            None => found.unless_equal("metadata", &None, &Some(&self.metadata)),
            Some(seen) => {
                let truth = &self.metadata;
                found.unless_equal("type", &seen.value_type, &truth.value_type);
                found.unless_equal("elements", &seen.element_count, &truth.element_count);
                found.unless_equal("units", &seen.units, &truth.units);
                found.unless_equal("precision", &seen.precision, &truth.precision);
                found.unless_equal("choices", &seen.choices, &truth.choices);
                found.unless_equal("display limits", &seen.display, &truth.display);
                found.unless_equal("control limits", &seen.control, &truth.control);
                found.unless_equal("warning limits", &seen.warning, &truth.warning);
                found.unless_equal("alarm limits", &seen.alarm, &truth.alarm);
                if self.is_described {
                    let (seen, truth) = (&seen.description, &truth.description);
                    found.unless_equal("description", seen, truth);
                }
            }
        }
        match &pv.now {
            Some(seen) if !self.read => found.add("value", &seen.value, &"no read access"),
            None if !self.read => {}
            None => found.unless_equal("value", &None, &Some(&self.value)),
            Some(seen) => {
                if !same_value(&seen.value, &self.value) {
                    found.add("value", &seen.value, &self.value);
                }
                found.unless_equal("severity", &seen.alarm.severity, &self.alarm.severity);
                found.unless_equal("status", &seen.alarm.status, &self.alarm.status);
                found.unless_equal("time stamp", &seen.time_ns, &self.time_ns);
            }
        }
        found.0
    }
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn add(&mut self, field: &str, seen: &impl Debug, truth: &impl Debug) {
        self.0.push(format!("{field}: {seen:?}, truth: {truth:?}"));
    }

    fn unless_equal<T: Debug + PartialEq>(&mut self, field: &str, seen: &T, truth: &T) {
        if seen != truth {
            self.add(field, seen, truth);
        }
    }
}

/// NaN is NaN here, and zero isn't minus zero.
fn same_value(a: &Kept, b: &Kept) -> bool {
    let same = |a: f64, b: f64| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
    match (a, b) {
        (Kept::Number(a), Kept::Number(b)) => same(*a, *b),
        (a, b) => a == b,
    }
}

fn undue_connection(pv: &Pv) -> Vec<String> {
    let state = pv.connection.map(|connection| connection.state);
    match state {
        Some(ConnectionState::Connected) | None => {
            vec![format!("connection: {state:?}, truth: no IOC answers")]
        }
        Some(_) => Vec::new(),
    }
}

fn text<'a>(told: &'a Value, of: &str) -> &'a str {
    told[of].as_str().unwrap()
}

fn number(of: &Value) -> f64 {
    of.as_str().unwrap().parse().unwrap()
}

fn value_type(name: &str) -> ValueType {
    let mut all = ValueType::ALL.iter().copied();
    all.find(|value_type| format!("{value_type:?}") == name)
        .unwrap()
}

/// A number as the element of an array; each is whole where its type is.
fn element(value_type: ValueType, number: f64) -> Vec<u8> {
    match value_type {
        ValueType::UInt8 => vec![number as u8],
        ValueType::Int16 => (number as i16).to_le_bytes().to_vec(),
        ValueType::Enum => (number as u16).to_le_bytes().to_vec(),
        ValueType::Int32 => (number as i32).to_le_bytes().to_vec(),
        ValueType::Float32 => (number as f32).to_le_bytes().to_vec(),
        ValueType::Float64 => number.to_le_bytes().to_vec(),
        other => panic!("Channel Access has no {other:?}"),
    }
}

fn run(network: Network, arguments: &[&str], input: &str) -> Value {
    let script = in_repository("tools/truth.py");
    let mut command = Command::new(python());
    network.apply(&mut command);
    command.arg(script).args(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut names = process.stdin.take().unwrap();
    names.write_all(input.as_bytes()).unwrap();
    drop(names);
    let Output { stdout, stderr, .. } = process.wait_with_output().unwrap();
    serde_json::from_slice(&stdout)
        .unwrap_or_else(|error| panic!("{error}:\n{}", String::from_utf8_lossy(&stderr)))
}
