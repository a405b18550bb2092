//! Servers that announce themselves, and the names that a server lists.

use std::fmt;

use super::node::{Node, NodeValue};
use super::request::OpError;

/// The pseudo-PV by which every server answers questions about itself. No search finds it.
pub(super) const SERVER: &str = "server";

/// A server that is there, or is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFound {
    /// Address and port.
    pub address: String,
    /// Changes at each restart of the server; empty for a name server, which is reported at each connection.
    pub guid: Vec<u8>,
    /// Whether it is there.
    pub is_online: bool,
}

/// Receives reports of servers.
type Report = Box<dyn Fn(ServerFound) + Send + Sync>;

/// The receiver of a discovery, which its callbacks and the pva-cmd thread share.
pub(super) struct Servers(Report);

impl Servers {
    pub(super) fn new(report: Report) -> Self {
        Self(report)
    }

    pub(super) fn found(&self, server: ServerFound) {
        (self.0)(server);
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").finish_non_exhaustive()
    }
}

/// The names in a server's answer.
pub(super) fn listed(answer: Option<Node>) -> Result<Vec<String>, OpError> {
    let no_list = || OpError::Remote("the answer is not a list of names".to_owned());
    let mut fields = match answer.map(|answer| answer.value) {
        Some(NodeValue::Structure(fields)) => fields.into_iter(),
        _ => return Err(no_list()),
    };
    let value = fields.find(|field| field.name == "value");
    match value.map(|value| value.value) {
        Some(NodeValue::TextArray(names)) => Ok(names),
        _ => Err(no_list()),
    }
}
