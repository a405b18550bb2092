//! What a PV has in addition to its channel's values: long strings, descriptions and display forms.
//!
//! A string of Channel Access has 39 bytes. Only one that fills them can be longer. For such a
//! value the relay looks for the name of the complete string (`NAME.VAL$`), holds the value back
//! meanwhile, and then monitors that name in place of the string until the PV is disconnected.

use std::mem;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use pvwire_epics::ca::{self, AccessRights, ChannelEvents, ChannelInfo, NativeType};
use pvwire_schema::types::{Alarm, BlobValue, Metadata};

use super::field_query::{FieldQuery, Found, Late, What};
use super::server::Server;
use super::value::{alarm_of, text_of};
use super::{LONG_WITHIN, STRING_BYTES, Wiring, field};
use crate::ingest::{Event, RowValue};

/// Time limit of the query for a description.
const DESCRIPTION_WITHIN: Duration = Duration::from_secs(5);

/// What is known of a PV in addition to its channel's values.
#[derive(Default)]
pub(super) struct Extras {
    /// Counts connections, so that an answer for an earlier one is ignored.
    connection: u32,
    is_connected: bool,
    is_closed: bool,
    /// The server of this connection.
    server: Option<Arc<Server>>,
    long: Long,
    /// Present for a PV whose description was requested.
    description: Option<Box<Description>>,
    /// Present for an array of characters whose form was requested in this connection.
    form: Option<Box<Form>>,
}

/// The display form of an array of characters.
#[derive(Default)]
struct Form {
    /// Empty until it is known.
    name: &'static str,
    /// The metadata last sent, to be sent again when the form becomes known.
    told: Option<Metadata>,
}

/// Whether the PV is a long string.
#[derive(Default)]
enum Long {
    /// No value of this connection may have been truncated.
    #[default]
    Unasked,
    /// A query is under way; the latest value that may be truncated waits.
    Asked(Option<Box<Waiting>>),
    /// A query is under way, but most likely no name has the complete string: truncated values don't wait. A first
    /// query that finds nothing is repeated.
    Late { is_first: bool },
    /// It isn't, or no name has the complete string.
    No,
    /// The complete string comes through this channel.
    Yes(Box<Longer>),
}

impl Long {
    fn forget_waiting(&mut self) {
        match self {
            Self::Asked(waiting) => *waiting = None,
            Self::Yes(longer) => longer.waiting = None,
            Self::Unasked | Self::Late { .. } | Self::No => {}
        }
    }
}

/// The channel of the complete string.
struct Longer {
    _channel: ca::Channel,
    /// A truncated value, which is dropped when the first complete one arrives.
    waiting: Option<Box<Waiting>>,
    has_come: bool,
}

/// An update that may be truncated.
struct Waiting {
    text: String,
    time_ns: i64,
    alarm: Alarm,
}

#[derive(Default)]
struct Description {
    text: String,
    /// Whether a query is under way.
    is_asked: bool,
    /// Whether the right to read was revoked during the query, which may have been answered before.
    is_revoked: bool,
    /// Whether the last query found nothing, perhaps because the IOC didn't respond.
    is_missed: bool,
}

impl Wiring {
    fn extras(&self) -> MutexGuard<'_, Extras> {
        // Every change under the lock is complete.
        self.extras.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel's server is known. It is connected just after this.
    pub(super) fn found_at(&self, server: &str) {
        self.extras().server = Some(self.queries.servers().at(server));
    }

    /// The channel is connected.
    pub(super) fn begin_connection(&self) {
        let mut extras = self.extras();
        if extras.is_closed {
            return;
        }
        extras.connection = extras.connection.wrapping_add(1);
        (extras.is_connected, extras.long, extras.form) = (true, Long::Unasked, None);
        if let Some(description) = &mut extras.description {
            description.is_missed = false;
        }
        self.look_for_description(&mut extras);
    }

    /// The channel is disconnected.
    pub(super) fn end_connection(&self) {
        let mut extras = self.extras();
        (extras.is_connected, extras.long) = (false, Long::Unasked);
        if let Some(server) = extras.server.take() {
            server.forget();
        }
    }

    /// The right to read is granted or revoked. Values read before are not sent any more.
    pub(super) fn may_read(&self, may: bool) {
        let mut extras = self.extras();
        if may {
            return self.look_for_description(&mut extras);
        }
        extras.long.forget_waiting();
        if let Some(description) = &mut extras.description {
            description.text.clear();
            description.is_revoked = description.is_asked;
        }
    }

    /// The channel's updates can't be trusted until it is connected again.
    pub(super) fn distrust(&self) {
        let mut extras = self.extras();
        extras.long.forget_waiting();
        extras.form = None;
    }

    /// The server can't send the value. One that waits for its complete text is out of date.
    pub(super) fn value_refused(&self, why: &str) {
        let mut extras = self.extras();
        extras.long.forget_waiting();
        // Under the lock, so that nothing of the epoch before is sent after this.
        self.line.refused(why.to_owned());
    }

    /// The PV is closed.
    pub(super) fn closed(&self) {
        let mut extras = self.extras();
        (extras.is_closed, extras.is_connected, extras.long) = (true, false, Long::No);
    }

    /// Sends metadata, with description and form as far as they are known.
    pub(super) fn tell_metadata(&self, mut metadata: Metadata) {
        let mut extras = self.extras();
        if let Some(description) = &extras.description {
            metadata.description.clone_from(&description.text);
        }
        if let Some(form) = &mut extras.form {
            form.name.clone_into(&mut metadata.form);
            form.told = form.name.is_empty().then(|| metadata.clone());
        }
        // Under the lock, so that nothing newer is sent before this.
        self.line.event(Event::Metadata(Box::new(metadata)));
    }

    /// Asks whether an array of characters is a text, which Channel Access can't express.
    pub(super) fn ask_for_form(&self) {
        // Names with `$` are texts; pvAccess may know no other modifiers.
        if field::has_modifiers(&self.name) {
            return;
        }
        let mut extras = self.extras();
        if extras.is_closed {
            return;
        }
        extras.form = Some(Box::default());
        let (connection, me) = (extras.connection, self.me.clone());
        drop(extras);
        let answer = move |name: Option<String>| {
            // The other forms don't apply to characters.
            if let (Some("String"), Some(me)) = (name.as_deref(), me.upgrade()) {
                me.is_text(connection);
            }
        };
        self.forms.ask(&self.name, Box::new(answer));
    }

    fn is_text(&self, connection: u32) {
        let mut extras = self.extras();
        if extras.connection != connection || !extras.is_connected {
            return;
        }
        let description = (extras.description.as_ref()).map(|description| description.text.clone());
        let Some(form) = &mut extras.form else { return };
        form.name = "String";
        if let Some(told) = form.told.take() {
            let metadata = Metadata {
                form: form.name.to_owned(),
                description: description.unwrap_or_default(),
                // A new epoch may have begun since, as after a value that the server couldn't send.
                epoch: self.line.epoch(),
                ..told
            };
            self.line.event(Event::Metadata(Box::new(metadata)));
        }
    }

    /// Requests the record's description, now and after each reconnect.
    pub(super) fn describe(&self) {
        let mut extras = self.extras();
        if extras.description.is_none() {
            extras.description = Some(Box::default());
            self.look_for_description(&mut extras);
        }
    }

    /// The IOC answers again: a description that didn't arrive in time is requested once more.
    pub(super) fn look_again_for_description(&self) {
        let mut extras = self.extras();
        if (extras.description.as_ref()).is_some_and(|description| description.is_missed) {
            self.look_for_description(&mut extras);
        }
    }

    fn look_for_description(&self, extras: &mut Extras) {
        let (connection, is_connected) = (extras.connection, extras.is_connected);
        let Some(description) = &mut extras.description else {
            return;
        };
        if !is_connected || description.is_asked {
            return;
        }
        description.is_asked = true;
        if (extras.server.as_ref()).is_some_and(|server| server.descriptions.lack(&self.name)) {
            // A get doesn't wait. A description is sent when it is found all the same.
            self.line
                .event(Event::Description(description.text.clone()));
        }
        let name = format!("{}.DESC", field::record(&self.name));
        let whole_name = format!("{name}$");
        let [me, late] = [self.me.clone(), self.me.clone()];
        let late = move || {
            if let Some(me) = late.upgrade() {
                me.is_described_late(connection);
            }
        };
        let late: Late = Box::new(late);
        self.ask(
            &name,
            What::Text,
            DESCRIPTION_WITHIN,
            Some(late),
            move |found| {
                let Some(me) = me.upgrade() else { return };
                match found {
                    // A description has up to 40 bytes, one more than a string of Channel Access.
                    Some(found) if found.is_full => {
                        let again = me.clone();
                        me.ask(&whole_name, What::Text, LONG_WITHIN, None, move |whole| {
                            again.described(connection, whole.or(Some(found)));
                        });
                    }
                    found => me.described(connection, found),
                }
            },
        );
    }

    /// No server has the description yet, or it can't be read: a get doesn't wait for it.
    fn is_described_late(&self, connection: u32) {
        let extras = self.extras();
        if extras.connection != connection || !extras.is_connected {
            return;
        }
        if let Some(server) = &extras.server {
            server.descriptions.missed(&self.name);
        }
        if let Some(description) = &extras.description {
            self.line
                .event(Event::Description(description.text.clone()));
        }
    }

    fn described(&self, connection: u32, found: Option<Found>) {
        let mut extras = self.extras();
        let is_of_now = extras.connection == connection;
        if found.is_some()
            && let Some(server) = extras.server.as_ref().filter(|_| is_of_now)
        {
            server.descriptions.found(&self.name);
        }
        let Some(description) = &mut extras.description else {
            return;
        };
        description.is_asked = false;
        let is_revoked = mem::take(&mut description.is_revoked);
        if !is_of_now || is_revoked {
            return self.look_for_description(&mut extras);
        }
        let is_first_miss = found.is_none() && !description.is_missed;
        description.is_missed = found.is_none();
        let text = found.map(|found| found.text).unwrap_or_default();
        description.text.clone_from(&text);
        // Sent also if it is unchanged or empty, because a get may wait for it.
        self.line.event(Event::Description(text));
        if is_first_miss {
            // libca takes longer than a query to notice that an IOC doesn't respond.
            self.look_for_description(&mut extras);
        }
    }

    /// A string of Channel Access has arrived.
    pub(super) fn text(&self, bytes: &[u8], time_ns: i64, alarm: Alarm) {
        let mut extras = self.extras();
        let may_be_cut = bytes.len() >= STRING_BYTES;
        let text = ca::text(bytes);
        match &mut extras.long {
            Long::Yes(_) => return,
            Long::Unasked if may_be_cut => {
                let waiting = Waiting {
                    text,
                    time_ns,
                    alarm,
                };
                let server = extras.server.as_ref();
                if server.is_some_and(|server| server.long_strings.lack(&self.name)) {
                    extras.long = Long::Late { is_first: true };
                    self.tell(waiting.text, time_ns, alarm);
                } else {
                    extras.long = Long::Asked(Some(Box::new(waiting)));
                }
                self.look_for_long(extras);
                return;
            }
            Long::Asked(waiting) => {
                if waiting.take().is_some() {
                    self.line.squashed(1);
                }
                if may_be_cut {
                    *waiting = Some(Box::new(Waiting {
                        text,
                        time_ns,
                        alarm,
                    }));
                    return;
                }
            }
            Long::Unasked | Long::Late { .. } | Long::No => {}
        }
        self.tell(text, time_ns, alarm);
    }

    fn tell(&self, text: String, time_ns: i64, alarm: Alarm) {
        let value = RowValue::Blob(Arc::new(BlobValue::Text(text)));
        self.line.update(time_ns, value, alarm);
    }

    fn look_for_long(&self, extras: MutexGuard<'_, Extras>) {
        let connection = extras.connection;
        drop(extras);
        let Some(name) = field::long_name(&self.name) else {
            return self.long_found(connection, None);
        };
        let [me, late] = [self.me.clone(), self.me.clone()];
        let late = move || {
            if let Some(me) = late.upgrade() {
                me.is_long_late(connection);
            }
        };
        self.queries.ask(FieldQuery {
            name,
            what: What::Shape,
            within: LONG_WITHIN,
            late: Some(Box::new(late)),
            is_urgent: true,
            answer: Box::new(move |found| {
                if let Some(me) = me.upgrade() {
                    me.long_found(connection, found);
                }
            }),
        });
    }

    /// No server has the name of the complete string yet. One that had the like before is given more time.
    fn is_long_late(&self, connection: u32) {
        let mut extras = self.extras();
        if extras.connection != connection || !extras.is_connected {
            return;
        }
        if let Some(server) = &extras.server {
            if server.long_strings.exist() {
                return;
            }
            server.long_strings.missed(&self.name);
        }
        if let Long::Asked(waiting) = &mut extras.long {
            let waiting = waiting.take();
            extras.long = Long::Late { is_first: true };
            if let Some(waiting) = waiting {
                self.tell(waiting.text, waiting.time_ns, waiting.alarm);
            }
        }
    }

    fn long_found(&self, connection: u32, found: Option<Found>) {
        let mut extras = self.extras();
        if extras.connection != connection || !extras.is_connected {
            return;
        }
        let waiting = match &mut extras.long {
            Long::Asked(waiting) => waiting.take(),
            Long::Late { is_first } if *is_first && found.is_none() => {
                *is_first = false;
                return self.look_for_long(extras);
            }
            Long::Late { .. } => None,
            Long::Unasked | Long::No | Long::Yes(_) => return,
        };
        if found.is_some()
            && let Some(server) = &extras.server
        {
            server.long_strings.found(&self.name);
        }
        // A string of Channel Access has its NUL in 40 bytes.
        let is_long = found.is_some_and(|found| {
            found.native == NativeType::Char && found.count as usize > STRING_BYTES + 1
        });
        let channel = (field::long_name(&self.name).filter(|_| is_long)).and_then(|name| {
            let sink = Whole {
                wiring: self.me.clone(),
                connection,
            };
            let opener = self.queries.opener();
            opener.open_for_value(&name, Arc::new(sink)).ok()
        });
        match channel {
            Some(channel) => {
                extras.long = Long::Yes(Box::new(Longer {
                    _channel: channel,
                    waiting,
                    has_come: false,
                }));
            }
            None => {
                extras.long = Long::No;
                if let Some(waiting) = waiting {
                    self.tell(waiting.text, waiting.time_ns, waiting.alarm);
                }
            }
        }
    }

    /// A complete long string has arrived.
    fn whole(&self, connection: u32, bytes: &[u8], time_ns: i64, alarm: Alarm) {
        let mut extras = self.extras();
        let is_of_now = extras.connection == connection && extras.is_connected;
        let Long::Yes(longer) = &mut extras.long else {
            return;
        };
        if !is_of_now {
            return;
        }
        if (longer.waiting.take()).is_some_and(|waiting| waiting.time_ns != time_ns) {
            self.line.squashed(1);
        }
        if !mem::replace(&mut longer.has_come, true) {
            // The truncated values are not needed any more.
            if let Some(channel) = self.channel.get().and_then(Weak::upgrade) {
                channel.stop_updates();
            }
        }
        self.line.copied(bytes.len());
        self.tell(text_of(bytes), time_ns, alarm);
    }

    fn ask(
        &self,
        name: &str,
        what: What,
        within: Duration,
        late: Option<Late>,
        answer: impl FnOnce(Option<Found>) + Send + 'static,
    ) {
        self.queries.ask(FieldQuery {
            name: name.to_owned(),
            what,
            within,
            late,
            is_urgent: false,
            answer: Box::new(answer),
        });
    }
}

/// The callbacks of the channel of a complete long string. The PV's own channel reports
/// disconnections.
struct Whole {
    wiring: Weak<Wiring>,
    connection: u32,
}

impl ChannelEvents for Whole {
    fn connected(&self, _: ChannelInfo) {}

    fn disconnected(&self) {}

    fn access_rights(&self, _: AccessRights) {}

    fn metadata(&self, _: ca::Metadata) {}

    fn update(&self, update: ca::Update<'_>) {
        if let ca::Value::Array(array) = update.value
            && let Some(wiring) = self.wiring.upgrade()
        {
            let alarm = alarm_of(&update);
            wiring.whole(self.connection, array.bytes, update.time_ns, alarm);
        }
    }
}
