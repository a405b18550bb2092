//! The routes that show and close the sockets of clients of PVWS: `/pvws/summary` and `/pvws/socket`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::{Method, Request, StatusCode};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::PvId;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::super::answer::{Answer, Refusal, plain, with_type};
use super::super::{Audience, Server, Visit};
use super::{JSON, LISTED_PVS};
use crate::access::rule::Identity;
use crate::compute::Size;
use crate::config::Access;
use crate::doors::pvws::PATH;
use crate::doors::pvws::site::{self, SocketSeen};
use crate::fanout::control::{ControlRequest, TableRead};
use crate::fanout::door_session::HeldName;
use crate::fanout::encoding::Encoding;
use crate::ingest::RowValue;
use crate::limits::cpu::CpuShare;
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
pub(in super::super) fn may_see(
    registry: &Registry,
    reader: Option<&Identity>,
    name: &str,
) -> bool {
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
        let write = if path == "/pvws/summary" {
            site::summary
        } else {
            site::sockets
        };
        let cpu = self.cpu_of_reader(request, visit, reader.as_ref());
        let text = self.with_values(&cpu, (all, reader), write).await;
        Some(text.map(|text| with_type(text, JSON)))
    }

    /// The CPU budgets of a client that may see the relay's pages.
    pub(in super::super) fn cpu_of_reader(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
        reader: Option<&Identity>,
    ) -> CpuShare {
        let address = self.gate.address_of(request.headers(), visit);
        let user = reader.and_then(|reader| reader.user.as_deref());
        self.admin.memory.owner(&address, user).cpu().clone()
    }

    /// The identity of a client that may see the relay's pages; `None` for operators.
    pub(in super::super) fn reader_of_pages(
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
                answered(shard.close(seen.client, CloseCode::Normal)).await;
            }
        }
        plain(StatusCode::OK, "closed\n")
    }

    /// The sockets with the values of their PVs, of which at most `LISTED_PVS` are shown, as `write` writes them.
    async fn with_values(
        &self,
        cpu: &CpuShare,
        (clients, reader): (Vec<DoorClientSeen>, Option<Identity>),
        write: fn(&[SocketSeen]) -> Vec<u8>,
    ) -> Result<Vec<u8>, Refusal> {
        let registry = Arc::clone(&self.admin.registry);
        let choose = move || shown(clients, &registry, reader.as_ref());
        let shown = self.pool.compute(cpu, Size::Short, choose).await?;
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
        let values = answered(asked).await.unwrap_or_default();
        let write = move || {
            let mut values = values.into_iter();
            let sockets = shown.into_iter().map(|seen| socket(seen, &mut values));
            write(&sockets.collect::<Vec<_>>())
        };
        Ok(self.pool.compute(cpu, Size::Short, write).await?)
    }
}

/// The clients with the names that are shown to a reader.
fn shown(
    clients: Vec<DoorClientSeen>,
    registry: &Registry,
    reader: Option<&Identity>,
) -> Vec<DoorClientSeen> {
    let is_seen = |held: &HeldName| {
        let name = held.name.as_deref();
        name.is_some_and(|name| may_see(registry, reader, name))
    };
    let mut left = LISTED_PVS;
    let shown = clients.into_iter().map(|mut seen| {
        seen.names.truncate(left);
        left -= seen.names.len();
        seen.names.retain(is_seen);
        seen
    });
    shown.collect()
}

/// A client as it is shown, with the next of these values for each of its names.
fn socket(seen: DoorClientSeen, values: &mut impl Iterator<Item = Option<RowValue>>) -> SocketSeen {
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
}
