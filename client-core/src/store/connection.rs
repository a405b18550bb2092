//! Stores the connection state and access rights of slots.

use pvwire_schema::types::{Connection, ConnectionState, PvId};

use super::{
    ACCESS_PUTS, ACCESS_READ, ACCESS_REFUSED, ACCESS_TAKEN, ACCESS_UNKNOWN, ACCESS_WRITE, NO_SLOT,
    SIMULATED, Slot, Store, part, state,
};

impl Store {
    /// Sets the connection state and access rights that the relay reports.
    pub fn set_connection(&mut self, slot: Slot, connection: Connection) {
        let name = &self.names[slot as usize];
        let is_simulated = SIMULATED.iter().any(|scheme| name.starts_with(scheme));
        let is_connected = connection.state == ConnectionState::Connected;
        let unknown = connection.write_unknown || self.is_user && is_connected && !is_simulated;
        let access = u8::from(connection.read) * ACCESS_READ
            + u8::from(connection.write) * ACCESS_WRITE
            + u8::from(connection.puts) * ACCESS_PUTS
            + u8::from(unknown) * ACCESS_UNKNOWN;
        let since_ms = connection.since_ns.div_euclid(1_000_000) as f64;
        let at = slot as usize;
        // The result of this client's puts stays valid until the rights change.
        let before = self.pvs[at].access;
        let is_news = before & !(ACCESS_REFUSED | ACCESS_TAKEN) != access
            || self.pvs[at].state != connection.state.number()
            || self.since_ms[at].to_bits() != since_ms.to_bits();
        let access = if is_news { access } else { before };
        let heard_ms = match connection.heard_ns {
            0 => f64::NAN,
            heard_ns => heard_ns.div_euclid(1_000_000) as f64,
        };
        self.set_heard(slot, heard_ms);
        self.set_state(slot, connection.state.number(), since_ms);
        if self.pvs[slot as usize].access != access {
            self.pvs[slot as usize].access = access;
            self.touch(slot, part::ACCESS);
        }
    }

    pub(super) fn set_heard(&mut self, slot: Slot, heard_ms: f64) {
        let before = std::mem::replace(&mut self.pvs[slot as usize].heard_ms, heard_ms);
        if before.to_bits() != heard_ms.to_bits() {
            self.touch(slot, part::CONNECTION);
        }
    }

    /// Records that a put of this client was accepted or refused, whatever the access rights said.
    pub fn tried(&mut self, name: &str, taken: bool) {
        let result = if taken { ACCESS_TAKEN } else { ACCESS_REFUSED };
        self.set_tried(name, ACCESS_TAKEN | ACCESS_REFUSED, result);
    }

    /// Forgets that a put was refused, because another one may be accepted by now: neither rules of a pvAccess
    /// server nor a user's rights are reported.
    pub fn forget_refusal(&mut self, name: &str) {
        self.set_tried(name, ACCESS_REFUSED, 0);
    }

    /// Replaces what puts have shown of the right to write a PV.
    fn set_tried(&mut self, name: &str, forgotten: u8, result: u8) {
        let Some(found) = self.names.iter().position(|known| known == name) else {
            return;
        };
        let mut slot = match self.ids[found] {
            PvId::NONE => return,
            id => self.first(id),
        };
        while slot != NO_SLOT {
            let access = &mut self.pvs[slot as usize].access;
            let now = *access & !forgotten | result;
            if *access != now {
                *access = now;
                self.touch(slot, part::ACCESS);
            }
            slot = self.after(slot);
        }
    }

    pub(super) fn set_state(&mut self, slot: Slot, state: u8, since_ms: f64) {
        let at = slot as usize;
        if self.pvs[at].state != state || self.since_ms[at].to_bits() != since_ms.to_bits() {
            self.pvs[at].state = state;
            self.since_ms[at] = since_ms;
            self.touch(slot, part::CONNECTION);
        }
        if state != state::REFUSED && !self.reasons.is_empty() {
            self.accept(slot);
        }
    }

    pub(super) fn accept(&mut self, slot: Slot) {
        self.reasons.retain(|(refused, _)| *refused != slot);
    }

    /// Records that the relay refused the slot's name.
    pub fn refuse(&mut self, slot: Slot, reason: &str) {
        self.accept(slot);
        self.reasons.push((slot, reason.to_owned()));
        self.pvs[slot as usize].state = state::REFUSED;
        self.since_ms[slot as usize] = f64::NAN;
        self.touch(slot, part::CONNECTION);
    }

    /// Why the relay refused the slot's name; empty if it did not.
    #[must_use]
    pub fn reason(&self, slot: Slot) -> &str {
        let refused = self.reasons.iter().find(|(refused, _)| *refused == slot);
        refused.map_or("", |(_, reason)| reason)
    }

    /// Records that the relay can be reached: new slots are now being searched for.
    pub fn relay_found(&mut self) {
        self.state_of_new = ConnectionState::Connecting.number();
    }

    /// Records that the connection to the relay was lost: ids are no longer valid and every value
    /// is outdated since `heard_ms`, when the last message arrived, NaN if there was none. The loss
    /// was noticed at `now_ms`; both are milliseconds past the POSIX epoch.
    pub fn relay_lost(&mut self, now_ms: f64, heard_ms: f64) {
        self.state_of_new = state::RELAY_LOST;
        self.direct.clear();
        self.others.clear();
        for slot in 0..self.names.len() as Slot {
            self.ids[slot as usize] = PvId::NONE;
            self.pvs[slot as usize].next = NO_SLOT;
            let at = slot as usize;
            if !super::shown::is_of_page(&self.names[at]) && self.pvs[at].state != state::RELAY_LOST
            {
                // A value that was already outdated keeps its earlier time.
                let was_present = self.pvs[at].state == ConnectionState::Connected.number()
                    && self.pvs[at].heard_ms.is_nan();
                if was_present {
                    self.set_heard(slot, heard_ms);
                }
                self.set_state(slot, state::RELAY_LOST, now_ms);
            }
        }
    }
}
