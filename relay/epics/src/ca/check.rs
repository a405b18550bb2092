//! Checks what a server sends before libca reads it.
//!
//! libca trusts the header of a message: it converts as many elements as the header says, whether
//! or not they arrived, and calls back for whatever request the header refers to, which frees some
//! requests twice. A faulty or malicious server could therefore crash the process. Here the headers
//! are checked before libca sees them, against the requests that libca has sent, and the first
//! message that no correct server sends is detected. The whole list, with libca's reaction to each
//! case, is in `docs/reports/libca-payload.md`.

use std::fmt;

use super::asked::Asked;
use super::messages::command::{
    ACCESS_RIGHTS, CLEAR_CHANNEL, CREATE_CH_FAIL, CREATE_CHAN, ECHO, ERROR, EVENT_ADD, READ,
    READ_NOTIFY, READ_SYNC, SEARCH, SERVER_DISCONN, VERSION, WRITE, WRITE_NOTIFY,
};
use super::messages::{Header, Messages, Piece};

/// Number of request types that an error may refer to: the length of libca's table.
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

/// Highest type code of a channel, `DBF_NO_ACCESS`.
const MAX_FIELD_TYPE: u16 = 7;

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

/// A message that libca must not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// More elements than bytes.
    Short {
        dbr_type: u16,
        count: u32,
        size: u32,
    },
    /// A type that doesn't exist.
    Type(u16),
    /// A server never sends a message of this kind, or not to this client.
    Command(u16),
    /// Too many bytes, or not a multiple of eight.
    Size { command: u16, size: u32 },
    /// An answer to a request that was not sent, or that was already answered.
    Unasked { command: u16, id: u32 },
    /// A status that only libca itself reports.
    Status(u32),
    /// An error whose text is not terminated, or that refers to no request.
    Error,
}

impl fmt::Display for Lie {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short {
                dbr_type,
                count,
                size,
            } => write!(f, "{count} elements of type {dbr_type} in {size} bytes"),
            Self::Type(dbr_type) => write!(f, "values of the unknown type {dbr_type}"),
            Self::Command(command) => write!(f, "messages of the kind {command}"),
            Self::Size { command, size } => {
                write!(f, "a message of the kind {command} with {size} bytes")
            }
            Self::Unasked { command, id } => {
                write!(
                    f,
                    "a message of the kind {command} for the number {id}, which it was not asked for"
                )
            }
            Self::Status(status) => write!(f, "the status {status}"),
            Self::Error => f.write_str("an error without a request or without an end"),
        }
    }
}

/// One circuit: the requests that libca has sent, and the position in the received stream.
#[derive(Debug, Default)]
pub(super) struct Check {
    pub(super) asked: Asked,
    incoming: Messages,
    outgoing: Messages,
    /// The text of an error that is being received.
    error: Option<ErrorText>,
    /// The server has announced a version whose answers have a status.
    has_status: bool,
}

/// Whether libca would see everything that a server sends, in pieces of this size, after libca has
/// sent these requests. For `make fuzz`.
#[doc(hidden)]
pub fn passes(asked: &[u8], received: &[u8], piece: usize) -> bool {
    let mut check = Check::default();
    check.sending(asked);
    check.sent(asked);
    let mut pieces = received.chunks(piece.max(1));
    pieces.all(|piece| check.received(piece).is_ok())
}

/// The payload of an error: the header of a request and a text.
#[derive(Clone, Copy, Debug, Default)]
struct ErrorText {
    header: [u8; 24],
    filled: usize,
    has_end: bool,
}

impl Check {
    /// libca is about to send these bytes.
    pub(super) fn sending(&mut self, bytes: &[u8]) {
        // Unsent bytes will be passed again.
        let mut outgoing = self.outgoing.clone();
        outgoing.each(bytes, |header| self.asked.note(header));
    }

    /// These bytes were sent.
    pub(super) fn sent(&mut self, bytes: &[u8]) {
        self.outgoing.each(bytes, |_| {});
    }

    /// Checks the next received bytes; returns an error if libca must not see them.
    pub(super) fn received(&mut self, mut bytes: &[u8]) -> Result<(), Lie> {
        loop {
            while let Some(update) = self.incoming.next_whole(EVENT_ADD, &mut bytes) {
                self.judge_update(&update)?;
            }
            match self.incoming.next(&mut bytes) {
                Some(Piece::Header(header)) => self.judge(&header)?,
                Some(Piece::Payload { bytes, is_last }) => self.read_error(bytes, is_last)?,
                None => return Ok(()),
            }
        }
    }

    #[inline]
    fn judge_update(&mut self, update: &Header) -> Result<(), Lie> {
        let Header { size, two: id, .. } = *update;
        let is_plain = size % 8 == 0 && size != 0 && update.one == ECA_NORMAL;
        if is_plain
            && let Some(&(start, element)) = LAYOUT.get(usize::from(update.data_type))
            && u64::from(start) + u64::from(element) * u64::from(update.count) <= u64::from(size)
            && self.asked.is_subscription(id)
        {
            return Ok(());
        }
        self.judge(update)
    }

    fn read_error(&mut self, bytes: &[u8], is_last: bool) -> Result<(), Lie> {
        let Some(error) = &mut self.error else {
            return Ok(());
        };
        error.add(bytes);
        if is_last {
            let error = self.error.take().unwrap_or_default();
            self.judge_error(&error)?;
        }
        Ok(())
    }

    #[inline(never)]
    fn judge(&mut self, header: &Header) -> Result<(), Lie> {
        let Header { command, size, .. } = *header;
        let id = header.two;
        if size % 8 != 0 {
            return Err(Lie::Size { command, size });
        }
        if command == EVENT_ADD {
            if size == 0 {
                self.asked.cancelled(id);
                return Ok(());
            }
            self.judge_values(header)?;
            return asked_for(self.asked.is_subscription(id), header, id);
        }
        if command == READ_NOTIFY {
            self.judge_values(header)?;
            // After a circuit was unresponsive for a while, libca reads what is subscribed.
            let known = self.asked.read(header.two) || self.asked.is_subscription(header.two);
            return asked_for(known, header, header.two);
        }
        if size > MAX_OTHER {
            return Err(Lie::Size { command, size });
        }
        match command {
            VERSION => self.has_status = header.count >= 1,
            ECHO | READ_SYNC => {}
            SEARCH if self.asked.has_searched() => {}
            CLEAR_CHANNEL => self.asked.cleared(header.two),
            WRITE_NOTIFY => {
                let known = self.asked.written(header.two);
                return asked_for(known, header, header.two);
            }
            CREATE_CHAN => {
                if header.data_type > MAX_FIELD_TYPE {
                    return Err(Lie::Type(header.data_type));
                }
                let known = self.asked.created(header.one);
                return asked_for(known, header, header.one);
            }
            ACCESS_RIGHTS | CREATE_CH_FAIL | SERVER_DISCONN => {
                let known = self.asked.is_channel(header.one);
                if command != ACCESS_RIGHTS {
                    self.asked.created(header.one);
                    self.asked.cleared(header.one);
                }
                return asked_for(known, header, header.one);
            }
            ERROR => self.error = Some(ErrorText::default()),
            _ => return Err(Lie::Command(command)),
        }
        // The text is checked when it has arrived.
        if command == ERROR && size == 0 {
            return Err(Lie::Error);
        }
        Ok(())
    }

    /// Checks that the payload contains everything that libca will read of it.
    fn judge_values(&self, header: &Header) -> Result<(), Lie> {
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
            // libca then does not treat it as a status unless the server's version is newer than
            // 4.0.
            if self.has_status && size <= MAX_OTHER {
                return Ok(());
            }
        }
        let Some(&(start, element)) = LAYOUT.get(usize::from(dbr_type)) else {
            return Err(Lie::Type(dbr_type));
        };
        if u64::from(start) + u64::from(element) * u64::from(count) > u64::from(size) {
            return Err(Lie::Short {
                dbr_type,
                count,
                size,
            });
        }
        if size > MAX_VALUES {
            let command = header.command;
            return Err(Lie::Size { command, size });
        }
        Ok(())
    }

    fn judge_error(&mut self, error: &ErrorText) -> Result<(), Lie> {
        let request = error.request().ok_or(Lie::Error)?;
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

fn asked_for(known: bool, header: &Header, id: u32) -> Result<(), Lie> {
    let command = header.command;
    if known {
        Ok(())
    } else {
        Err(Lie::Unasked { command, id })
    }
}

impl ErrorText {
    fn add(&mut self, bytes: &[u8]) {
        let room = self.header.len() - self.filled;
        let (header, text) = bytes.split_at(bytes.len().min(room));
        self.header[self.filled..][..header.len()].copy_from_slice(header);
        self.filled += header.len();
        self.has_end |= text.contains(&0) || self.text_in_header().contains(&0);
    }

    fn is_extended(&self) -> bool {
        self.header[2..4] == [0xff, 0xff]
    }

    /// The part of a long header that follows the bytes of a short one.
    fn text_in_header(&self) -> &[u8] {
        if self.is_extended() || self.filled < 16 {
            &[]
        } else {
            &self.header[16..self.filled]
        }
    }

    /// The request that it refers to, once the error is complete.
    fn request(&self) -> Option<Header> {
        let needed = if self.is_extended() { 24 } else { 16 };
        (self.has_end && self.filled >= needed).then(|| Header::read(&self.header))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ca::message;

    const DBR_TIME_DOUBLE: u16 = 20;

    /// A circuit whose client has created channel 5, subscribed with number 7 and is reading with
    /// number 8.
    fn circuit() -> Check {
        let mut check = Check::default();
        let sent = [
            message(CREATE_CHAN, 0, 0, 5, 13, b"a name\0\0"),
            message(EVENT_ADD, DBR_TIME_DOUBLE, 0, 1, 7, &[0; 16]),
            message(READ_NOTIFY, 0, 1, 1, 8, &[]),
        ]
        .concat();
        check.sending(&sent);
        check.sent(&sent);
        check
    }

    fn verdict(bytes: &[u8]) -> Result<(), Lie> {
        let whole = circuit().received(bytes);
        // In pieces of any size, followed by any data.
        for size in 1..bytes.len() {
            let mut check = circuit();
            let pieces = bytes
                .chunks(size)
                .try_for_each(|piece| check.received(piece));
            assert_eq!(pieces, whole, "in pieces of {size}");
        }
        whole
    }

    #[test]
    fn what_an_honest_server_sends_passes() {
        let honest = [
            message(VERSION, 0, 13, 0, 0, &[]),
            message(ACCESS_RIGHTS, 0, 0, 5, 3, &[]),
            message(CREATE_CHAN, 6, 1, 5, 1, &[]),
            message(EVENT_ADD, DBR_TIME_DOUBLE, 1, ECA_NORMAL, 7, &[0; 24]),
            // No element, and no read access.
            message(EVENT_ADD, DBR_TIME_DOUBLE, 0, ECA_NORMAL, 7, &[0; 16]),
            message(EVENT_ADD, DBR_TIME_DOUBLE, 1, 368, 7, &[0; 8]),
            message(READ_NOTIFY, 0, 1, ECA_NORMAL, 8, &[0; 40]),
            // A subscription is read after the circuit was unresponsive.
            message(READ_NOTIFY, DBR_TIME_DOUBLE, 1, ECA_NORMAL, 7, &[0; 24]),
            message(ECHO, 0, 0, 0, 0, &[]),
            message(
                ERROR,
                0,
                0,
                0,
                192,
                &message(WRITE, 6, 1, 1, 5, b"no!\0...."),
            ),
            // The confirmation, and an update that was sent before it.
            message(EVENT_ADD, DBR_TIME_DOUBLE, 1, 1, 7, &[]),
            message(EVENT_ADD, DBR_TIME_DOUBLE, 1, ECA_NORMAL, 7, &[0; 24]),
            message(CLEAR_CHANNEL, 0, 0, 1, 5, &[]),
            message(SERVER_DISCONN, 0, 0, 5, 0, &[]),
        ];
        assert_eq!(verdict(&honest.concat()), Ok(()));
    }

    #[test]
    fn every_lie_is_found() {
        let unasked = |command, id| Lie::Unasked { command, id };
        let size = |command, size| Lie::Size { command, size };
        let short = |count, size| Lie::Short {
            dbr_type: DBR_TIME_DOUBLE,
            count,
            size,
        };
        let update = |count, status, id, size: usize| {
            message(
                EVENT_ADD,
                DBR_TIME_DOUBLE,
                count,
                status,
                id,
                &vec![0; size],
            )
        };
        let mut long = message(EVENT_ADD, DBR_TIME_DOUBLE, 0, ECA_NORMAL, 7, &[]);
        long[2..4].copy_from_slice(&[0xff, 0xff]);
        long.extend([0, 0, 0, 24, 0xff, 0xff, 0xff, 0xff]);
        let mut huge = long.clone();
        huge[16..].copy_from_slice(&[0xff, 0xff, 0xff, 0xf8, 0, 0, 0, 1]);
        let about =
            |command, id| message(ERROR, 0, 0, 0, 192, &message(command, 6, 1, 1, id, &[0; 8]));
        let cases = [
            (update(2, ECA_NORMAL, 7, 24), short(2, 24)),
            (update(60_000, ECA_NORMAL, 7, 24), short(60_000, 24)),
            (update(0, ECA_NORMAL, 7, 8), short(0, 8)),
            // Without a version the field may not be a status.
            (update(2, 368, 7, 24), short(2, 24)),
            (long, short(u32::MAX, 24)),
            (huge, size(EVENT_ADD, 0xffff_fff8)),
            (update(1, ECA_NORMAL, 7, 28), size(EVENT_ADD, 28)),
            (
                update(1, ECA_CHANDESTROY, 7, 24),
                Lie::Status(ECA_CHANDESTROY),
            ),
            (update(1, ECA_DISCONN, 7, 24), Lie::Status(ECA_DISCONN)),
            (update(1, ECA_NORMAL, 6, 24), unasked(EVENT_ADD, 6)),
            // The answer to a read, sent as an update.
            (update(1, ECA_NORMAL, 8, 24), unasked(EVENT_ADD, 8)),
            (
                message(EVENT_ADD, 39, 1, ECA_NORMAL, 7, &[0; 48]),
                Lie::Type(39),
            ),
            (
                message(READ_NOTIFY, 0, 2, ECA_NORMAL, 8, &[0; 40]),
                Lie::Short {
                    dbr_type: 0,
                    count: 2,
                    size: 40,
                },
            ),
            (
                message(READ_NOTIFY, 0, 1, ECA_NORMAL, 9, &[0; 40]),
                unasked(READ_NOTIFY, 9),
            ),
            (
                message(READ_NOTIFY, 0, 1, ECA_NORMAL, 8, &[0; 40]).repeat(2),
                unasked(READ_NOTIFY, 8),
            ),
            (
                message(WRITE_NOTIFY, 0, 1, ECA_NORMAL, 7, &[]),
                unasked(WRITE_NOTIFY, 7),
            ),
            (
                message(CREATE_CHAN, 6, 1, 5, 1, &[]).repeat(2),
                unasked(CREATE_CHAN, 5),
            ),
            (
                message(CREATE_CHAN, 6, 1, 4, 1, &[]),
                unasked(CREATE_CHAN, 4),
            ),
            (message(CREATE_CHAN, 99, 1, 5, 1, &[]), Lie::Type(99)),
            (
                message(ACCESS_RIGHTS, 0, 0, 4, 0, &[]),
                unasked(ACCESS_RIGHTS, 4),
            ),
            (
                message(SERVER_DISCONN, 0, 0, 4, 0, &[]),
                unasked(SERVER_DISCONN, 4),
            ),
            (message(SEARCH, 0, 0, 5, 5, &[]), Lie::Command(SEARCH)),
            (message(READ, 0, 1, 1, 8, &[0; 40]), Lie::Command(READ)),
            (message(99, 0, 0, 0, 0, &[]), Lie::Command(99)),
            (message(ECHO, 0, 0, 0, 0, &[0; 20_000]), size(ECHO, 20_000)),
            (about(EVENT_ADD, 8), unasked(EVENT_ADD, 8)),
            (about(READ_NOTIFY, 7), unasked(READ_NOTIFY, 7)),
            (about(WRITE_NOTIFY, 7), unasked(WRITE_NOTIFY, 7)),
            (about(0xfff0, 1), unasked(0xfff0, 1)),
            (about(READ, 8), unasked(READ, 8)),
            (message(ERROR, 0, 0, 0, 192, &[1; 8]), Lie::Error),
            (message(ERROR, 0, 0, 0, 192, &[]), Lie::Error),
            (
                message(
                    ERROR,
                    0,
                    0,
                    0,
                    192,
                    &message(VERSION, 0, 0, 0, 0, &[b'x'; 800]),
                ),
                Lie::Error,
            ),
        ];
        for (bytes, lie) in cases {
            assert_eq!(verdict(&bytes), Err(lie), "{lie:?}");
        }
    }

    #[test]
    fn layouts_are_those_of_libca() {
        // SAFETY: a constant table of libca with this length.
        let sizes = unsafe { ca_sys::dbr_size };
        for (dbr_type, (start, element)) in LAYOUT.into_iter().enumerate() {
            assert_eq!(start + element, sizes[dbr_type], "{dbr_type}");
        }
    }

    #[test]
    fn what_is_sent_in_two_halves_is_noted_once_it_is_whole() {
        let request = message(EVENT_ADD, DBR_TIME_DOUBLE, 0, 1, 7, &[0; 16]);
        let mut check = Check::default();
        // The system accepted only part of it at the first attempt.
        check.sending(&request);
        check.sent(&request[..20]);
        check.sending(&request[20..]);
        check.sent(&request[20..]);
        let next = message(EVENT_ADD, DBR_TIME_DOUBLE, 0, 1, 9, &[0; 16]);
        check.sending(&next);
        for id in [7, 9] {
            assert!(check.asked.is_subscription(id));
        }
        assert!(!check.asked.is_subscription(8));
    }
}
