//! The protocol of Coniql: GraphQL over WebSocket, in both subprotocols, and over HTTP.
//!
//! This crate has no I/O and no clock: the relay owns the sockets and the PVs, and passes times in. Documents are
//! compiled and executed by the engine, `pvwire_core::graphql`. `docs/reference/coniql.md` lists the differences
//! from Coniql 0.4.2.

#![forbid(unsafe_code)]

mod documents;
mod message;
mod payload;
mod records;
mod selections;
mod socket;

pub use pvwire_core::graphql::{
    ChannelRequest, Dialect, Failure, Operation, OperationKind, Request, Sample, Snapshot, Watch,
    Writer, put_value,
};
pub use pvwire_core::store::{CAUSES, part};

pub use documents::Documents;
pub use message::{Protocol, ReadMessage, Settings, may_introspect};
pub use payload::{MOST_IN_A_BATCH, Payload, PayloadError, Requests};
pub use records::{Records, push_record};
pub use selections::{Known, Selections};
pub use socket::{Reply, Socket, Wanted};
