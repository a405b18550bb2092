//! The routes that show and close the sockets of clients of PVWS: `/pvws/summary` and `/pvws/socket`.

use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use pvwire_schema::types::PvId;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::answer::{Answer, Refusal, plain, with_type};
use super::super::{Audience, Server, Visit};
use super::{JSON, LISTED_PVS};
use crate::access::rule::Identity;
use crate::config::Access;
use crate::doors::pvws::PATH;
use crate::doors::pvws::site::{self, SocketSeen};
use crate::fanout::control::{ControlRequest, TableRead};
use crate::fanout::door_session::HeldName;
use crate::fanout::encoding::Encoding;
use crate::ops::latency::wall_ns;
use crate::session::shard::{DoorClientSeen, DoorClients};
use crate::state::registry::Registry;

/// How long a page waits for a shard or the tick thread.
const PATIENCE: Duration = Duration::from_secs(2);

/// Path of the sockets, and of one by its id.
const SOCKETS: &str = "/pvws/socket";

/// The id in a path such as `/pvws/socket/0.1.2`.
fn id_in(path: &str) -> Option<&str> {
    path.strip_prefix(SOCKETS)?.strip_prefix('/')
}

async fn answered<T>(asked: oneshot::Receiver<T>) -> Option<T> {
    timeout(PATIENCE, asked).await.ok()?.ok()
}

fn milliseconds(at: Instant) -> i64 {
    wall_ns() / 1_000_000 - at.elapsed().as_millis() as i64
}

/// Whether the reader of a page may see a name.
pub(super) fn may_see(registry: &Registry, reader: Option<&Identity>, name: &str) -> bool {
    let permit = |reader| registry.permit(name, reader, Access::Read);
    reader.is_none_or(|reader| permit(reader).is_ok())
}

impl Server {
    /// Whether a request closes a socket. Only operators may, at their own listener.
    pub(in super::super) fn is_close_of_socket(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> bool {
        request.method() == Method::DELETE && self.is_socket_of_operators(request, visit)
    }

    /// Whether a request has the path of a socket at the operators' listener.
    pub(in super::super) fn is_socket_of_operators(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> bool {
        visit.audience == Audience::Operators
            && self.pvws.is_some()
            && id_in(request.uri().path()).is_some()
    }

    /// The answer to a request about sockets; `None` for other paths. Clients see them if they may see the relay's
    /// pages, with the names that they may read.
    pub(super) async fn pvws_sockets(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Option<Result<Answer, Refusal>> {
        let path = request.uri().path();
        let id = id_in(path);
        if id.is_none() && ![SOCKETS, "/pvws/summary"].contains(&path) {
            return None;
        }
        let reader = match self.reader_of_pages(request, visit) {
            Ok(reader) => reader,
            Err(refusal) => return Some(Err(refusal)),
        };
        let all = self.door_clients(id).await;
        if id.is_some() && all.is_empty() {
            let message = "no socket has this id\n";
            return Some(Err((StatusCode::NOT_FOUND, message).into()));
        }
        if request.method() == Method::DELETE {
            return Some(Ok(self.close(&all).await));
        }
        let sockets = self.with_values(all, reader.as_ref()).await;
        let text = if path == "/pvws/summary" {
            site::summary(&sockets)
        } else {
            site::sockets(&sockets)
        };
        Some(Ok(with_type(text, JSON)))
    }

    /// The identity of a client that may see the relay's pages; `None` for operators.
    pub(super) fn reader_of_pages(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Option<Identity>, Refusal> {
        let headers = request.headers();
        if visit.audience == Audience::Operators {
            return Ok(None);
        }
        self.gate.check_pages(headers, visit)?;
        let (identity, _) = self.gate.visitor(headers, visit)?;
        Ok(Some(identity))
    }

    fn door(&self) -> Option<Encoding> {
        let mut doors = self.encodings.doors().iter().copied();
        doors.find(|door| self.encodings.format(*door).path() == PATH)
    }

    /// All clients, the oldest first, or the one with this id.
    async fn door_clients(&self, id: Option<&str>) -> Vec<DoorClientSeen> {
        let Some(door) = self.door() else {
            return Vec::new();
        };
        let wanted = DoorClients {
            door,
            id: id.map(ToOwned::to_owned),
            names: LISTED_PVS,
        };
        let shards = self.admin.shards.iter();
        let asked = shards.map(|shard| shard.door_clients(wanted.clone()));
        let asked: Vec<_> = asked.collect();
        let mut all = Vec::new();
        for clients in asked {
            all.extend(answered(clients).await.into_iter().flatten());
        }
        all.sort_by_key(|seen| seen.since);
        all
    }

    async fn close(&self, clients: &[DoorClientSeen]) -> Answer {
        for seen in clients {
            if let Some(shard) = self.admin.shards.get(seen.client.shard) {
                answered(shard.close(seen.client)).await;
            }
        }
        plain(StatusCode::OK, "closed\n")
    }

    /// The sockets with the values of their PVs, of which at most `LISTED_PVS` are shown.
    async fn with_values(
        &self,
        clients: Vec<DoorClientSeen>,
        reader: Option<&Identity>,
    ) -> Vec<SocketSeen> {
        let is_seen = |held: &HeldName| {
            let name = held.name.as_deref();
            name.is_some_and(|name| may_see(&self.admin.registry, reader, name))
        };
        let mut left = LISTED_PVS;
        let mut shown = Vec::new();
        for mut seen in clients {
            seen.names.truncate(left);
            left -= seen.names.len();
            seen.names.retain(is_seen);
            shown.push(seen);
        }
        let names = shown.iter().flat_map(|seen| &seen.names);
        let pvs: Vec<_> = names.map(|held| held.pv.unwrap_or(PvId::NONE)).collect();
        let (answer, asked) = oneshot::channel();
        let read = TableRead::new(move |table| {
            let latest = |pv: &PvId| table.get(*pv)?.latest.as_ref();
            let values = pvs.iter().map(|pv| Some(latest(pv)?.value.clone()));
            // The receiver may be gone meanwhile.
            let _ = answer.send(values.collect::<Vec<_>>());
        });
        self.admin.control.push(ControlRequest::Read(read));
        let mut values = answered(asked).await.unwrap_or_default().into_iter();
        let mut socket = |seen: DoorClientSeen| {
            let mut socket = SocketSeen {
                id: seen.client.to_string(),
                created_ms: milliseconds(seen.since),
                heard_ms: milliseconds(seen.heard),
                sent_ms: milliseconds(seen.sent),
                queued: seen.held_bytes,
                pvs: Vec::new(),
                arrays: 0,
                max_size: 0,
            };
            for held in seen.names {
                let value = values.next().flatten();
                if let Some(elements) = value.as_ref().and_then(site::elements) {
                    socket.arrays += 1;
                    socket.max_size = socket.max_size.max(elements);
                }
                socket
                    .pvs
                    .push((held.spelling, site::brief(value.as_ref())));
            }
            socket
        };
        shown.into_iter().map(&mut socket).collect()
    }
}
