//! Executes GraphQL documents natively and writes the results as JSON.
//!
//! The crate does no I/O here either. A host, for example a relay's door for GraphQL clients, uses it
//! like this:
//!
//! 1. [`Document::compile`] reads and validates a text once. A document is `Send + Sync`; a host keeps
//!    it in an `Arc` for all clients that send the same text.
//! 2. [`Document::operation`] plans one of its operations with the variables of a request.
//! 3. [`Operation::roots`] says what the host must do: get, put or subscribe PVs by name
//!    ([`Request`]).
//! 4. A query or a mutation: when the host has what was requested, [`Operation::respond`] writes the
//!    response. For each PV the host writes the channel with [`Writer::write`], or copies the bytes
//!    that it wrote for another client, or returns a [`Failure`].
//! 5. A subscription: the host keeps one [`Watch`] for each PV and [`Selection`], whatever the number
//!    of clients. [`Watch::update`] reads the PV after a change; [`Watch::full`] is the first result
//!    of a new subscriber, [`Watch::changes`] the next one of all others. [`Root::push_result`] puts
//!    these bytes into the response of a client's document.
//!
//! The state of a PV is read through the trait [`Pv`]: [`Snapshot`] is made from a relay's table,
//! [`View::pv`](crate::engine::View::pv) from an engine.
//!
//! ```
//! use pvwire_core::graphql::{Dialect, Document, Limits, Sample, Snapshot, Writer};
//! use pvwire_schema::types::{Alarm, Connection, ConnectionState, Severity};
//!
//! let text = "{ getChannel(id: \"TEMP\") { value { float } } }";
//! let document = Document::compile(text, Dialect::Pvwire, Limits::default()).unwrap();
//! let operation = document.operation(None, "").unwrap();
//!
//! let connection = Connection {
//!     state: ConnectionState::Connected,
//!     since_ns: 0,
//!     read: true,
//!     write: false,
//!     puts: false,
//!     heard_ns: 0,
//!     write_unknown: false,
//! };
//! let alarm = Alarm { severity: Severity::NoAlarm, status: 0 };
//! let pv = Snapshot::new("TEMP", &connection, None)
//!     .with_value(Sample::Number(21.5), 1_753_000_000_000_000_000, alarm, None);
//!
//! let mut writer = Writer::new(|_| 0);
//! let mut response = Vec::new();
//! operation.respond(
//!     |channel, out| {
//!         writer.write(channel.selection, &pv, out);
//!         Ok(())
//!     },
//!     &mut response,
//! );
//! assert_eq!(response, br#"{"data":{"getChannel":{"value":{"float":21.5}}}}"#);
//! ```

#[cfg(feature = "graphql")]
mod document;
mod execution;
mod host_operation;
#[cfg(feature = "graphql")]
mod introspection;
mod json;
#[cfg(feature = "graphql")]
mod limits;
#[cfg(feature = "graphql")]
mod native;
mod operation;
mod put_value;
mod respond;
#[cfg(feature = "graphql")]
mod sdl;
#[cfg(all(test, feature = "graphql"))]
mod tests;
#[cfg(feature = "graphql")]
mod watch;
#[cfg(feature = "graphql")]
mod writer;

#[cfg(feature = "graphql")]
pub use self::document::{Document, Refusal};
pub use self::execution::{Execution, Step, Work};
pub use self::host_operation::HostOperation;
#[cfg(feature = "graphql")]
pub use self::introspection::introspect;
#[cfg(feature = "graphql")]
pub use self::limits::Limits;
#[cfg(feature = "graphql")]
pub use self::native::{ChannelRequest, Operation, Root};
pub use self::operation::{OperationKind, OperationOf, Request, RootOf};
pub use self::put_value::{ValueError, put_value, takes_text};
pub use self::respond::{ChannelRequestOf, Failure};
#[cfg(feature = "graphql")]
pub use self::watch::{Watch, is_settled};
#[cfg(feature = "graphql")]
pub use self::writer::{Selection, Writer};
pub use crate::select::execute::{Pv, Sample, Snapshot};

/// Which server's behaviour clients see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The schema and the forms of `docs/reference/graphql.md`: all of Coniql's fields and more.
    #[default]
    Pvwire,
    /// Coniql 0.4.2 to the letter: its schema without additional fields; `datetime` in local time
    /// without a zone; `value` and `time` null while a PV is disconnected; one name without a value
    /// makes the whole `data` null; `role` is `RW` except for simulated PVs.
    Coniql,
}
