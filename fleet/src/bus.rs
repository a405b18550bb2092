//! The bus between relays: the calls of a relay, and the events that it gets.
//!
//! Messages arrive at most once, and in order per sender and shard. A lost message is found by its receiver.

use std::time::Duration;

use bytes::Bytes;

use crate::member::MemberId;

/// The calls of a relay to the bus. Each of them returns at once; none waits for the network.
pub trait Bus: Send + Sync {
    /// Tells every member of the site, this one included, that this member lives.
    fn announce(&self, presence: Bytes);

    /// Sends a request to one member. `answer` is called exactly once, by a thread of the bus, and no later than
    /// `timeout` and a moment after this call.
    fn ask(&self, to: MemberId, kind: Kind, body: Bytes, timeout: Duration, answer: Answer);

    /// Publishes a message of one of this member's shards to all members that follow it. The segments make one
    /// message; the bus sends a message above its own limit in pieces.
    ///
    /// Returns false when the message was not queued, because the connection is lost or the queue is full. Those
    /// who follow the shard then miss a message.
    fn publish(&self, shard: u16, message: &[Bytes]) -> bool;

    /// Follows a shard of another member, or stops it.
    fn follow(&self, owner: MemberId, shard: u16, on: bool);

    /// Goes on as another member, over another connection: the receiver hears that the connection is lost and there
    /// again.
    fn rename(&self, me: MemberId);
}

/// What is done with the outcome of a request.
pub type Answer = Box<dyn FnOnce(Result<Bytes, AskError>) + Send>;

/// Why a request has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The request reached no member.
    #[error("the relay is not on the bus")]
    NoMember,
    /// The bus says that the request reached no member. It can't sign that, so another program may have said it, and the
    /// member may have received the request.
    #[error("the relay is not on the bus, or another program on it says so")]
    Unproved,
    /// The member may have received the request.
    #[error("the relay did not answer in time")]
    TimedOut,
    /// The member may have received the request; the connection was lost before its answer came.
    #[error("the connection to the bus was lost before the answer came")]
    Broken,
    /// The request was not sent.
    #[error("there is no connection to the bus")]
    NotSent,
}

impl AskError {
    /// Whether the member may have received and carried out the request.
    pub fn may_have_arrived(self) -> bool {
        matches!(self, Self::Unproved | Self::TimedOut | Self::Broken)
    }
}

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Which PVs of the member another member needs.
    Interest,
    /// A put, get or call.
    Operation,
    /// The past of a PV; since version 2.
    History,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Interest, Self::Operation, Self::History];

    /// The oldest version of the messages that has it.
    pub fn since_version(self) -> u32 {
        match self {
            Self::Interest | Self::Operation => 1,
            Self::History => 2,
        }
    }

    /// The kind as part of a subject.
    pub fn token(self) -> &'static str {
        match self {
            Self::Interest => "interest",
            Self::Operation => "operation",
            Self::History => "history",
        }
    }
}

/// What the bus tells the relay: on one thread of the bus, in the order of arrival. Implementations must not
/// block, because the bus receives nothing meanwhile.
pub trait Receiver: Send + Sync {
    /// A member announced itself. The bytes are unchecked.
    fn announced(&self, presence: Bytes);

    /// Another member sent a request. A reply that is dropped makes the request time out.
    fn requested(&self, from: MemberId, kind: Kind, body: Bytes, reply: Reply);

    /// A message of a shard that this member follows. Pieces have been put together.
    fn message(&self, owner: MemberId, shard: u16, message: Bytes);

    /// The connection to the bus is there (it was not at first), or is lost. What other members sent meanwhile
    /// does not arrive later.
    fn connected(&self, up: bool);

    /// The bus left out messages for this member, of any shard, because this member was too slow.
    fn lost(&self);
}

/// The way back to the member that sent the request.
pub struct Reply(Box<dyn FnOnce(Bytes) + Send>);

impl Reply {
    /// A reply that calls `send`.
    pub fn new(send: impl FnOnce(Bytes) + Send + 'static) -> Self {
        Self(Box::new(send))
    }

    /// Sends the answer. Any thread may do it, at any time.
    pub fn send(self, body: Bytes) {
        (self.0)(body);
    }
}
