//! The messages about one PV over its life, and the state that its clients in step have received.
//!
//! A form is a PV under one spelling with one right to write. All clients of a form that are in step have
//! received the same messages, so each text is made once for all of them. A new client and a client that was
//! behind get the present state instead, and the same texts from then on.

use pvwire_schema::types::Metadata;

use crate::name::Dialect;
use crate::update::{self, Keys};
use crate::vtype::{Sample, VType};
use crate::websocket::text_message;
use crate::{json, text};

/// What is known of a PV now.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Whether it is connected and its server responds.
    pub is_connected: bool,
    /// Whether its clients are told so if it isn't connected. While it is, they wait for its value.
    pub is_absent: bool,
    /// Whether its clients may not write it.
    pub readonly: bool,
    /// Its type and display information.
    pub metadata: Option<&'a Metadata>,
    /// Its newest value.
    pub latest: Option<Sample<'a>>,
    /// The relay's clock, in nanoseconds past the POSIX epoch.
    pub now_ns: i64,
}

impl<'a> State<'a> {
    /// Metadata and value, if the PV is connected and both are known.
    fn shown(&self) -> Option<(&'a Metadata, Sample<'a>)> {
        self.metadata.zip(self.latest).filter(|_| self.is_connected)
    }
}

/// The state of a PV with a value, as its clients know it.
#[derive(Clone, Debug, PartialEq)]
struct Shown {
    vtype: VType,
    severity: Option<&'static str>,
    block: Vec<u8>,
    readonly: bool,
}

/// Writes the messages of one form of a PV.
#[derive(Debug)]
pub struct Life {
    dialect: Dialect,
    head: Vec<u8>,
    shown: Option<Shown>,
    /// The class of the last value that was sent.
    last: Option<VType>,
    /// The class has changed since `take_new_class`.
    has_new_class: bool,
    is_absent: bool,
    merged: Merged,
    text: Vec<u8>,
}

/// Keys that clients may have from earlier values. Clients merge updates, so a value of a class without such a key
/// replaces it too.
#[derive(Clone, Copy, Debug, Default)]
struct Merged {
    text: bool,
    /// Whether they are those of a value, not of one that was taken away.
    of_value: bool,
    severity: bool,
    keys: Keys,
}

impl Merged {
    fn is_text_shown(self) -> bool {
        self.text && self.of_value
    }

    /// Clients have a value of this class.
    fn note(&mut self, vtype: VType) {
        self.text |= vtype.has_text();
        self.of_value = true;
        self.severity |= vtype.name().is_some();
        self.keys.labels |= vtype == VType::Enum;
        self.keys.display |= vtype.has_display();
    }
}

impl Life {
    /// A PV under the name that its clients asked for. They know `state` already.
    #[must_use]
    pub fn new(spelling: &str, dialect: Dialect, state: &State<'_>) -> Self {
        let mut life = Self {
            dialect,
            head: update::head(spelling),
            shown: None,
            last: None,
            has_new_class: false,
            is_absent: state.is_absent,
            merged: Merged::default(),
            text: Vec::new(),
        };
        life.shown = life.now(state);
        life.last = life.shown.as_ref().map(|shown| shown.vtype);
        life.last
            .into_iter()
            .for_each(|vtype| life.merged.note(vtype));
        life
    }

    /// Whether clients see a value.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.shown.is_some()
    }

    /// Whether the class has changed since the last call. Clients that were behind then need the metadata of the
    /// new one.
    pub fn take_new_class(&mut self) -> bool {
        std::mem::take(&mut self.has_new_class)
    }

    /// The state of clients that have received `state`.
    fn now(&self, state: &State<'_>) -> Option<Shown> {
        let (metadata, sample) = state.shown()?;
        let vtype = VType::of(sample.value, metadata, self.dialect);
        let mut block = Vec::new();
        update::block(&mut block, vtype, metadata, self.dialect, self.merged.keys);
        Some(Shown {
            vtype,
            severity: self.severity(vtype, &sample),
            block,
            readonly: state.readonly,
        })
    }

    /// The severity of a value. Clients that have one of a value before need another.
    fn severity(&self, vtype: VType, sample: &Sample<'_>) -> Option<&'static str> {
        let is_told = vtype.name().is_some() || self.merged.severity;
        is_told.then(|| update::severity(sample, self.dialect))
    }

    /// Appends the first messages for a new client; returns the number of values. A value that is sent `apart` is
    /// left to `large`. All other clients, if there are any, know `state` already.
    pub fn newcomer(&mut self, out: &mut Vec<u8>, state: &State<'_>, apart: bool) -> u32 {
        // It may have changed while there was no client.
        self.shown = self.now(state);
        self.last = self.shown.as_ref().map(|shown| shown.vtype).or(self.last);
        self.is_absent = state.is_absent;
        match (state.shown(), self.shown.clone()) {
            (Some(_), Some(_)) if apart => 0,
            (Some((metadata, sample)), Some(now)) => {
                self.first(out, &now, metadata, &sample);
                1
            }
            _ => {
                if state.is_absent {
                    self.readonly_alone(out, state);
                }
                0
            }
        }
    }

    /// The first value, in two messages: with metadata, and without. Both have `readonly`, because some clients
    /// read it from the first message and others from the second.
    fn first(&mut self, out: &mut Vec<u8>, now: &Shown, metadata: &Metadata, sample: &Sample<'_>) {
        let readonly = Some(now.readonly);
        let block = Some(&now.block[..]);
        self.value(
            out,
            now.vtype,
            (block, now.severity),
            sample,
            metadata,
            readonly,
        );
        self.value(out, now.vtype, (None, None), sample, metadata, readonly);
    }

    /// Appends the messages for a change of connection, access or metadata, or for a first value. `came_back`:
    /// the connection was lost and made again since the last call. `has_new`: the value is new. `apart`: value and
    /// metadata are left to `large`. Returns the number of values.
    pub fn refresh(
        &mut self,
        out: &mut Vec<u8>,
        state: &State<'_>,
        came_back: bool,
        has_new: bool,
        apart: bool,
    ) -> u32 {
        let Some(((metadata, sample), now)) = state.shown().zip(self.now(state)) else {
            self.refresh_unshown(out, state);
            return 0;
        };
        self.is_absent = false;
        self.has_new_class |= self.last.replace(now.vtype) != Some(now.vtype);
        let before = self.shown.replace(now.clone());
        if apart {
            if before.is_none_or(|before| before.vtype != now.vtype) {
                self.make_room(out, now.vtype, state.now_ns);
            }
            return 0;
        }
        let Some(before) = before.filter(|_| !came_back) else {
            self.first(out, &now, metadata, &sample);
            return 1;
        };
        let is_renewed = (before.vtype, &before.block) != (now.vtype, &now.block);
        let readonly = (before.readonly != now.readonly).then_some(now.readonly);
        if !has_new && !is_renewed && readonly.is_none() {
            return 0;
        }
        let block = is_renewed.then_some(&now.block[..]);
        let severity = now
            .severity
            .filter(|_| is_renewed || before.severity != now.severity);
        self.value(
            out,
            now.vtype,
            (block, severity),
            &sample,
            metadata,
            readonly,
        );
        1
    }

    fn refresh_unshown(&mut self, out: &mut Vec<u8>, state: &State<'_>) {
        let is_taken = state.latest.is_none();
        if let Some(shown) = self.shown.take() {
            self.gone(out, shown.vtype, is_taken, state.now_ns);
        } else if let Some(last) = self
            .last
            .filter(|_| is_taken && self.merged.is_text_shown())
        {
            self.gone(out, last, true, state.now_ns);
        } else if state.is_absent && !self.is_absent {
            self.readonly_alone(out, state);
        }
        self.is_absent = state.is_absent;
    }

    /// Appends one update of a PV that is shown.
    pub fn row(&mut self, out: &mut Vec<u8>, metadata: &Metadata, sample: &Sample<'_>) {
        let vtype = VType::of(sample.value, metadata, self.dialect);
        let (severity, keys) = (self.severity(vtype, sample), self.merged.keys);
        let Some(shown) = &mut self.shown else {
            return;
        };
        let is_renewed = shown.vtype != vtype;
        let is_news = is_renewed || shown.severity != severity;
        if is_renewed {
            shown.vtype = vtype;
            shown.block.clear();
            update::block(&mut shown.block, vtype, metadata, self.dialect, keys);
            self.last = Some(vtype);
            self.has_new_class = true;
        }
        shown.severity = severity;
        let block = is_renewed.then(|| shown.block.clone());
        let severity = severity.filter(|_| is_news);
        self.value(
            out,
            vtype,
            (block.as_deref(), severity),
            sample,
            metadata,
            None,
        );
    }

    /// Appends the messages for a client that was behind: everything if it `needs_all`, because more than the
    /// value changed, otherwise value and severity. Returns the number of values.
    pub fn catch_up(
        &mut self,
        out: &mut Vec<u8>,
        state: &State<'_>,
        needs_all: bool,
        apart: bool,
    ) -> u32 {
        match (state.shown(), self.now(state)) {
            (Some(_), Some(now)) if apart => {
                if needs_all {
                    self.make_room(out, now.vtype, state.now_ns);
                }
                0
            }
            (Some((metadata, sample)), Some(now)) => {
                let block = needs_all.then_some(&now.block[..]);
                let readonly = needs_all.then_some(now.readonly);
                self.value(
                    out,
                    now.vtype,
                    (block, now.severity),
                    &sample,
                    metadata,
                    readonly,
                );
                1
            }
            _ if !needs_all => 0,
            _ => {
                if let Some(last) = self.last {
                    self.gone(out, last, state.latest.is_none(), state.now_ns);
                } else if state.is_absent {
                    self.readonly_alone(out, state);
                }
                0
            }
        }
    }

    /// A large value with everything that is known of its PV, for all clients of its form.
    #[must_use]
    pub fn large(spelling: &str, dialect: Dialect, state: &State<'_>) -> Option<Vec<u8>> {
        let (metadata, sample) = state.shown()?;
        let mut life = Self::new(spelling, dialect, state);
        let now = life.shown.clone()?;
        let mut out = Vec::new();
        let told = (Some(&now.block[..]), now.severity);
        let readonly = Some(now.readonly);
        life.value(&mut out, now.vtype, told, &sample, metadata, readonly);
        Some(out)
    }

    fn value(
        &mut self,
        out: &mut Vec<u8>,
        vtype: VType,
        (block, severity): (Option<&[u8]>, Option<&'static str>),
        sample: &Sample<'_>,
        metadata: &Metadata,
        readonly: Option<bool>,
    ) {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(&self.head);
        text.extend_from_slice(block.unwrap_or_default());
        write_severity(text, severity);
        update::value(text, vtype, sample, metadata, self.dialect);
        if self.merged.text && !vtype.has_text() {
            update::key(text, "text");
            json::string(text, &text::plain(sample, metadata));
        }
        self.merged.note(vtype);
        update::end(text, readonly, sample.time_ns);
        text_message(out, text);
        if text.capacity() > MOST_KEPT {
            *text = Vec::new();
        }
    }

    /// Reports a connection that is lost, or a server that doesn't respond. The value becomes `NaN` or an empty array; values with a class also get the
    /// severity `INVALID`. The text stays as the last one, unless the value `is_taken` from the clients.
    fn gone(&mut self, out: &mut Vec<u8>, vtype: VType, is_taken: bool, now_ns: i64) {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(&self.head);
        let has_severity = vtype.name().is_some() || self.merged.severity;
        write_severity(text, has_severity.then_some("INVALID"));
        update::no_value(text, vtype);
        if is_taken {
            self.merged.of_value = false;
            if self.merged.text {
                update::key(text, "text");
                text.extend_from_slice(b"\"NaN\"");
            }
        }
        update::end(text, None, now_ns);
        text_message(out, text);
    }

    /// Removes the text of an earlier value before a large value, whose message is the same for all clients.
    fn make_room(&mut self, out: &mut Vec<u8>, vtype: VType, now_ns: i64) {
        if vtype.has_text() || !self.merged.text {
            return;
        }
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(&self.head);
        update::no_value(text, vtype);
        text.extend_from_slice(br#","text":"","labels":[]"#);
        update::end(text, None, now_ns);
        text_message(out, text);
    }

    /// The only message about a PV that isn't connected.
    fn readonly_alone(&mut self, out: &mut Vec<u8>, state: &State<'_>) {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(&self.head);
        update::end(text, Some(state.readonly), state.now_ns);
        text_message(out, text);
    }
}

/// Maximum size of the buffer that a form keeps for its next text, in bytes.
const MOST_KEPT: usize = 1 << 10;

pub(crate) fn write_severity(text: &mut Vec<u8>, severity: Option<&'static str>) {
    if let Some(severity) = severity {
        update::key(text, "severity");
        text.push(b'"');
        text.extend_from_slice(severity.as_bytes());
        text.push(b'"');
    }
}

#[cfg(test)]
mod tests;
