//! The door for clients of Coniql: GraphQL over WebSocket at `/ws`, and over HTTP.
//!
//! A client's subscription makes a form of a PV: the PV with a selection. The tick thread executes each selection of
//! a PV once per update, for all clients that asked the same, and the groups' frames hold these results. Clients
//! give their operations ids; each client's shard puts them before the shared results.

pub mod batch;
mod results;
mod session;

use std::sync::Arc;

use pvwire_coniql::{Dialect, Documents, Protocol, Settings};
use pvwire_schema::types::Request;

use self::results::{LargeSkips, Results};
use self::session::{ConiqlSession, Refuser};
use crate::config::Config;
use crate::fanout::door_session::DoorSession;
use crate::fanout::encoding::{BadRequest, Format, MessageEncoder, MessageKind};

/// Path of the handshake, which pvwire's own clients use, too: the subprotocol tells them apart.
const PATH: &str = "/ws";

/// The door.
#[derive(Clone, Debug)]
pub struct Coniql {
    documents: Arc<Documents>,
    max_names: usize,
    /// Whether the page for trying documents is served.
    pub has_page: bool,
}

impl Coniql {
    /// The door with the operator's settings.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let dialect = if config.coniql_strict {
            Dialect::Coniql
        } else {
            Dialect::Pvwire
        };
        Self {
            documents: Arc::new(Documents::new(dialect)),
            max_names: config.max_subscriptions,
            has_page: config.coniql_graphiql,
        }
    }

    /// The documents of all clients.
    #[must_use]
    pub fn documents(&self) -> Arc<Documents> {
        Arc::clone(&self.documents)
    }

    /// The forms in which clients of the two subprotocols get their messages; the preferred one is the last.
    #[must_use]
    pub fn formats(&self) -> [Speech; 2] {
        [Protocol::Legacy, Protocol::Transport].map(|protocol| {
            Speech::new(Settings {
                protocol,
                documents: Arc::clone(&self.documents),
                max_names: self.max_names,
            })
        })
    }
}

/// One subprotocol of the door.
#[derive(Clone, Debug)]
pub struct Speech {
    settings: Settings,
    large_skips: Arc<LargeSkips>,
}

impl Speech {
    fn new(settings: Settings) -> Self {
        Self {
            settings,
            large_skips: Arc::default(),
        }
    }
}

impl Format for Speech {
    fn path(&self) -> &'static str {
        PATH
    }

    fn subprotocol(&self) -> Option<&'static str> {
        Some(self.settings.protocol.subprotocol())
    }

    fn requests(&self) -> MessageKind {
        MessageKind::Text
    }

    fn request(&self, _message: &[u8]) -> Result<Request, BadRequest> {
        Err(BadRequest::Malformed)
    }

    fn door_session(&self) -> Option<Box<dyn DoorSession>> {
        Some(Box::new(ConiqlSession::new(self.settings.clone())))
    }

    fn encoder(&self) -> Box<dyn MessageEncoder> {
        let documents = Arc::clone(&self.settings.documents);
        Box::new(Results::new(documents, Arc::clone(&self.large_skips)))
    }
}

/// Closes the connections of clients that offer no subprotocol of this path, with the code of graphql-ws: a browser
/// shows its page no reason of a refused handshake.
#[derive(Clone, Copy, Debug)]
pub struct UnknownSubprotocol;

impl Format for UnknownSubprotocol {
    fn path(&self) -> &'static str {
        PATH
    }

    fn subprotocol(&self) -> Option<&'static str> {
        None
    }

    fn requests(&self) -> MessageKind {
        MessageKind::Text
    }

    fn request(&self, _message: &[u8]) -> Result<Request, BadRequest> {
        Err(BadRequest::Malformed)
    }

    fn door_session(&self) -> Option<Box<dyn DoorSession>> {
        Some(Box::new(Refuser))
    }

    fn encoder(&self) -> Box<dyn MessageEncoder> {
        Box::new(results::Nothing)
    }
}

/// The relay's name of a PV that a client names: names without a prefix are of Channel Access.
fn full_name(asked: &str) -> String {
    let asked = asked.trim();
    if asked.contains("://") {
        asked.to_owned()
    } else {
        format!("ca://{asked}")
    }
}
