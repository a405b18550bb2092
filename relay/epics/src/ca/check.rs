//! Checks what a server sends before libca reads it.
//!
//! libca trusts the header of a message: it converts as many elements as the header says, whether
//! or not they arrived, and calls back for whatever request the header refers to, which frees some
//! requests twice. A faulty or malicious server could therefore crash the process. Here the headers
//! are checked before libca sees them, against the requests that libca has sent. A message that
//! libca would read wrongly is withheld: its PV is told the reason, and the other PVs of the server
//! stay. The circuit ends only if it is unknown where the next message begins. The whole list, with
//! libca's reaction to each case, is in `docs/reports/libca-payload.md`.

mod lie;

use super::asked::Asked;
use super::messages::command::{
    ACCESS_RIGHTS, CLEAR_CHANNEL, CREATE_CH_FAIL, CREATE_CHAN, ECHO, ERROR, EVENT_ADD, READ,
    READ_NOTIFY, READ_SYNC, SEARCH, SERVER_DISCONN, VERSION, WRITE, WRITE_NOTIFY,
};
use super::messages::{Header, LONG, Messages};

pub(super) use self::lie::Lie;

/// Number of request types: the length of libca's table.
const COMMANDS: u16 = 28;

const ECA_NORMAL: u32 = 1;
/// libca itself reports this status at the end of a channel or circuit; it also accepts it from a
/// server.
const ECA_DISCONN: u32 = 24 << 3;
const ECA_CHANDESTROY: u32 = 55 << 3;

/// Maximum number of bytes in a message without values. libca would allocate any announced size.
const MAX_OTHER: u32 = 16_384;

/// Maximum number of bytes in a message with values, more than any array that the relay passes on.
const MAX_VALUES: u32 = 1 << 30;

/// The bytes of libca's smallest buffer for a message. It may convert as many in place, even if
/// fewer arrived.
const BUFFER: u64 = 16_384;

/// Highest type code of a channel that libca accepts, `DBF_DOUBLE`. At another one it ends the
/// circuit.
const MAX_FIELD_TYPE: u16 = 6;

/// The first protocol version whose servers answer an echo.
const ECHO_SINCE: u32 = 3;

/// Types of metadata: `DBR_GR_STRING` to `DBR_CTRL_DOUBLE`. The relay reads no value of theirs.
const METADATA: std::ops::RangeInclusive<u16> = 21..=34;

/// Size of an element that is a string.
const STRING: u16 = 40;

/// Offset of the first element of each `DBR_` type, and the size of an element. `dbr_size` of libca
/// is their sum.
const LAYOUT: [(u16, u16); 39] = [
    // DBR_STRING to DBR_DOUBLE: only the value.
    (0, 40),
    (0, 2),
    (0, 4),
    (0, 2),
    (0, 1),
    (0, 4),
    (0, 8),
    // DBR_STS.
    (4, 40),
    (4, 2),
    (4, 4),
    (4, 2),
    (5, 1),
    (4, 4),
    (8, 8),
    // DBR_TIME.
    (12, 40),
    (14, 2),
    (12, 4),
    (14, 2),
    (15, 1),
    (12, 4),
    (16, 8),
    // DBR_GR.
    (4, 40),
    (24, 2),
    (40, 4),
    (422, 2),
    (19, 1),
    (36, 4),
    (64, 8),
    // DBR_CTRL.
    (4, 40),
    (28, 2),
    (48, 4),
    (422, 2),
    (21, 1),
    (44, 4),
    (80, 8),
    // DBR_PUT_ACKT, DBR_PUT_ACKS, DBR_STSACK_STRING, DBR_CLASS_NAME.
    (0, 2),
    (0, 2),
    (8, 40),
    (0, 40),
];

/// One circuit: the requests that libca has sent, and the position in both streams.
#[derive(Debug, Default)]
pub(super) struct Check {
    pub(super) asked: Asked,
    outgoing: Messages,
    /// Whether libca's thread is sending.
    is_sending: bool,
    /// Bytes of an echo request that are still to be sent.
    echo_left: usize,
    /// Bytes of the present message's payload that have not arrived yet, and what becomes of them.
    rest: u32,
    fate: Fate,
    /// The begin of a message whose verdict depends on what follows.
    held: Vec<u8>,
    /// The protocol version that the server has announced.
    version: Option<u32>,
    /// The first message that libca didn't see since they were last taken, and their number.
    withheld: Option<(Lie, u64)>,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fate {
    /// libca sees it.
    #[default]
    Shown,
    /// The same; it is a text, whose last byte is made a NUL.
    Ended,
    /// libca doesn't see it.
    Withheld,
}

/// What libca would see of everything that a server sends, in pieces of this size, after libca has
/// sent these requests; `None` if the circuit would be cut. For `make fuzz`.
#[doc(hidden)]
pub fn seen(asked: &[u8], received: &[u8], piece: usize) -> Option<Vec<u8>> {
    let mut check = Check::default();
    check.sending(asked);
    check.sent(asked);
    let mut seen = Vec::new();
    for piece in received.chunks(piece.max(1)) {
        let mut bytes = check.held.clone();
        bytes.extend(piece);
        let count = check.received(&mut bytes).ok()?;
        seen.extend(&bytes[..count]);
    }
    Some(seen)
}

/// An echo request.
const ECHO_REQUEST: [u8; 16] = [0, ECHO as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

impl Check {
    /// libca is about to send these bytes.
    pub(super) fn sending(&mut self, bytes: &[u8]) {
        self.is_sending = true;
        // Unsent bytes will be passed again.
        let mut outgoing = self.outgoing.clone();
        outgoing.each(bytes, |header| self.asked.note(header));
    }

    /// These bytes were sent.
    pub(super) fn sent(&mut self, bytes: &[u8]) {
        self.is_sending = false;
        self.outgoing.each(bytes, |_| {});
    }

    /// Requests an echo, which touches no record. Returns false if the server knows none.
    pub(super) fn want_echo(&mut self) -> bool {
        if self.version.is_some_and(|version| version < ECHO_SINCE) {
            return false;
        }
        if self.echo_left == 0 {
            self.echo_left = ECHO_REQUEST.len();
        }
        true
    }

    /// The bytes of an echo request that may be sent now, because libca is not within a message.
    pub(super) fn echo_to_send(&self) -> &'static [u8] {
        if self.is_sending || !self.outgoing.is_between() {
            return &[];
        }
        self.rest_of_echo()
    }

    /// The bytes of an echo request that were not sent.
    pub(super) fn rest_of_echo(&self) -> &'static [u8] {
        &ECHO_REQUEST[ECHO_REQUEST.len() - self.echo_left..]
    }

    /// Whether a part of an echo request was sent, so that the rest must follow.
    pub(super) fn is_within_echo(&self) -> bool {
        (1..ECHO_REQUEST.len()).contains(&self.echo_left)
    }

    /// Some bytes of `echo_to_send` were sent.
    pub(super) fn echo_sent(&mut self, count: usize) {
        self.echo_left = self.echo_left.saturating_sub(count);
    }

    /// The bytes that the next ones follow.
    pub(super) fn held(&self) -> &[u8] {
        &self.held
    }

    /// The first message since the last call that libca didn't see as it was sent, and their number.
    pub(super) fn take_withheld(&mut self) -> Option<(Lie, u64)> {
        self.withheld.take()
    }

    /// Checks the next received bytes, which follow those that are held. Returns how many of them
    /// libca may see; they are moved to the front.
    ///
    /// # Errors
    ///
    /// If it is unknown where the next message begins.
    pub(super) fn received(&mut self, bytes: &mut [u8]) -> Result<usize, Lie> {
        self.held.clear();
        let (mut next, mut shown) = (0, 0);
        while next < bytes.len() {
            let (count, is_shown) = self.step(&mut bytes[next..])?;
            if count == 0 {
                self.held.extend(&bytes[next..]);
                break;
            }
            if is_shown {
                if shown != next {
                    bytes.copy_within(next..next + count, shown);
                }
                shown += count;
            }
            next += count;
        }
        Ok(shown)
    }

    /// The number of bytes in the next part of the stream, and whether libca sees them. 0: more
    /// bytes must arrive first.
    fn step(&mut self, bytes: &mut [u8]) -> Result<(usize, bool), Lie> {
        if self.rest > 0 {
            let count = bytes.len().min(self.rest as usize);
            self.rest -= count as u32;
            if self.rest == 0 && self.fate == Fate::Ended {
                bytes[count - 1] = 0;
            }
            return Ok((count, self.fate != Fate::Withheld));
        }
        match self.plain_updates(bytes) {
            0 => self.begin(bytes),
            count => Ok((count, true)),
        }
    }

    /// The length of the valid updates at the beginning.
    fn plain_updates(&mut self, bytes: &[u8]) -> usize {
        let mut rest = bytes;
        loop {
            let before = rest.len();
            let next = Header::next_whole(EVENT_ADD, &mut rest);
            if !next.is_some_and(|update| self.is_plain(&update)) {
                return bytes.len() - before;
            }
        }
    }

    #[inline]
    fn is_plain(&mut self, update: &Header) -> bool {
        let size = update.size;
        size.is_multiple_of(8)
            && size != 0
            && update.one == ECA_NORMAL
            && LAYOUT
                .get(usize::from(update.data_type))
                .is_some_and(|&(start, element)| {
                    let needed = u64::from(start) + u64::from(element) * u64::from(update.count);
                    needed <= u64::from(size)
                })
            && self.asked.is_subscription(update.two)
    }

    /// Decides about the message at the beginning of these bytes.
    #[inline(never)]
    fn begin(&mut self, bytes: &mut [u8]) -> Result<(usize, bool), Lie> {
        let Some((header, length)) = Header::first(bytes) else {
            return Ok((0, false));
        };
        frame(&header)?;
        let payload = &bytes[length..];
        let payload = &payload[..payload.len().min(header.size as usize)];
        if payload.len() < decisive(&header) {
            return Ok((0, false));
        }
        self.rest = header.size;
        self.fate = Fate::Shown;
        if let Err(lie) = self.judge(&header, payload) {
            if !lie.replace(&header, bytes, self.has_status()) {
                self.fate = Fate::Withheld;
            }
            self.withheld.get_or_insert((lie, 0)).1 += 1;
        } else if header.command == ERROR {
            self.fate = Fate::Ended;
        }
        Ok((length, self.fate != Fate::Withheld))
    }

    /// Whether libca takes a field of answers for a status.
    fn has_status(&self) -> bool {
        self.version.is_some_and(|version| version >= 1)
    }

    fn judge(&mut self, header: &Header, payload: &[u8]) -> Result<(), Lie> {
        let Header { command, size, .. } = *header;
        let (one, id) = (header.one, header.two);
        match command {
            EVENT_ADD if size == 0 => {
                self.asked.cancelled(id);
                Ok(())
            }
            EVENT_ADD => {
                asked_for(self.asked.is_subscription(id), header, id)?;
                self.judge_values(header, payload)
            }
            READ_NOTIFY => {
                // After a circuit was unresponsive for a while, libca reads what is subscribed.
                let known = self.asked.is_subscription(id) || self.asked.read(id);
                asked_for(known, header, id)?;
                self.judge_values(header, payload)
            }
            VERSION => {
                self.version = Some(header.count);
                Ok(())
            }
            ECHO | READ_SYNC => Ok(()),
            SEARCH if self.asked.has_searched() => Ok(()),
            CLEAR_CHANNEL => {
                self.asked.cleared(id);
                Ok(())
            }
            WRITE_NOTIFY => asked_for(self.asked.written(id), header, id),
            CREATE_CHAN => {
                asked_for(self.asked.created(one), header, one)?;
                if header.data_type > MAX_FIELD_TYPE {
                    self.asked.cleared(one);
                    return Err(Lie::Type(header.data_type));
                }
                Ok(())
            }
            ACCESS_RIGHTS | CREATE_CH_FAIL | SERVER_DISCONN => {
                let known = self.asked.is_channel(one);
                if command != ACCESS_RIGHTS {
                    self.asked.created(one);
                    self.asked.cleared(one);
                }
                asked_for(known, header, one)
            }
            ERROR => self.judge_error(size, payload),
            _ => Err(Lie::Command(command)),
        }
    }

    /// Checks that the payload contains everything that libca will read of it.
    fn judge_values(&self, header: &Header, payload: &[u8]) -> Result<(), Lie> {
        let Header {
            data_type: dbr_type,
            count,
            size,
            one: status,
            ..
        } = *header;
        if status != ECA_NORMAL {
            if status == ECA_DISCONN || status == ECA_CHANDESTROY {
                return Err(Lie::Status(status));
            }
            // libca then doesn't read the payload.
            if self.has_status() {
                return Ok(());
            }
        }
        let Some(&(start, element)) = LAYOUT.get(usize::from(dbr_type)) else {
            return Err(Lie::Type(dbr_type));
        };
        let (start, size) = (u64::from(start), u64::from(size));
        let needed = start + u64::from(element) * u64::from(count);
        if needed <= size
            || METADATA.contains(&dbr_type) && start <= size && needed <= BUFFER
            || is_short_string(header) && payload[start as usize..].contains(&0)
        {
            return Ok(());
        }
        Err(Lie::Short {
            dbr_type,
            count,
            size: header.size,
        })
    }

    /// Checks the request that an error refers to. The text is read up to its NUL.
    fn judge_error(&mut self, size: u32, payload: &[u8]) -> Result<(), Lie> {
        let (request, length) = Header::first(payload).ok_or(Lie::Error)?;
        if size as usize <= length {
            return Err(Lie::Error);
        }
        let id = request.two;
        let known = match request.command {
            EVENT_ADD => self.asked.is_subscription(id),
            READ_NOTIFY => self.asked.read(id),
            WRITE_NOTIFY => self.asked.written(id),
            WRITE => self.asked.is_channel(id),
            READ => false,
            command => command < COMMANDS,
        };
        asked_for(known, &request, id)
    }
}

/// Checks that the message's end is known, and that libca can allocate it.
fn frame(header: &Header) -> Result<(), Lie> {
    let Header { command, size, .. } = *header;
    if command >= COMMANDS {
        return Err(Lie::Command(command));
    }
    let most = match command {
        EVENT_ADD | READ_NOTIFY => MAX_VALUES,
        _ => MAX_OTHER,
    };
    if !size.is_multiple_of(8) || size > most {
        return Err(Lie::Size { command, size });
    }
    Ok(())
}

/// How much of the payload must have arrived for a verdict.
fn decisive(header: &Header) -> usize {
    let size = header.size as usize;
    match header.command {
        ERROR => size.min(LONG),
        EVENT_ADD | READ_NOTIFY if is_short_string(header) => size,
        _ => 0,
    }
}

/// Whether the message is one string in fewer bytes than the type has. Servers send a string up to
/// its NUL, and libca reads it up to there.
fn is_short_string(header: &Header) -> bool {
    (LAYOUT.get(usize::from(header.data_type))).is_some_and(|&(start, element)| {
        let (start, size) = (u32::from(start), header.size);
        element == STRING
            && header.count == 1
            && (start + 1..start + u32::from(STRING)).contains(&size)
    })
}

fn asked_for(known: bool, header: &Header, id: u32) -> Result<(), Lie> {
    let command = header.command;
    if known {
        Ok(())
    } else {
        Err(Lie::Unasked { command, id })
    }
}

#[cfg(test)]
mod tests;
