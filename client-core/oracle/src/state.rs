//! The state of a PV as a client knows it, and how events change it; `tests/vectors/README.md`
//! describes the events.

use serde_json::Value as Json;

use crate::elements::content;

/// What a client knows of one PV.
#[derive(Clone, Debug)]
pub(crate) struct Pv {
    pub(crate) name: String,
    pub(crate) metadata: Option<Json>,
    pub(crate) value: Option<Json>,
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: i64,
    pub(crate) user_tag: i64,
    /// Severity and status.
    pub(crate) alarm: Option<(String, i64)>,
    pub(crate) message: String,
    pub(crate) state: String,
    pub(crate) since_ms: Option<i64>,
    pub(crate) heard_ms: Option<i64>,
    pub(crate) read: bool,
    pub(crate) write: bool,
    pub(crate) puts: bool,
    pub(crate) write_unknown: bool,
    /// The outcome of a put of this client.
    pub(crate) put: Option<bool>,
    pub(crate) reason: String,
    /// No value within the time-out of a Get.
    pub(crate) missing: Option<String>,
    /// Behind, paced, filter, relay, source, bus.
    pub(crate) skips: [f64; 6],
    /// When the relay was last heard from while it doesn't respond.
    pub(crate) relay_heard_ms: Option<i64>,
    is_user: bool,
    /// The last time and alarm that an event gave.
    given_tag: i64,
    given_message: String,
}

pub(crate) const CAUSES: [&str; 6] = ["behind", "paced", "filter", "relay", "source", "bus"];

impl Pv {
    pub(crate) fn new(name: &str, user: &str) -> Self {
        Self {
            name: name.to_owned(),
            metadata: None,
            value: None,
            seconds: 0,
            nanoseconds: 0,
            user_tag: 0,
            alarm: None,
            message: String::new(),
            state: "connecting".to_owned(),
            since_ms: None,
            heard_ms: None,
            read: false,
            write: false,
            puts: false,
            write_unknown: false,
            put: None,
            reason: String::new(),
            missing: None,
            skips: [0.0; 6],
            relay_heard_ms: None,
            is_user: !user.is_empty(),
            given_tag: 0,
            given_message: String::new(),
        }
    }

    /// Applies the parts of one event. The first event is the state at the time of subscribing.
    pub(crate) fn change(&mut self, parts: &Json, is_first: bool) {
        self.relay_heard_ms = None;
        if let Some(reason) = parts["refused"].as_str() {
            self.state = "refused".to_owned();
            self.since_ms = None;
            self.reason = reason.to_owned();
            return;
        }
        self.missing = parts["missing"].as_str().map(str::to_owned);
        if parts.get("metadata").is_some() {
            self.set_metadata(&parts["metadata"]);
        }
        if parts.get("connection").is_some() {
            self.set_connection(&parts["connection"]);
        }
        self.update(parts, is_first);
        match parts["put"].as_str() {
            Some("done") => self.put = Some(true),
            Some(_) => self.put = Some(false),
            None => {}
        }
    }

    fn set_metadata(&mut self, metadata: &Json) {
        if let Some(before) = &self.metadata {
            let type_of = |of: &Json| of["type"].as_str().unwrap_or("Unknown").to_owned();
            let epoch = |of: &Json| of["epoch"].as_u64().unwrap_or(0);
            let is_retyped = type_of(before) != "Unknown" && type_of(before) != type_of(metadata);
            if is_retyped || epoch(before) != epoch(metadata) {
                self.value = None;
                self.alarm = None;
                self.message.clear();
                self.user_tag = 0;
            }
        }
        self.metadata = Some(metadata.clone());
    }

    fn set_connection(&mut self, of: &Json) {
        let flag = |name: &str| of[name].as_bool();
        let before = self.said();
        self.state = of["state"].as_str().expect("a state").to_owned();
        self.since_ms = Some(of["sinceMs"].as_i64().unwrap_or(0));
        self.heard_ms = of["heardMs"].as_i64().filter(|ms| *ms != 0);
        self.read = flag("read").unwrap_or(true);
        self.write = flag("write").unwrap_or(true);
        self.puts = flag("puts").unwrap_or(true);
        let is_simulated = self.name.starts_with("sim://") || self.name.starts_with("ssim://");
        self.write_unknown = flag("writeUnknown").unwrap_or(false)
            || self.is_user && self.state == "connected" && !is_simulated;
        self.reason.clear();
        // An outcome holds until the relay says something else.
        if self.said() != before {
            self.put = None;
        }
    }

    /// What the relay said of the connection and the rights.
    fn said(&self) -> (String, Option<i64>, [bool; 4]) {
        let rights = [self.read, self.write, self.puts, self.write_unknown];
        (self.state.clone(), self.since_ms, rights)
    }

    fn update(&mut self, parts: &Json, is_first: bool) {
        let is_given = |name: &str| parts.get(name).is_some();
        if is_given("time") {
            let of = &parts["time"];
            self.seconds = of["seconds"].as_i64().unwrap_or(0);
            self.nanoseconds = of["nanoseconds"].as_i64().unwrap_or(0);
            self.given_tag = of["userTag"].as_i64().unwrap_or(0);
        }
        if is_given("alarm") {
            self.given_message = parts["alarm"]["message"].as_str().unwrap_or("").to_owned();
        }
        if is_given("value") {
            self.set_value(&parts["value"]);
        }
        if self.value.is_none() {
            return;
        }
        if is_given("time") || is_given("alarm") {
            self.user_tag = self.given_tag;
            self.message.clone_from(&self.given_message);
        }
        if let Some(severity) = parts["alarm"]["severity"].as_str() {
            let status = parts["alarm"]["status"].as_i64().unwrap_or(0);
            self.alarm = Some((severity.to_owned(), status));
        } else if is_given("alarm") {
            self.alarm = None;
        }
        for (at, cause) in CAUSES.iter().enumerate() {
            if !is_first {
                self.skips[at] += parts["skips"][cause].as_f64().unwrap_or(0.0);
            }
        }
    }

    fn set_value(&mut self, value: &Json) {
        let merges = value["partial"].as_bool() == Some(true);
        let changed = content(value)["fields"].as_array().filter(|_| merges);
        let before = self.value.as_mut().and_then(fields_of);
        let (Some(fields), Some(changed)) = (before, changed) else {
            self.value = Some(value.clone());
            return;
        };
        for field in changed {
            match fields
                .iter_mut()
                .find(|known| known["name"] == field["name"])
            {
                Some(known) => *known = field.clone(),
                None => fields.push(field.clone()),
            }
        }
    }

    /// The connection to the relay is lost, or the relay stops responding.
    pub(crate) fn relay(&mut self, event: &Json) {
        self.relay_heard_ms = event["silentSinceMs"].as_i64();
        let Some(lost_ms) = event["lostMs"].as_i64() else {
            return;
        };
        if self.state == "connected" && self.heard_ms.is_none() {
            self.heard_ms = event["heardMs"].as_i64();
        }
        self.state = "relayLost".to_owned();
        self.since_ms = Some(lost_ms);
        self.reason.clear();
    }

    /// A field of the metadata, `Null` without it.
    pub(crate) fn about(&self, name: &str) -> &Json {
        const NULL: &Json = &Json::Null;
        self.metadata.as_ref().map_or(NULL, |of| &of[name])
    }

    pub(crate) fn value_type(&self) -> &str {
        self.about("type").as_str().unwrap_or("Unknown")
    }

    pub(crate) fn precision(&self) -> Option<i64> {
        self.about("precision")
            .as_i64()
            .filter(|digits| *digits >= 0)
    }
}

/// The fields of a structure, also if an `Any` holds it.
pub(crate) fn fields_of(value: &mut Json) -> Option<&mut Vec<Json>> {
    if value["type"] == "Any" && !value["holds"].is_null() {
        return fields_of(&mut value["holds"]);
    }
    value["fields"].as_array_mut()
}

/// The parts of each PV in an event.
pub(crate) fn changes(event: &Json) -> impl Iterator<Item = (&String, &Json)> {
    let parts = event.as_object().into_iter().flatten();
    parts.filter(|(name, _)| *name != "$relay")
}

/// A number, or the text of a special one.
pub(crate) fn number(of: &Json) -> f64 {
    match of {
        Json::Bool(flag) => f64::from(u8::from(*flag)),
        Json::String(text) => text.parse().expect("a number"),
        of => of.as_f64().unwrap_or(f64::NAN),
    }
}
