//! Encodings: the forms in which clients get their messages.
//!
//! A client's encoding is chosen at the handshake, by the path and the WebSocket subprotocol, and
//! doesn't change later. A group's frame is made once for each encoding that has members in the
//! group, never per client. Calls through the traits here are made once per message, never per row.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use pvwire_schema::types::{
    Connection, FrameKind, Metadata, Page, PvId, Reply, Request, RequestProblem, SkipCause,
};

use crate::fanout::dirty::Dirty;
use crate::fanout::door_session::DoorSession;
use crate::fanout::frame::Frame;
use crate::fanout::set::PvSet;
use crate::ingest::{Form, OpEnd};
use crate::state::table::{Changes, Latest, Now, Table};

/// One of the relay's `Encodings`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Encoding {
    index: u8,
    /// Encodings whose frames of large values are the same bytes have the same number here.
    large: u8,
}

impl Encoding {
    /// Index in the relay's `Encodings`.
    #[must_use]
    pub fn index(self) -> usize {
        self.index.into()
    }

    /// Index of its frames among those of a large value.
    #[must_use]
    pub fn large_index(self) -> usize {
        self.large.into()
    }
}

/// Whether WebSocket messages carry text or bytes, by their opcodes (RFC 6455, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// UTF-8.
    Text = 0x1,
    /// Bytes.
    Binary = 0x2,
}

/// A request that can't be carried out as it is.
#[derive(Debug, thiserror::Error)]
pub enum BadRequest {
    /// The message is not a request; its connection is closed.
    #[error("not a request")]
    Malformed,
    /// It is a request that the relay refuses; the client gets this answer.
    #[error("request {request} is refused: {message}")]
    Refused {
        /// The request's number.
        request: u32,
        /// Why.
        problem: RequestProblem,
        /// The reason in words, for the user.
        message: String,
    },
}

/// The properties of an encoding: the handshake that selects it, its clients' requests, and the
/// encoder of its messages.
pub trait Format: Send + Sync {
    /// Path of the handshake.
    fn path(&self) -> &'static str;

    /// WebSocket subprotocol that a client must offer; `None` where none is needed.
    fn subprotocol(&self) -> Option<&'static str>;

    /// Kind of its clients' requests.
    fn requests(&self) -> MessageKind;

    /// Reads a request.
    ///
    /// # Errors
    /// When the message is not a request that this relay carries out.
    fn request(&self, message: &[u8]) -> Result<Request, BadRequest>;

    /// Where the number of a request is in its message: 4 bytes, little-endian, in which equal requests differ alone.
    /// `None` if they differ in more.
    fn request_number_at(&self, _message: &[u8]) -> Option<usize> {
        None
    }

    /// Path of the HTTP stream on which a client may fetch its large values, below the path of the
    /// handshake, so that one rule of a proxy leads to both. An empty binary message asks for it.
    fn stream_path(&self) -> Option<&'static str> {
        None
    }

    /// The protocol state of a new client of a door; `None` for encodings whose requests `request` reads one by
    /// one. Clients of a door send no acknowledgements: they are in step while their sockets take what is sent.
    fn door_session(&self) -> Option<Box<dyn DoorSession>> {
        None
    }

    /// An encoding whose frames of large values serve this one, too.
    fn large_values_of(&self) -> Option<Encoding> {
        None
    }

    /// Makes its messages, for one thread.
    fn encoder(&self) -> Box<dyn MessageEncoder>;
}

/// The state of the PV of a large value, without the value.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// Connection and access rights.
    pub connection: Connection,
    /// Its form and metadata; `None` if it is not for clients of a door.
    pub form: Option<&'a (Arc<Form>, Arc<Metadata>)>,
}

/// Values of PVs for an answer: the table and the PVs in it.
pub type Values<'a> = (&'a Table, &'a [PvId]);

/// Makes the messages of one encoding. It belongs to one thread, so that it may keep its buffers.
///
/// An encoding without some kind of message returns an empty frame, and nothing is sent.
pub trait MessageEncoder: Send {
    /// Prepares what all groups share of a tick. Called on the tick thread before the tick's other messages are
    /// made, and only for encodings whose `Format` has door sessions and that have clients.
    fn begin(&mut self, _table: &Table, _changes: &Changes, _now: Now) {}

    /// Forgets PVs that are no longer open; returns whether it keeps something of others. Called about once a second
    /// on the tick thread, only for encodings whose `Format` has door sessions, and only while they have clients or
    /// keep something.
    fn sweep(&mut self, _table: &Table) -> bool {
        false
    }

    /// Everything that `changes` brought for the PVs in `set` except large values, which follow it; `None`
    /// when nothing did. With `dirty`, the index of its rows, rows may come in the order of their PVs.
    fn update(
        &mut self,
        changes: &Changes,
        dirty: Option<&Dirty>,
        set: &PvSet,
        prev_tick: u64,
    ) -> Option<Frame>;

    /// The latest parts of the PVs in `set` that changed after a tick, except large values, which
    /// follow it, with the cause why the client is behind.
    fn catch_up(&mut self, table: &Table, set: &PvSet, since: (u64, SkipCause), tick: u64)
    -> Frame;

    /// One update of a large value, with the PV's connection state: a PV that came back is present only when
    /// its value is.
    fn large(
        &mut self,
        kind: FrameKind,
        tick: u64,
        pv: PvId,
        latest: (&Latest, SkipCause),
        of: Described<'_>,
    ) -> Frame;

    /// An answer with everything that is known of the PVs. Large values are left out of a snapshot and follow
    /// it.
    fn reply_with(
        &mut self,
        kind: FrameKind,
        tick: u64,
        to: u32,
        reply: &Reply,
        values: Values<'_>,
    ) -> Frame;

    /// The same answer to another request, which shares its bytes; `None` if it has to be made.
    fn readdressed(&self, _answer: &Arc<Frame>, _to: u32) -> Option<Frame> {
        None
    }

    /// An answer without values. As with all that follows, a door's session says it in its own way, or not at all.
    fn answer(&mut self, _tick: u64, _to: u32, _reply: &Reply) -> Frame {
        Frame::raw(Vec::new())
    }

    /// The answer to a put.
    fn put_answer(&mut self, _tick: u64, _to: u32, _end: &OpEnd) -> Frame {
        Frame::raw(Vec::new())
    }

    /// The answer to a call.
    fn call_answer(&mut self, _tick: u64, _to: u32, _end: &OpEnd) -> Frame {
        Frame::raw(Vec::new())
    }

    /// A page of the answer to a question.
    fn page(&mut self, _tick: u64, _to: u32, _page: &Page, _content: &[u8]) -> Frame {
        Frame::raw(Vec::new())
    }

    /// A message without content, which asks a client for an acknowledgement.
    fn probe(&mut self, _tick: u64) -> Frame {
        Frame::raw(Vec::new())
    }
}

/// The encodings that a relay offers.
#[derive(Default)]
pub struct Encodings {
    formats: Vec<Box<dyn Format>>,
    encodings: Vec<Encoding>,
    /// The encodings of doors.
    doors: Vec<Encoding>,
    large: u8,
}

impl fmt::Debug for Encodings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths = self.formats.iter().map(|format| format.path());
        formatter.debug_list().entries(paths).finish()
    }
}

impl Encodings {
    /// Adds an encoding. Of several that a client offers it gets the one that was added last.
    pub fn add(&mut self, format: Box<dyn Format>) -> Encoding {
        let large = match format.large_values_of() {
            Some(other) => other.large,
            None => {
                self.large += 1;
                self.large - 1
            }
        };
        let index = self.formats.len() as u8;
        let encoding = Encoding { index, large };
        if format.door_session().is_some() {
            self.doors.push(encoding);
        }
        self.formats.push(format);
        self.encodings.push(encoding);
        encoding
    }

    /// The encoding for a handshake on `path` whose client `offers` these subprotocols, and the subprotocol
    /// to answer with. An encoding that needs no subprotocol is for clients that offer none of the path's.
    pub fn select(
        &self,
        path: &str,
        offers: impl Fn(&str) -> bool,
    ) -> Option<(Encoding, Option<&'static str>)> {
        let of_path = || {
            let formats = self.formats.iter().map(|format| &**format);
            let known = formats.zip(&self.encodings).rev();
            known.filter(|(format, _)| format.path() == path)
        };
        let is_offered = |(format, _): &(&dyn Format, _)| format.subprotocol().is_some_and(&offers);
        let is_open = |(format, _): &(&dyn Format, _)| format.subprotocol().is_none();
        let offered = of_path().find(is_offered);
        let (format, encoding) = offered.or_else(|| of_path().find(is_open))?;
        Some((*encoding, format.subprotocol()))
    }

    /// Whether clients connect on this path.
    #[must_use]
    pub fn has_path(&self, path: &str) -> bool {
        self.formats.iter().any(|format| format.path() == path)
    }

    /// Whether clients fetch their large values on this path.
    #[must_use]
    pub fn has_stream(&self, path: &str) -> bool {
        (self.formats.iter()).any(|format| format.stream_path() == Some(path))
    }

    /// The subprotocols of a path.
    #[must_use]
    pub fn subprotocols(&self, path: &str) -> Vec<&'static str> {
        let formats = self.formats.iter().filter(|format| format.path() == path);
        formats.filter_map(|format| format.subprotocol()).collect()
    }

    /// All paths of handshakes and streams, in alphabetical order.
    #[must_use]
    pub fn paths(&self) -> BTreeSet<&'static str> {
        let of = |format: &dyn Format| [Some(format.path()), format.stream_path()];
        let paths = self.formats.iter().flat_map(|format| of(&**format));
        paths.flatten().collect()
    }

    /// The format of an encoding.
    #[must_use]
    pub fn format(&self, encoding: Encoding) -> &dyn Format {
        &*self.formats[encoding.index()]
    }

    /// Encoders for one thread.
    #[must_use]
    pub fn encoders(&self) -> Encoders {
        let encoders = self.formats.iter().map(|format| format.encoder());
        Encoders(encoders.collect())
    }

    /// All encodings.
    #[must_use]
    pub fn all(&self) -> &[Encoding] {
        &self.encodings
    }

    /// The encodings of doors. The tick thread makes all their frames.
    #[must_use]
    pub fn doors(&self) -> &[Encoding] {
        &self.doors
    }

    /// Number of different frames that a large value may have.
    #[must_use]
    pub fn large_count(&self) -> usize {
        self.large.into()
    }
}

/// One thread's encoders.
pub struct Encoders(Vec<Box<dyn MessageEncoder>>);

impl Encoders {
    /// The encoder of an encoding.
    pub fn of(&mut self, encoding: Encoding) -> &mut dyn MessageEncoder {
        &mut *self.0[encoding.index()]
    }
}

/// One tick's frame of a group in the encodings of its members.
#[derive(Clone, Debug)]
pub struct SharedFrames(Box<[Option<Arc<Frame>>]>);

impl SharedFrames {
    /// Makes the frame once for each encoding that has `members`; `None` when the tick has nothing for them.
    pub(super) fn make(
        members: &[usize],
        encoders: &mut Encoders,
        mut make: impl FnMut(&mut dyn MessageEncoder) -> Option<Frame>,
    ) -> Option<Self> {
        let mut frame = |(members, encoder): (&usize, &mut Box<dyn MessageEncoder>)| {
            let frame = (*members > 0).then(|| make(&mut **encoder)).flatten()?;
            Some(Arc::new(frame))
        };
        let frames: Box<_> = members
            .iter()
            .zip(&mut encoders.0)
            .map(&mut frame)
            .collect();
        frames.iter().any(Option::is_some).then_some(Self(frames))
    }

    /// The frame in this encoding; `None` when the group had no member with it.
    #[must_use]
    pub fn of(&self, encoding: Encoding) -> Option<&Arc<Frame>> {
        self.0.get(encoding.index())?.as_ref()
    }
}
