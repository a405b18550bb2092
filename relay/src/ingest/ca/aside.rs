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

use super::look::{Found, Look, What};
use super::value::{alarm_of, text_of};
use super::{LONG_WITHIN, STRING_BYTES, Wiring, field};
use crate::ingest::{Event, RowValue};

/// Time limit of the look for a description.
const DESCRIPTION_WITHIN: Duration = Duration::from_secs(5);

/// What is known of a PV in addition to its channel's values.
#[derive(Default)]
pub(super) struct Aside {
    /// Counts connections, so that an answer for an earlier one is ignored.
    connection: u32,
    is_connected: bool,
    is_closed: bool,
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
    /// A look is under way; the latest value that may be truncated waits.
    Asked(Option<Box<Waiting>>),
    /// It isn't, or no name has the complete string.
    No,
    /// The complete string comes through this channel. The waiting value is dropped when its first
    /// value arrives.
    Yes(Box<Longer>),
}

/// The channel of the complete string.
struct Longer {
    _channel: ca::Channel,
    waiting: Option<Box<Waiting>>,
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
    /// Whether a look is under way.
    is_asked: bool,
    /// Whether the right to read was revoked during the look, which may have been answered before.
    is_revoked: bool,
    /// Whether the last look found nothing, perhaps because the IOC didn't respond.
    is_missed: bool,
}

impl Wiring {
    fn aside(&self) -> MutexGuard<'_, Aside> {
        // Every change under the lock is complete.
        self.aside.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The channel is connected.
    pub(super) fn begin_connection(&self) {
        let mut aside = self.aside();
        if aside.is_closed {
            return;
        }
        aside.connection = aside.connection.wrapping_add(1);
        (aside.is_connected, aside.long, aside.form) = (true, Long::Unasked, None);
        if let Some(description) = &mut aside.description {
            description.is_missed = false;
        }
        self.look_for_description(&mut aside);
    }

    /// The channel is disconnected.
    pub(super) fn end_connection(&self) {
        let mut aside = self.aside();
        (aside.is_connected, aside.long) = (false, Long::Unasked);
    }

    /// The right to read is granted or revoked. Values read before are not sent any more.
    pub(super) fn may_read(&self, may: bool) {
        let mut aside = self.aside();
        if may {
            return self.look_for_description(&mut aside);
        }
        match &mut aside.long {
            Long::Asked(waiting) => *waiting = None,
            Long::Yes(longer) => longer.waiting = None,
            Long::Unasked | Long::No => {}
        }
        if let Some(description) = &mut aside.description {
            description.text.clear();
            description.is_revoked = description.is_asked;
        }
    }

    /// The PV is closed.
    pub(super) fn closed(&self) {
        let mut aside = self.aside();
        (aside.is_closed, aside.is_connected, aside.long) = (true, false, Long::No);
    }

    /// Sends metadata, with description and form as far as they are known.
    pub(super) fn tell_metadata(&self, mut metadata: Metadata) {
        let mut aside = self.aside();
        if let Some(description) = &aside.description {
            metadata.description.clone_from(&description.text);
        }
        if let Some(form) = &mut aside.form {
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
        let mut aside = self.aside();
        if aside.is_closed {
            return;
        }
        aside.form = Some(Box::default());
        let (connection, me) = (aside.connection, self.me.clone());
        drop(aside);
        let answer = move |name: Option<String>| {
            // The other forms don't apply to characters.
            if let (Some("String"), Some(me)) = (name.as_deref(), me.upgrade()) {
                me.is_text(connection);
            }
        };
        self.forms.ask(&self.name, Box::new(answer));
    }

    fn is_text(&self, connection: u32) {
        let mut aside = self.aside();
        if aside.connection != connection || !aside.is_connected {
            return;
        }
        let description = (aside.description.as_ref()).map(|description| description.text.clone());
        let Some(form) = &mut aside.form else { return };
        form.name = "String";
        if let Some(told) = form.told.take() {
            let metadata = Metadata {
                form: form.name.to_owned(),
                description: description.unwrap_or_default(),
                ..told
            };
            self.line.event(Event::Metadata(Box::new(metadata)));
        }
    }

    /// Requests the record's description, now and after each reconnect.
    pub(super) fn describe(&self) {
        let mut aside = self.aside();
        if aside.description.is_none() {
            aside.description = Some(Box::default());
            self.look_for_description(&mut aside);
        }
    }

    /// The IOC answers again: a description that didn't arrive in time is requested once more.
    pub(super) fn look_again_for_description(&self) {
        let mut aside = self.aside();
        if (aside.description.as_ref()).is_some_and(|description| description.is_missed) {
            self.look_for_description(&mut aside);
        }
    }

    fn look_for_description(&self, aside: &mut Aside) {
        let (connection, is_connected) = (aside.connection, aside.is_connected);
        let Some(description) = &mut aside.description else {
            return;
        };
        if !is_connected || description.is_asked {
            return;
        }
        description.is_asked = true;
        let name = format!("{}.DESC", field::record(&self.name));
        let whole_name = format!("{name}$");
        let me = self.me.clone();
        self.ask(&name, What::Text, DESCRIPTION_WITHIN, false, move |found| {
            let Some(me) = me.upgrade() else { return };
            match found {
                // A description has up to 40 bytes, one more than a string of Channel Access.
                Some(found) if found.is_full => {
                    let again = me.clone();
                    me.ask(&whole_name, What::Text, LONG_WITHIN, false, move |whole| {
                        again.described(connection, whole.or(Some(found)));
                    });
                }
                found => me.described(connection, found),
            }
        });
    }

    fn described(&self, connection: u32, found: Option<Found>) {
        let mut aside = self.aside();
        let is_of_now = aside.connection == connection;
        let Some(description) = &mut aside.description else {
            return;
        };
        description.is_asked = false;
        let is_revoked = mem::take(&mut description.is_revoked);
        if !is_of_now || is_revoked {
            return self.look_for_description(&mut aside);
        }
        let is_first_miss = found.is_none() && !description.is_missed;
        description.is_missed = found.is_none();
        let text = found.map(|found| found.text).unwrap_or_default();
        description.text.clone_from(&text);
        // Sent also if it is unchanged or empty, because a get may wait for it.
        self.line.event(Event::Description(text));
        if is_first_miss {
            // libca takes longer than a look to notice that an IOC doesn't respond.
            self.look_for_description(&mut aside);
        }
    }

    /// A string of Channel Access has arrived.
    pub(super) fn text(&self, bytes: &[u8], time_ns: i64, alarm: Alarm) {
        let mut aside = self.aside();
        let may_be_cut = bytes.len() >= STRING_BYTES;
        let text = ca::text(bytes);
        match &mut aside.long {
            Long::Yes(_) => return,
            Long::Unasked if may_be_cut => {
                let waiting = Waiting {
                    text,
                    time_ns,
                    alarm,
                };
                aside.long = Long::Asked(Some(Box::new(waiting)));
                self.look_for_long(aside);
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
            Long::Unasked | Long::No => {}
        }
        self.tell(text, time_ns, alarm);
    }

    fn tell(&self, text: String, time_ns: i64, alarm: Alarm) {
        let value = RowValue::Blob(Arc::new(BlobValue::Text(text)));
        self.line.update(time_ns, value, alarm);
    }

    fn look_for_long(&self, aside: MutexGuard<'_, Aside>) {
        let connection = aside.connection;
        drop(aside);
        let Some(name) = field::long_name(&self.name) else {
            return self.long_found(connection, None);
        };
        let me = self.me.clone();
        self.ask(&name, What::Shape, LONG_WITHIN, true, move |found| {
            if let Some(me) = me.upgrade() {
                me.long_found(connection, found);
            }
        });
    }

    fn long_found(&self, connection: u32, found: Option<Found>) {
        let mut aside = self.aside();
        let is_of_now = aside.connection == connection && aside.is_connected;
        let Long::Asked(waiting) = &mut aside.long else {
            return;
        };
        if !is_of_now {
            return;
        }
        let waiting = waiting.take();
        // A string of Channel Access has its NUL in 40 bytes.
        let is_long = found.is_some_and(|found| {
            found.native == NativeType::Char && found.count as usize > STRING_BYTES + 1
        });
        let channel = (field::long_name(&self.name).filter(|_| is_long)).and_then(|name| {
            let sink = Whole {
                wiring: self.me.clone(),
                connection,
            };
            let opener = self.looks.opener();
            opener.open_for_value(&name, Arc::new(sink)).ok()
        });
        match channel {
            Some(channel) => {
                aside.long = Long::Yes(Box::new(Longer {
                    _channel: channel,
                    waiting,
                }));
            }
            None => {
                aside.long = Long::No;
                if let Some(waiting) = waiting {
                    self.tell(waiting.text, waiting.time_ns, waiting.alarm);
                }
            }
        }
    }

    /// A complete long string has arrived.
    fn whole(&self, connection: u32, bytes: &[u8], time_ns: i64, alarm: Alarm) {
        let mut aside = self.aside();
        let is_of_now = aside.connection == connection && aside.is_connected;
        let Long::Yes(longer) = &mut aside.long else {
            return;
        };
        if !is_of_now {
            return;
        }
        if let Some(waiting) = longer.waiting.take() {
            if waiting.time_ns != time_ns {
                self.line.squashed(1);
            }
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
        is_urgent: bool,
        answer: impl FnOnce(Option<Found>) + Send + 'static,
    ) {
        self.looks.ask(Look {
            name: name.to_owned(),
            what,
            within,
            is_urgent,
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
