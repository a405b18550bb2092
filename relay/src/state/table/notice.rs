//! Applies connection events, access rights and metadata to the entry of a PV.

use std::time::Instant;

use pvwire_schema::types::{Connection, ConnectionState, Metadata, PvId};

use super::entry::Entry;
use super::returning::{WITHOUT_VALUE, is_of_connection};
use super::{Changes, Now, Table};
use crate::ingest::{Event, Notice};

/// What the table does after an event was applied to an entry.
pub(super) enum Then {
    /// Clients are told if the connection or the access rights changed.
    TellConnection,
    /// Likewise, with the times that another relay shows.
    TellMirrored,
    /// Nothing more.
    Nothing,
    /// The entry waits to be found from now on.
    Search,
    /// Likewise `TellConnection`, and the entry waits for value and metadata of the new connection.
    AwaitReturn,
    /// The entry waits for the line that shall feed it.
    AwaitHandover,
}

impl Table {
    pub(super) fn apply_notice(&mut self, changes: &mut Changes, now: Now, notice: Notice) {
        let Notice { pv, opening, event } = notice;
        if pv.index() >= self.entries.len() {
            self.entries.resize_with(pv.index() + 1, Entry::default);
        }
        let entry = &mut self.entries[pv.index()];
        let event = match event {
            Event::FilteredOpened {
                base,
                filter,
                form,
                charge,
            } => {
                let numbers = (pv, opening);
                let filter = (filter, form);
                return self.open_filtered(changes.tick, now, numbers, base, filter, charge);
            }
            Event::Opened { name, puts, charge } => {
                changes.live(pv, name);
                *entry = Entry {
                    opening,
                    line: opening,
                    epoch: opening,
                    searched_since: Some(now.instant),
                    charge,
                    ..Entry::default()
                };
                entry.connection.since_ns = now.wall_ns;
                entry.connection.puts = puts;
                entry.connection_tick = changes.tick;
                // No change is recorded: no client has the PV yet, and its snapshot has it all.
                return self.searching.push_back((now.instant, pv, opening));
            }
            event if entry.opening != opening && entry.line != opening => {
                return entry.note_next(pv, opening, event);
            }
            Event::FilteredClosed => return self.close_filtered(pv),
            Event::Closed => {
                changes.live(pv, None);
                *entry = Entry::default();
                return;
            }
            event => event,
        };
        let before = entry.connection;
        if event.is_sign_of_life() {
            entry.heard_ns = now.wall_ns;
        }
        match entry.apply(changes, now.instant, pv, event) {
            Then::Nothing => {}
            Then::TellConnection => Self::connection_changed(entry, pv, before, changes, now),
            Then::TellMirrored => Self::tell_connection(entry, pv, before, changes),
            Then::Search => {
                let opening = entry.opening;
                self.searching.push_back((now.instant, pv, opening));
                Self::connection_changed(entry, pv, before, changes, now);
            }
            Then::AwaitHandover => {
                let opening = entry.opening;
                self.handing.push((pv, opening));
            }
            Then::AwaitReturn => {
                let opening = entry.opening;
                self.returning.push_back((now.instant, pv, opening));
                Self::connection_changed(entry, pv, before, changes, now);
            }
        }
    }

    /// Records a change of connection or access rights, if there is one.
    pub(super) fn connection_changed(
        entry: &mut Entry,
        pv: PvId,
        before: Connection,
        changes: &mut Changes,
        now: Now,
    ) {
        if entry.connection.state != before.state {
            entry.connection.since_ns = now.wall_ns;
        }
        Self::tell_connection(entry, pv, before, changes);
    }

    fn tell_connection(entry: &mut Entry, pv: PvId, before: Connection, changes: &mut Changes) {
        if entry.connection != before {
            entry.connection_tick = changes.tick;
            changes.connections.push((pv, entry.connection));
        }
    }
}

impl Entry {
    pub(super) fn apply(
        &mut self,
        changes: &mut Changes,
        now: Instant,
        pv: PvId,
        event: Event,
    ) -> Then {
        match event {
            // Handled by the table.
            Event::Opened { .. }
            | Event::Closed
            | Event::FilteredOpened { .. }
            | Event::FilteredClosed => {}
            Event::Puts(puts) => self.connection.puts = puts,
            Event::Succeeded { line } => return self.succeeded(changes, now, pv, line),
            Event::HandingOver { line, to } => {
                self.begin_handover(line, to);
                return Then::AwaitHandover;
            }
            Event::Kept => {
                self.end_handover();
                return Then::Nothing;
            }
            Event::Mirrored(connection) => {
                self.mirror(connection);
                return Then::TellMirrored;
            }
            Event::LostOnBus(count) => {
                self.lost_on_bus = self.lost_on_bus.saturating_add(count);
                return Then::Nothing;
            }
            Event::Queued => self.searched_since = None,
            Event::Searched => {
                if self.searched_since.is_none() {
                    self.searched_since = Some(now);
                    return Then::Search;
                }
            }
            Event::Connected { epoch } => return self.connected(changes, pv, epoch),
            Event::Server(server) => self.server = Some(server),
            Event::Heard(at_ns) => self.heard_ns = self.heard_ns.max(at_ns),
            Event::Unresponsive { heard_ns } => {
                self.heard_ns = self.heard_ns.max(heard_ns);
                self.is_unresponsive = true;
                if self.connection.state == ConnectionState::Connected {
                    self.connection.heard_ns = self.heard_ns;
                }
            }
            Event::Responsive => {
                self.is_unresponsive = false;
                if self.connection.state == ConnectionState::Connected {
                    self.connection.heard_ns = 0;
                }
            }
            Event::Withdrawn { epoch } => {
                self.begin_epoch(changes, pv, epoch);
                self.is_described = false;
                if self.returning.take().is_some() {
                    self.connect();
                }
            }
            Event::Refused { epoch, reason } => self.refused(changes, pv, epoch, reason),
            Event::Disconnected => {
                self.end_reason_of_connection(changes, pv);
                self.disconnected();
            }
            Event::Access { read, write } => {
                let is_granted = read && !self.rights.0;
                self.set_rights(read, write, false);
                if is_granted && self.connection.state == ConnectionState::Connected {
                    // Value and metadata come now.
                    self.returning = Some(Box::default());
                    return Then::AwaitReturn;
                }
            }
            Event::AccessUntried => self.set_rights(true, true, true),
            Event::Missing { epoch, reason } => self.field_missing(changes, pv, epoch, reason),
            Event::Reason(reason) => {
                self.set_reason(changes, pv, reason);
                self.note_unconnected();
            }
            Event::Description(description) => {
                self.describe(changes, pv, description);
                return Then::Nothing;
            }
            Event::Shape(shape) => {
                if let Some(returning) = &mut self.returning {
                    returning.shape = Some(shape);
                }
                return Then::Nothing;
            }
            Event::Metadata(metadata) => {
                let mut metadata = *metadata;
                metadata.epoch = self.shown_epoch(metadata.epoch);
                let refusal = self.refusal().filter(|_| self.is_refused);
                if let Some(refusal) = refusal {
                    refusal.clone_into(&mut metadata.missing_field);
                }
                if let Some(returning) = &mut self.returning {
                    returning.has_metadata = true;
                    if returning.is_value_overdue {
                        WITHOUT_VALUE.clone_into(&mut metadata.missing_field);
                    }
                }
                self.set_metadata(changes, pv, metadata);
                return Then::Nothing;
            }
        }
        Then::TellConnection
    }

    fn connected(&mut self, changes: &mut Changes, pv: PvId, epoch: u32) -> Then {
        if self.line_epoch() != epoch {
            // The type or element count has changed: a value of the old type would be wrong.
            self.begin_epoch(changes, pv, epoch);
        }
        (self.is_refused, self.is_search_overdue) = (false, false);
        self.is_unresponsive = false;
        self.set_reason(changes, pv, String::new());
        // A PV that can't be read sends neither value nor metadata.
        if !self.rights.0 {
            self.connect();
            return Then::TellConnection;
        }
        // Not shown as connected before value and metadata have come again, because those in this entry
        // may be old.
        if self.latest.is_none() {
            self.connect();
        }
        self.returning = Some(Box::default());
        Then::AwaitReturn
    }

    /// Another line feeds the PV. Its value stays, and is old until that line has sent one.
    fn succeeded(&mut self, changes: &mut Changes, now: Instant, pv: PvId, line: u32) -> Then {
        self.end_reason_of_connection(changes, pv);
        self.line = line;
        self.lost_on_bus = 0;
        (self.is_unresponsive, self.is_refused, self.is_mirrored) = (false, false, false);
        self.end_handover();
        self.end_line();
        if self.latest.is_none() && self.metadata.is_none() {
            self.set_epoch(line);
        }
        match self.connection.state {
            ConnectionState::Connecting => {
                self.searched_since = Some(now);
                return Then::Search;
            }
            ConnectionState::Connected => self.disconnected(),
            ConnectionState::NotFound | ConnectionState::Disconnected => {
                (self.returning, self.is_described) = (None, false);
            }
        }
        Then::TellConnection
    }

    /// Shows connection and rights as another relay does. While that one still searches, a value that is old
    /// remains so.
    fn mirror(&mut self, connection: Connection) {
        self.is_mirrored = true;
        let is_searched = connection.state == ConnectionState::Connecting;
        if is_searched && self.connection.state != ConnectionState::Connecting {
            return;
        }
        self.heard_ns = self.heard_ns.max(connection.heard_ns);
        self.is_unresponsive =
            connection.state == ConnectionState::Connected && connection.heard_ns != 0;
        // A server that the other relay has heard from is there: it has the PV and doesn't connect it.
        let is_unfound = connection.state == ConnectionState::NotFound;
        self.is_search_overdue = is_unfound && connection.heard_ns != 0;
        self.connection = Connection {
            puts: self.connection.puts,
            ..connection
        };
    }

    fn disconnected(&mut self) {
        (self.returning, self.is_described) = (None, false);
        self.rights = (false, false);
        self.connection = Connection {
            state: ConnectionState::Disconnected,
            read: false,
            write: false,
            write_unknown: false,
            heard_ns: self.heard_ns,
            ..self.connection
        };
    }

    /// The server is connected and has no such field.
    fn field_missing(&mut self, changes: &mut Changes, pv: PvId, epoch: u32, reason: String) {
        self.extra_bytes = self.bytes_received() as i64;
        self.set_epoch(epoch);
        self.latest = None;
        self.returning = None;
        self.set_rights(false, false, false);
        self.connection.state = ConnectionState::NotFound;
        self.connection.heard_ns = 0;
        self.is_search_overdue = false;
        let metadata = Metadata {
            epoch,
            missing_field: reason,
            ..Metadata::default()
        };
        self.set_metadata(changes, pv, metadata);
    }

    /// Sets when a server that answers searches, but doesn't connect the PV, was heard from. Other relays of a fleet
    /// tell by it such a PV from one that its server doesn't have.
    pub(super) fn note_unconnected(&mut self) {
        if self.connection.state == ConnectionState::NotFound && self.is_search_overdue {
            let is_answered = self.unconnected().is_some();
            self.connection.heard_ns = if is_answered { self.heard_ns } else { 0 };
        }
    }

    /// Says why the PV has no value, in the metadata: what else these say stays valid.
    pub(super) fn set_reason(&mut self, changes: &mut Changes, pv: PvId, reason: String) {
        if self.reason() == reason {
            return;
        }
        let metadata = self
            .metadata
            .as_deref()
            .cloned()
            .unwrap_or_else(|| Metadata {
                epoch: self.epoch(),
                ..Metadata::default()
            });
        let metadata = Metadata {
            missing_field: reason,
            ..metadata
        };
        self.set_metadata(changes, pv, metadata);
    }

    /// What the server of this connection has not sent doesn't matter any more.
    fn end_reason_of_connection(&mut self, changes: &mut Changes, pv: PvId) {
        if is_of_connection(self.reason()) {
            self.set_reason(changes, pv, String::new());
        }
    }

    /// The server can't send the value. The metadata stay, with the reason.
    fn refused(&mut self, changes: &mut Changes, pv: PvId, epoch: u32, reason: String) {
        let is_waiting = self.returning.is_some();
        self.stop_waiting(changes, pv);
        if is_waiting {
            self.connect();
        }
        let before = self.metadata.as_deref();
        self.is_refused = true;
        if self.latest.is_none() && before.is_some_and(|known| known.missing_field == reason) {
            // Clients know it already.
            return self.set_epoch(epoch);
        }
        let metadata = Metadata {
            epoch,
            missing_field: reason,
            ..before.cloned().unwrap_or_default()
        };
        self.begin_epoch(changes, pv, epoch);
        self.set_metadata(changes, pv, metadata);
    }

    fn describe(&mut self, changes: &mut Changes, pv: PvId, description: String) {
        self.is_described = true;
        // If there is no metadata yet, it will come with the description.
        if let Some(metadata) = self.metadata.as_deref()
            && metadata.description != description
        {
            let metadata = Metadata {
                description,
                ..metadata.clone()
            };
            self.set_metadata(changes, pv, metadata);
        }
    }
}
