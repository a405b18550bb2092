//! Opens, writes and evaluates an engine's local PVs and formulas: `loc://x(1)` and `` =`A` * 2 ``.

use std::time::SystemTime;

use pvwire_schema::types::{Filter, Outcome, PutValue, ValueType};

use super::{Engine, Origin, PutDone, PutError, Pv, State, View};
use crate::formula::value::{Severity, Stamp, Value};
use crate::formula::wire::{self, MAX_SAFE_INTEGER};
use crate::formula::{self, Alarm, Context, Formula, Input, Link, Operand};
use crate::local::{self, Local, Locals};
use crate::store::{Slot, part};

/// The parts of its inputs that a formula reads.
const READ: u32 = part::VALUE | part::TIME | part::ALARM | part::METADATA | part::CONNECTION;

#[derive(Debug, Default)]
pub(super) struct Computed {
    locals: Locals,
    /// Slots of open local PVs, with the keys of their values.
    shown: Vec<(Slot, String)>,
    /// Formulas that are inputs of others come first.
    formulas: Vec<Linked>,
    context: Context,
}

/// An open formula and its inputs.
#[derive(Debug)]
struct Linked {
    slot: Slot,
    formula: Formula,
    inputs: Vec<Pv>,
    is_new: bool,
}

/// Whether the engine itself has the PV of this name.
pub(super) fn is_computed(name: &str) -> bool {
    formula::expression(name).is_some() || name.starts_with(local::SCHEME)
}

impl Engine {
    /// Sets the difference between local time and UTC, for the times in texts of formulas; zero by
    /// default.
    pub fn set_utc_offset_seconds(&mut self, seconds: i32) {
        self.computed.context.utc_offset_seconds = seconds;
    }

    /// Opens the PV if its name is a local PV or a formula. Returns where its values come from.
    pub(super) fn open_computed(
        &mut self,
        slot: Slot,
        name: &str,
        filter: Filter,
        now: SystemTime,
    ) -> Origin {
        if let Some(text) = formula::expression(name) {
            match Formula::parse(text) {
                Ok(formula) => self.link(slot, formula, filter, now),
                Err(error) => self.session.live.refuse(slot, &error.to_string()),
            }
            return Origin::Formula;
        }
        if !name.starts_with(local::SCHEME) {
            return Origin::Relay;
        }
        let opened = local::key(name).map(str::to_owned);
        match opened.and_then(|key| Ok((key, self.computed.locals.open(name)?.clone()))) {
            Ok((key, local)) => {
                self.computed.shown.push((slot, key));
                self.show_local(slot, local, now);
            }
            Err(error) => self.session.live.refuse(slot, &error.to_string()),
        }
        Origin::Local
    }

    /// Opens a formula's inputs. Cycles are impossible, because no text contains itself.
    fn link(&mut self, slot: Slot, formula: Formula, filter: Filter, now: SystemTime) {
        let context = &mut self.computed.context;
        context.now = stamp(now);
        context.random ^= u64::from(context.now.nanoseconds).rotate_left(32);
        let inputs = self.open(formula.inputs(), filter, now);
        let needs_relay = |pv: &Pv| self.pvs[pv.slot as usize].needs_relay;
        self.pvs[slot as usize].needs_relay = inputs.iter().any(needs_relay);
        self.computed.formulas.push(Linked {
            slot,
            formula,
            inputs,
            is_new: true,
        });
    }

    pub(super) fn close_computed(&mut self, slot: Slot) {
        self.computed.shown.retain(|(shown, _)| *shown != slot);
        let formulas = &mut self.computed.formulas;
        if let Some(at) = formulas.iter().position(|linked| linked.slot == slot) {
            let linked = formulas.remove(at);
            self.close(&linked.inputs);
        }
    }

    /// Writes a local PV, or refuses to write a formula; `None` for a PV of the relay.
    pub(super) fn put_computed(
        &mut self,
        name: &str,
        value: &PutValue,
        now: SystemTime,
    ) -> Option<Result<PutDone, PutError>> {
        let failed = |outcome, message| Some(Err(PutError::Failed { outcome, message }));
        if formula::expression(name).is_some() {
            let message = "a formula can't be written".to_owned();
            return failed(Outcome::NotAllowed, message);
        }
        if !name.starts_with(local::SCHEME) {
            return None;
        }
        let key = match local::key(name) {
            Ok(key) => key,
            Err(error) => return failed(Outcome::BadName, error.to_string()),
        };
        let local = match self.computed.locals.write(name, &wire::of_put(value)) {
            Ok(local) => local.clone(),
            Err(error) => return failed(Outcome::BadValue, error.to_string()),
        };
        let shown = self.computed.shown.iter();
        let slots = shown
            .filter(|(_, shown)| shown == key)
            .map(|(slot, _)| *slot);
        for slot in slots.collect::<Vec<_>>() {
            self.show_local(slot, local.clone(), now);
        }
        Some(Ok(PutDone::default()))
    }

    /// Evaluates the formulas whose inputs changed.
    pub(super) fn evaluate(&mut self) {
        let mut formulas = std::mem::take(&mut self.computed.formulas);
        for linked in &mut formulas {
            let pvs = &self.session.live.pvs;
            let changed = |pv: &Pv| pvs[pv.slot as usize].parts & READ != 0;
            if linked.is_new || linked.inputs.iter().any(changed) {
                linked.is_new = false;
                self.evaluate_one(linked);
            }
        }
        self.computed.formulas = formulas;
    }

    fn evaluate_one(&mut self, linked: &Linked) {
        let views: Vec<_> = (linked.inputs.iter())
            .filter_map(|pv| Some((pv.slot, self.read(*pv)?)))
            .collect();
        let inputs: Vec<_> = views.iter().map(|(_, view)| input(view)).collect();
        let links: Vec<_> = views.iter().map(|(_, view)| link(view)).collect();
        let leader = formula::leader(links.iter().map(Some)).and_then(|at| {
            let (slot, view) = views.get(at)?;
            Some((*slot, links.get(at)?.refusal(view.name())))
        });
        let result = linked.formula.evaluate(&inputs, &mut self.computed.context);
        let store = &mut self.session.live;
        match leader {
            Some((_, Some(reason))) if store.reason(linked.slot) == reason => {}
            Some((_, Some(reason))) => store.refuse(linked.slot, &reason),
            Some((slot, None)) => store.follow(linked.slot, slot, result.is_some()),
            None => {}
        }
        if let Some(result) = result {
            self.show(linked.slot, &result, false);
        }
    }

    fn show_local(&mut self, slot: Slot, local: Local, now: SystemTime) {
        let mut operand = local.operand();
        operand.time = stamp(now);
        self.show(slot, &operand, true);
    }

    /// Shows the value of a local PV, which is writable, or of a formula.
    fn show(&mut self, slot: Slot, operand: &Operand, writable: bool) {
        let mut choices: &[String] = &[];
        let value = match &operand.value {
            Value::Number(number) => PutValue::Number(*number),
            Value::Integer(integer) if integer.unsigned_abs() <= MAX_SAFE_INTEGER => {
                PutValue::Number(*integer as f64)
            }
            Value::Integer(integer) => PutValue::Int64(*integer),
            Value::Boolean(value) => PutValue::Number(f64::from(u8::from(*value))),
            Value::Text(text) => PutValue::Text(text.as_ref().to_owned()),
            Value::Enum { index, labels } => {
                choices = labels;
                PutValue::Number(f64::from(*index))
            }
            Value::Numbers(numbers) => {
                let array = wire::doubles(numbers);
                self.held.set_array(slot, array.clone());
                PutValue::Array(array)
            }
            Value::Texts(texts) => PutValue::TextArray(texts.to_vec()),
            Value::Table(labels) => {
                self.held.set_structure(slot, wire::table(labels));
                PutValue::Number(0.0)
            }
        };
        let message = operand.alarm.message.as_deref().unwrap_or_default();
        let shown = wire::shown(operand, writable);
        self.session
            .live
            .show(slot, &value, &shown, message, choices);
    }
}

/// A PV as an input of a formula.
pub(super) fn input(view: &View<'_>) -> Input {
    let Some(value) = view.value().filter(|_| is_connected(view)) else {
        return Input::Disconnected;
    };
    let display = view.metadata().map(|known| known.display);
    Input::Connected(Operand {
        value: operand(view, value),
        alarm: alarm(view),
        time: view
            .time()
            .map_or_else(Stamp::default, |time| stamp(time.time)),
        display: display.map_or((f64::NAN, f64::NAN), |limits| (limits.low, limits.high)),
    })
}

fn alarm(view: &View<'_>) -> Alarm {
    match view.alarm() {
        Some(alarm) => {
            let severity = Severity::from_number(alarm.severity.number());
            Alarm::new(severity, alarm.status, alarm.message)
        }
        // Its status says whether it is undefined or not sent.
        None => Alarm::new(Severity::Undefined, view.pv_state().alarm_status, ""),
    }
}

/// Whether a formula computes with the PV's value; that of a silent server may be outdated.
fn is_connected(view: &View<'_>) -> bool {
    matches!(view.state(), State::Connected | State::Unresponsive)
}

fn operand(view: &View<'_>, value: super::Value<'_>) -> Value {
    let metadata = view.metadata();
    let value_type = metadata.map_or(ValueType::Unknown, |known| known.value_type);
    let choices = metadata.map_or(&[][..], |known| &known.choices);
    match value {
        super::Value::Number(number) => wire::of_number(number, value_type, choices),
        super::Value::Integer(integer) => wire::of_integer(integer),
        super::Value::Text(text) => Value::text(text),
        super::Value::Texts(texts) => Value::Texts(texts.into()),
        super::Value::Array(array) => {
            // NAME.FIELD$ is EPICS's way to request a long string.
            let is_text = metadata.is_some_and(|known| known.form == "String");
            wire::of_array(array, is_text || view.name().ends_with('$'))
        }
        // A structure is not a number.
        super::Value::Structure(_) | super::Value::Unknown => Value::Number(f64::NAN),
    }
}

pub(super) fn link(view: &View<'_>) -> Link<SystemTime> {
    match view.state() {
        State::Refused(reason) => Link::Refused(reason.to_owned()),
        _ if is_connected(view) => Link::Connected {
            is_silent: view.is_server_silent(),
            since: view.since(),
        },
        _ => Link::Gone,
    }
}

fn stamp(time: SystemTime) -> Stamp {
    const SECOND_NS: i128 = 1_000_000_000;
    let ns = match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    };
    Stamp {
        seconds: ns.div_euclid(SECOND_NS) as i64,
        nanoseconds: ns.rem_euclid(SECOND_NS) as u32,
    }
}
