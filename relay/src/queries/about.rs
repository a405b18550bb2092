//! The service `about`: which server a PV is on, and who wrote to it last through this relay.
//!
//! Those who may write to a PV are told who did; others are not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use pvwire_schema::types::Outcome;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::access::caller::Caller;
use crate::config::Access;
use crate::fanout::control::{ControlQueue, ControlRequest, TableRead};
use crate::queries::service::Service;
use crate::session::question::{Page, Problem, Question, Reply};
use crate::state::last_writes::LastWrite;
use crate::state::registry::Registry;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    pv: String,
}

fn json_of(write: LastWrite) -> Value {
    let at = write.at.duration_since(UNIX_EPOCH).unwrap_or_default();
    // The port tells people nothing.
    let address = match write.address.parse::<SocketAddr>() {
        Ok(address) => address.ip().to_string(),
        Err(_) => write.address,
    };
    json!({
        "timeMs": at.as_millis() as u64,
        "user": write.user,
        "address": address,
        "value": write.value,
        "confirmed": write.is_confirmed,
    })
}

/// The service.
pub struct AboutService {
    registry: Arc<Registry>,
    control: Arc<ControlQueue>,
}

impl AboutService {
    /// A service that reads the table by `control`.
    #[must_use]
    pub fn new(registry: Arc<Registry>, control: Arc<ControlQueue>) -> Self {
        Self { registry, control }
    }

    /// The name, and its last write if the caller may know it.
    fn read(&self, caller: &Caller, body: &[u8]) -> Result<(String, Option<LastWrite>), Problem> {
        let Wanted { pv } = serde_json::from_slice(body).map_err(|error| {
            let why = format!("the question is not a JSON object with pv: {error}");
            Problem::new(Outcome::BadValue, why)
        })?;
        let permit = |access| self.registry.permit(&pv, &caller.identity, access);
        permit(Access::Read).map_err(|refusal| Problem::new(refusal.outcome(), refusal.message))?;
        let write = match permit(Access::Put) {
            Ok(()) => self.registry.last_write(&pv),
            Err(_) => None,
        };
        Ok((pv, write))
    }
}

impl Service for AboutService {
    fn name(&self) -> &'static str {
        "about"
    }

    fn answer(&self, question: &Question, reply: Reply) {
        let (pv, write) = match self.read(&question.caller, &question.body) {
            Ok(read) => read,
            Err(problem) => return reply.give(Err(problem)),
        };
        let id = self.registry.open_pv(&pv);
        let read = TableRead::new(move |table| {
            let entry = id.and_then(|id| table.get(id));
            let server = entry.and_then(|entry| entry.server.as_deref());
            let answer = json!({ "server": server, "lastWrite": write.map(json_of) });
            let content = answer.to_string().into_bytes();
            reply.give(Ok(Page {
                content,
                rest: None,
            }));
        });
        self.control.push(ControlRequest::Read(read));
    }
}
