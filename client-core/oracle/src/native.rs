//! Runs the engine without a relay: events become frames, and results are read from its store.

use std::collections::BTreeMap;

use pvwire_core::ingest::Session;
use pvwire_core::select::execute::{Held, Program, SlotPv, Surroundings, Value, settled, value};
use pvwire_core::store::Slot;
use pvwire_schema::encode::FrameEncoder;
use pvwire_schema::types::{
    Array, Filter, FrameKind, Hello, NameError, NameProblem, Outcome, PutValue, PvId, Reply,
    ValueType,
};
use serde_json::{Map, Value as Json, json};

use crate::elements::{plain, typed};
use crate::frames::{self, Sent};
use crate::state::changes;

/// What a host passes to its session.
pub enum Input {
    /// The relay's message. The first one is its Hello, after which the PVs are subscribed.
    Frame(Vec<u8>),
    /// The PV to which a put is sent; its outcome follows.
    Put(String),
    /// The relay stops responding; when it was last heard from.
    Silent(f64),
    /// The connection is lost; when, and when the relay was last heard from.
    Lost(f64, f64),
}

/// The engine and the relay of a case.
pub struct Native {
    /// What the session received.
    pub inputs: Vec<Input>,
    session: Session,
    held: Held,
    slots: BTreeMap<String, Slot>,
    sent: BTreeMap<String, (PvId, Sent)>,
    tick: u64,
    relay_heard_ms: f64,
}

impl Native {
    /// Subscribes PVs whose state is that of the first event.
    pub fn new(user: &str, names: &[&str], first: &Json) -> Self {
        let mut native = Self {
            inputs: Vec::new(),
            session: Session::new(),
            held: Held::new(),
            slots: BTreeMap::new(),
            sent: BTreeMap::new(),
            tick: 1,
            relay_heard_ms: f64::NAN,
        };
        let hello = Hello {
            relay_version: "oracle".to_owned(),
            relay_instance: 1,
            max_request_bytes: 1 << 20,
            max_subscriptions: 100,
            ack_interval_ms: 250,
            not_found_after_ms: 5000,
            authenticate: false,
            user: user.to_owned(),
            expires_in_ms: 0,
            relays: Vec::new(),
            crowded: false,
        };
        native.frame(FrameKind::Answer, |encoder| {
            encoder.reply(0, &Reply::Hello(hello.clone()))
        });
        for name in names {
            let slot = native.session.live.add(name);
            native.slots.insert((*name).to_owned(), slot);
        }
        let slots: Vec<Slot> = names.iter().map(|name| native.slots[*name]).collect();
        native.session.subscribe(&slots, Filter::default());
        let request = native.session.last_request();
        let mut errors = Vec::new();
        let mut ids = Vec::new();
        for (index, name) in names.iter().enumerate() {
            if let Some(reason) = first[*name]["refused"].as_str() {
                ids.push(PvId::NONE);
                errors.push(NameError {
                    index: index as u32,
                    problem: NameProblem::BadName,
                    message: reason.to_owned(),
                });
            } else {
                ids.push(native.id(name));
            }
        }
        let reply = Reply::Subscribed { ids, errors };
        native.change_as(FrameKind::Snapshot, first, |encoder| {
            encoder.reply(request, &reply)
        });
        native
    }

    fn id(&mut self, name: &str) -> PvId {
        let next = PvId(self.sent.len() as u32 + 1);
        let entry = self.sent.entry(name.to_owned());
        entry.or_insert_with(|| (next, Sent::default())).0
    }

    fn frame(&mut self, kind: FrameKind, fill: impl FnOnce(&mut FrameEncoder)) {
        let mut encoder = FrameEncoder::new();
        encoder.begin(kind, self.tick, self.tick - 1);
        fill(&mut encoder);
        let bytes = encoder.finish().to_vec();
        let applied = self.session.apply(&bytes).expect("a frame");
        assert!(!applied.gap);
        self.held.keep(&bytes, &self.session.arrays);
        self.inputs.push(Input::Frame(bytes));
        self.relay_heard_ms = f64::NAN;
    }

    fn change_as(&mut self, kind: FrameKind, event: &Json, reply: impl FnOnce(&mut FrameEncoder)) {
        let names: Vec<String> = changes(event).map(|(name, _)| name.clone()).collect();
        for name in &names {
            self.id(name);
        }
        self.tick += 1;
        let (_, cause) = frames::kind_of(event);
        let mut sent = std::mem::take(&mut self.sent);
        self.frame(kind, |encoder| {
            encoder.skip_cause(cause);
            for (name, parts) in changes(event) {
                let (id, sent) = sent.get_mut(name).expect("an id");
                if parts.get("refused").is_none() {
                    frames::add(encoder, *id, kind, parts, sent);
                }
            }
            reply(encoder);
        });
        self.sent = sent;
    }

    /// Applies a later event.
    pub fn change(&mut self, event: &Json) {
        let (kind, _) = frames::kind_of(event);
        if changes(event).next().is_some() {
            self.change_as(kind, event, |_| {});
        }
        for (name, parts) in changes(event) {
            if let Some(outcome) = parts["put"].as_str() {
                self.put(name, outcome == "done");
            }
        }
        let relay = &event["$relay"];
        if relay.is_object() {
            self.tick += 1;
            self.frame(FrameKind::Update, |_| {});
        }
        if let Some(ms) = relay["silentSinceMs"].as_f64() {
            self.relay_heard_ms = ms;
            self.inputs.push(Input::Silent(ms));
        }
        if let Some(lost_ms) = relay["lostMs"].as_f64() {
            let heard_ms = relay["heardMs"].as_f64().unwrap_or(f64::NAN);
            self.session.relay_lost(lost_ms, heard_ms);
            self.inputs.push(Input::Lost(lost_ms, heard_ms));
        }
    }

    fn put(&mut self, name: &str, is_done: bool) {
        let staged = self
            .session
            .stage_put(name.to_owned(), PutValue::Number(1.0), false, 0, None);
        staged.expect("a put");
        self.session.put(false, false);
        self.inputs.push(Input::Put(name.to_owned()));
        let (outcome, message) = match is_done {
            true => (Outcome::Done, ""),
            false => (Outcome::NoAccess, "the server gives no write access"),
        };
        let request = self.session.last_request();
        let message = message.to_owned();
        self.frame(FrameKind::Answer, |encoder| {
            encoder.reply(request, &Reply::PutDone { outcome, message });
        });
    }

    /// The result of a program for a PV.
    pub fn read(&self, program: &Program, name: &str) -> Json {
        let slot = self.slots[name];
        let surroundings = self.surroundings(slot);
        tagged(&value(
            program,
            &SlotPv::new(&self.session.live, slot, surroundings),
        ))
    }

    fn surroundings(&self, slot: Slot) -> Surroundings<'_> {
        Surroundings {
            heard_ms: self.relay_heard_ms,
            elements: self.held.elements(slot),
        }
    }

    /// A PV as documents read it.
    pub fn pv(&self, name: &str) -> SlotPv<'_> {
        let slot = self.slots[name];
        SlotPv::new(&self.session.live, slot, self.surroundings(slot))
    }

    /// Whether the PV has enough data for a first result.
    pub fn is_settled(&self, name: &str) -> bool {
        settled(&self.session.live, self.slots[name])
    }
}

/// A result in the notation of the vectors.
fn tagged(of: &Value) -> Json {
    match of {
        Value::Null => Json::Null,
        Value::Boolean(flag) => (*flag).into(),
        Value::Number(number) => plain(*number),
        Value::Integer(integer) => json!({ "$bigint": integer.to_string() }),
        Value::Text(text) => text.clone().into(),
        Value::List(list) => list.iter().map(tagged).collect(),
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .map(|(key, value)| (key.clone(), tagged(value)));
            Json::Object(fields.collect::<Map<_, _>>())
        }
        Value::Array(of) => array(of),
    }
}

/// An array in the notation of the vectors.
pub(crate) fn array(of: &Array) -> Json {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let elements: Vec<Json> = match of.value_type {
        ValueType::Int64 => {
            let words = of.data.chunks(8).map(|bytes| word(bytes) as i64);
            words.map(|integer| integer.to_string().into()).collect()
        }
        ValueType::UInt64 => {
            let words = of.data.chunks(8).map(word);
            words.map(|integer| integer.to_string().into()).collect()
        }
        _ => (of.numbers().into_iter())
            .map(|number| match plain(number) {
                Json::Object(special) => special["$number"].clone(),
                plain => plain,
            })
            .collect(),
    };
    typed(&format!("{:?}", of.value_type), &elements)
}
