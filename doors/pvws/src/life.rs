//! The messages about one PV over its life, and the state that its clients in step have received.
//!
//! A form is a PV under one spelling with one right to write. All clients of a form that are in step have
//! received the same messages, so each text is made once for all of them. A new client and a client that was
//! behind get the present state instead, and the same texts from then on. So does a client whose right to write has
//! changed, which comes from another form: it may have what was sent to that one.

use pvwire_schema::types::Metadata;

use crate::name::Dialect;
use crate::text;
use crate::update::{self, Merged};
use crate::vtype::{Sample, VType};
use crate::websocket::text_message;

/// What is known of a PV now.
#[derive(Clone, Copy, Debug)]
pub struct State<'a> {
    /// Whether it is connected and its server responds.
    pub is_connected: bool,
    /// Whether its clients are told so if it isn't connected. While it is, they wait for its value.
    pub is_absent: bool,
    /// Whether it is connected, but its value may not be read.
    pub is_unreadable: bool,
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

/// What clients may have received of a PV under one spelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    merged: Merged,
    /// The class of the last value.
    last: Option<VType>,
    /// The last right to write.
    readonly: Option<bool>,
}

impl Received {
    /// Whether there was a value.
    #[must_use]
    pub fn has_value(&self) -> bool {
        self.last.is_some()
    }

    /// Some clients have received this later.
    pub fn add(&mut self, later: Self) {
        self.merged.add(later.merged);
        self.merged.is_mixed |= are_mixed(self.last, later.last);
        self.last = later.last.or(self.last);
        self.readonly = later.readonly.or(self.readonly);
    }
}

fn are_mixed(one: Option<VType>, other: Option<VType>) -> bool {
    one.zip(other).is_some_and(|(one, other)| one != other)
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
    /// Whether clients may not write it, as they were told last.
    told_readonly: Option<bool>,
    merged: Merged,
    /// Time of the last value that was sent.
    time_ns: i64,
    text: Vec<u8>,
}

/// What is told instead of a value.
#[derive(Clone, Copy, Debug, Default)]
struct Gone {
    /// Clients may not keep the value.
    is_taken: bool,
    /// They may have values of another class.
    is_other: bool,
    /// They may have had no message before, and so no class, without which some don't take a severity.
    is_first: bool,
    readonly: Option<bool>,
}

/// What an update has beside its value.
#[derive(Clone, Copy, Debug, Default)]
struct Extras<'a> {
    block: Option<&'a [u8]>,
    severity: Option<&'static str>,
    readonly: Option<bool>,
    /// Clients may have values of another class.
    is_other: bool,
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
            told_readonly: state.is_absent.then_some(state.readonly),
            merged: Merged::default(),
            time_ns: state.latest.map_or(state.now_ns, |latest| latest.time_ns),
            text: Vec::new(),
        };
        life.shown = life.now(state);
        life.last = life.shown.as_ref().map(|shown| shown.vtype);
        life.last
            .into_iter()
            .for_each(|vtype| life.merged.note(vtype));
        if life.is_shown() {
            life.told_readonly = Some(state.readonly);
        }
        life
    }

    /// What its clients may have received.
    #[must_use]
    pub fn received(&self) -> Received {
        Received {
            merged: self.merged,
            last: self.last,
            readonly: self.told_readonly,
        }
    }

    /// Clients may come from another form, where they have received this. The next one that comes is a `newcomer`.
    pub fn inherit(&mut self, received: Received) {
        self.merged.add(received.merged);
        self.merged.is_mixed |= are_mixed(self.last, received.last);
        self.last = self.last.or(received.last);
        self.told_readonly = self.told_readonly.or(received.readonly);
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
        let is_known = vtype.name().is_some() || self.merged.keys.class;
        is_known.then(|| update::severity(sample, self.dialect))
    }

    /// Appends the first messages for a new client; returns the number of values. A value that is sent `apart` is
    /// left to `large`. All other clients, if there are any, know `state` already.
    pub fn newcomer(&mut self, out: &mut Vec<u8>, state: &State<'_>, apart: bool) -> u32 {
        // It may have changed while there was no client.
        self.shown = self.now(state);
        self.last = self.shown.as_ref().map(|shown| shown.vtype).or(self.last);
        self.is_absent = state.is_absent;
        match (state.shown(), self.shown.clone()) {
            (Some(_), Some(now)) if apart => {
                self.merged.note(now.vtype);
                self.told_readonly = Some(now.readonly);
                0
            }
            (Some((metadata, sample)), Some(now)) => {
                // For some clients the first message counts, so what it can't replace follows it.
                let is_other = (false, self.merged.is_mixed);
                self.first(out, &now, metadata, &sample, is_other);
                1
            }
            _ if state.is_absent => {
                self.readonly_alone(out, state);
                0
            }
            _ => {
                if let Some(last) = self.last.filter(|_| state.is_unreadable) {
                    let gone = Gone {
                        is_taken: state.latest.is_none(),
                        is_other: self.merged.is_mixed,
                        is_first: true,
                        readonly: Some(state.readonly),
                    };
                    self.gone(out, last, gone, state.now_ns);
                }
                0
            }
        }
    }

    /// The first value, in two messages: with metadata, and without. Both have `readonly`, because some clients
    /// read it from the first message and others from the second. `is_other`, for each: clients may have values of
    /// another class.
    fn first(
        &mut self,
        out: &mut Vec<u8>,
        now: &Shown,
        metadata: &Metadata,
        sample: &Sample<'_>,
        is_other: (bool, bool),
    ) {
        let second = Extras {
            readonly: Some(now.readonly),
            is_other: is_other.1,
            ..Extras::default()
        };
        let first = Extras {
            block: Some(&now.block),
            severity: now.severity,
            is_other: is_other.0,
            ..second
        };
        self.told_readonly = Some(now.readonly);
        self.value(out, now.vtype, sample, metadata, first);
        self.value(out, now.vtype, sample, metadata, second);
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
        let last = self.last.replace(now.vtype);
        let is_other = last.is_some_and(|last| last != now.vtype);
        self.has_new_class |= last != Some(now.vtype);
        self.merged.is_mixed |= is_other;
        let before = self.shown.replace(now.clone());
        let told = self.told_readonly.replace(now.readonly);
        if apart {
            self.make_room(out, &now, (is_other, false), state.now_ns);
            return 0;
        }
        let Some(before) = before.filter(|_| !came_back) else {
            self.first(out, &now, metadata, &sample, (is_other, false));
            return 1;
        };
        let is_renewed = (before.vtype, &before.block) != (now.vtype, &now.block);
        let readonly = (told != Some(now.readonly)).then_some(now.readonly);
        if !has_new && !is_renewed && readonly.is_none() {
            return 0;
        }
        let extras = Extras {
            block: is_renewed.then_some(&now.block),
            severity: (now.severity).filter(|_| is_renewed || before.severity != now.severity),
            readonly,
            is_other,
        };
        self.value(out, now.vtype, &sample, metadata, extras);
        1
    }

    fn refresh_unshown(&mut self, out: &mut Vec<u8>, state: &State<'_>) {
        let is_taken = state.latest.is_none();
        // No later value tells it.
        let is_news =
            state.is_unreadable && (self.told_readonly).is_some_and(|told| told != state.readonly);
        let has_text = is_taken && self.merged.is_text_shown();
        let shown = self.shown.take().map(|shown| shown.vtype);
        let vtype = shown.or_else(|| self.last.filter(|_| has_text || is_news));
        if let Some(vtype) = vtype {
            let gone = Gone {
                is_taken,
                readonly: is_news.then_some(state.readonly),
                ..Gone::default()
            };
            self.gone(out, vtype, gone, state.now_ns);
        } else if is_news || state.is_absent && !self.is_absent {
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
            self.merged.is_mixed = true;
        }
        shown.severity = severity;
        let block = is_renewed.then(|| shown.block.clone());
        let extras = Extras {
            block: block.as_deref(),
            severity: severity.filter(|_| is_news),
            readonly: None,
            is_other: is_renewed,
        };
        self.value(out, vtype, sample, metadata, extras);
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
        let is_other = needs_all && self.merged.is_mixed;
        match (state.shown(), self.now(state)) {
            (Some(_), Some(now)) if apart => {
                self.make_room(out, &now, (is_other, true), state.now_ns);
                0
            }
            (Some((metadata, sample)), Some(now)) => {
                let extras = Extras {
                    block: needs_all.then_some(&now.block),
                    severity: now.severity,
                    readonly: needs_all.then_some(now.readonly),
                    is_other,
                };
                self.value(out, now.vtype, &sample, metadata, extras);
                1
            }
            _ if !needs_all => 0,
            _ => {
                if let Some(last) = self.last {
                    let gone = Gone {
                        is_taken: state.latest.is_none(),
                        is_other,
                        readonly: state.is_unreadable.then_some(state.readonly),
                        ..Gone::default()
                    };
                    self.gone(out, last, gone, state.now_ns);
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
        let extras = Extras {
            block: Some(&now.block),
            severity: now.severity,
            readonly: Some(now.readonly),
            is_other: false,
        };
        life.value(&mut out, now.vtype, &sample, metadata, extras);
        Some(out)
    }

    fn value(
        &mut self,
        out: &mut Vec<u8>,
        vtype: VType,
        sample: &Sample<'_>,
        metadata: &Metadata,
        extras: Extras<'_>,
    ) {
        if extras.is_other {
            self.empty_arrays(out, vtype);
        }
        self.time_ns = sample.time_ns;
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(&self.head);
        text.extend_from_slice(extras.block.unwrap_or_default());
        write_severity(text, extras.severity);
        if extras.is_other && self.merged.has_number_beside(vtype) {
            update::no_number(text);
        }
        let has_labels = extras.block.is_some() && self.merged.keys.labels;
        if !has_labels && sample.is_nan() && self.merged.has_array_beside(vtype) {
            update::no_labels(text);
        }
        update::value(text, vtype, sample, metadata, self.dialect);
        if self.merged.needs_text(vtype) {
            let plain = text::plain(sample, vtype, metadata, self.dialect);
            update::push_text(text, &plain);
            self.merged.is_of_large = false;
        }
        self.merged.note(vtype);
        update::end(text, extras.readonly, sample.time_ns);
        text_message(out, text);
        if text.capacity() > MOST_KEPT {
            *text = Vec::new();
        }
    }

    /// Reports a connection that is lost, or a server that doesn't respond. The value becomes `NaN` or an empty array;
    /// values with a class also get the severity `INVALID`. An enum's or text's last text stays, unless the value
    /// `is_taken` from the clients, or they may have a text of another class.
    fn gone(&mut self, out: &mut Vec<u8>, vtype: VType, gone: Gone, now_ns: i64) {
        let Gone {
            is_taken,
            is_other,
            is_first,
            readonly,
        } = gone;
        self.told_readonly = readonly.or(self.told_readonly);
        if is_other {
            self.empty_arrays(out, vtype);
        }
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(&self.head);
        let has_severity = vtype.name().is_some() || self.merged.keys.class;
        write_severity(text, (has_severity && !is_first).then_some("INVALID"));
        if vtype.width().is_some() && self.merged.has_number_beside(vtype) {
            update::no_number(text);
        }
        if vtype != VType::Enum && self.merged.has_array_beside(vtype) {
            update::no_labels(text);
        }
        update::no_value(text, vtype);
        self.merged.of_value &= !is_taken;
        if self.merged.needs_text(vtype) || self.merged.text && (is_taken || is_other) {
            update::push_text(text, "NaN");
            self.merged.is_of_large = false;
        }
        update::end(text, readonly, now_ns);
        text_message(out, text);
    }

    /// Replaces the keys of earlier values before a large value, whose message is the same for all clients: of another
    /// class if it `is_other`, and the text of a small one. Clients that were `behind` may have any of them.
    fn make_room(
        &mut self,
        out: &mut Vec<u8>,
        now: &Shown,
        (is_other, behind): (bool, bool),
        now_ns: i64,
    ) {
        let vtype = now.vtype;
        let is_new = is_other || behind || !self.merged.is_of_large;
        let needs_message = if vtype.has_text() {
            is_other
        } else {
            self.merged.needs_text(vtype) && is_new
        };
        if is_other {
            self.empty_arrays(out, vtype);
        }
        if needs_message {
            let text = &mut self.text;
            text.clear();
            text.extend_from_slice(&self.head);
            if vtype.has_text() {
                text.extend_from_slice(&now.block);
                write_severity(text, now.severity);
            }
            if is_other && self.merged.has_number_beside(vtype) {
                update::no_number(text);
            }
            if is_other && vtype.width().is_some() {
                update::no_value(text, vtype);
            }
            update::push_text(text, "");
            if !vtype.has_text() {
                // cs-web-lib takes an empty text for the number 0 unless there are labels.
                update::no_labels(text);
                self.merged.is_of_large |= !behind;
            }
            update::end(text, None, now_ns);
            text_message(out, text);
        }
        self.merged.note(vtype);
    }

    /// Empties the arrays that a value of this class doesn't replace, in a separate message with the time of the last
    /// value: the new one follows.
    fn empty_arrays(&mut self, out: &mut Vec<u8>, vtype: VType) {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(&self.head);
        if self.merged.empty_arrays(text, vtype) {
            update::end(text, None, self.time_ns);
            text_message(out, text);
        }
    }

    /// The only message about a PV that isn't connected.
    fn readonly_alone(&mut self, out: &mut Vec<u8>, state: &State<'_>) {
        self.told_readonly = Some(state.readonly);
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
