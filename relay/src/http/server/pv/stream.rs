//! `GET /pv/NAME/stream`: each change of a PV as a server-sent event.
//!
//! The stream reads on while its client doesn't: then it keeps only the newest state and counts what it leaves out.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::Request;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use pvwire_http::event::{BEGIN, KEEP_ALIVE, push_change, push_end, push_skipped};
use pvwire_http::{Program, Route};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::Filter;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until};

use super::millis;
use super::standing::{Standing, refused_name, updates};
use crate::http::server::answer::pieces;
use crate::http::server::answer::{Answer, Refusal, shared_with, with_type};
use crate::http::server::caller::charged;
use crate::http::server::{Server, Visit};
use crate::queries::follow::Follower;
use crate::queries::plain_clients::PlainClient;
use crate::queries::watch::PvState;

/// Longest interval between two updates that a client may ask for.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);

/// A stream without events sends a comment after this time.
const QUIET: Duration = Duration::from_secs(15);

/// States that may wait while the thread of the HTTP server is busy.
const WAITING: usize = 16;

/// A stream of one PV.
struct Stream {
    client: PlainClient,
    name: String,
    follower: Follower,
    selection: Arc<Program>,
    /// The result of the last event.
    last: Bytes,
    /// Updates up to the last event; `None` before the first.
    updates: Option<u64>,
}

impl Server {
    /// `GET /pv/NAME/stream`.
    pub(super) async fn pv_stream(
        self: &Arc<Self>,
        route: &Route,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let interval = millis(request, "interval_ms", MAX_INTERVAL)?.unwrap_or_default();
        let client = self.plain_client(request.headers(), visit).await?;
        let selected = self.selected(request, &client).await?;
        let filter = Some(interval_of(interval));
        let followed = (self.admin.queries).follow(client.caller(), &route.name, filter, WAITING);
        let follower = followed.map_err(refused_name)?;
        if selected.describes {
            // It arrives as a change.
            follower.describe();
        }
        let (sender, body) = pieces();
        let stream = Stream {
            client,
            name: route.name.clone(),
            follower,
            selection: selected.program,
            last: Bytes::new(),
            updates: None,
        };
        tokio::task::spawn_local(stream.run(Arc::clone(self), sender));
        let mut answer = with_type("", "text/event-stream");
        *answer.body_mut() = Either::Right(Either::Right(Either::Left(body)));
        // Makes nginx forward each event at once.
        let buffering = HeaderValue::from_static("no");
        answer.headers_mut().insert("x-accel-buffering", buffering);
        Ok(shared_with(answer, request.headers()))
    }
}

impl Stream {
    /// Sends events until the client is gone or the relay ends the connection.
    async fn run(mut self, server: Arc<Server>, sender: Sender<Bytes>) {
        let mut piece = Some(Bytes::from_static(BEGIN));
        let mut newest: Option<PvState> = None;
        let mut quiet_until = Instant::now() + QUIET;
        loop {
            let state = newest.take_if(|state| piece.is_none() && Standing::of(state).is_shown());
            if let Some(state) = state {
                match self.event(&server, &state).await {
                    Ok(event) => piece = event,
                    Err(refused) => {
                        return end(&sender, CloseCode::TryAgainLater.number(), &refused.message)
                            .await;
                    }
                }
            }
            let code = tokio::select! {
                biased;
                () = sender.closed() => return,
                permit = sender.reserve(), if piece.is_some() => {
                    if let (Ok(permit), Some(piece)) = (permit, piece.take()) {
                        permit.send(piece);
                    }
                    quiet_until = Instant::now() + QUIET;
                    continue;
                }
                code = server.ended(&mut self.client, &self.name) => code,
                state = self.follower.next() => {
                    newest = Some(state);
                    continue;
                }
                () = sleep_until(quiet_until), if piece.is_none() => {
                    piece = Some(Bytes::from_static(KEEP_ALIVE));
                    continue;
                }
            };
            if let Some(piece) = piece {
                // The client may be gone.
                let _ = sender.send(piece).await;
            }
            return end(&sender, code.number(), code.reason()).await;
        }
    }

    /// The event of a state; `None` when the selection's result is that of the last one.
    async fn event(&mut self, server: &Server, state: &PvState) -> Result<Option<Bytes>, Refusal> {
        let owner = &self.client.caller().owner;
        let json = server
            .json(owner, &self.name, (&self.selection, state))
            .await?;
        let updates = updates(state);
        let left_out = self
            .updates
            .map_or(0, |before| updates.saturating_sub(before + 1));
        if json == self.last && left_out > 0 {
            // They are counted with the next event.
            return Ok(None);
        }
        self.updates = Some(updates);
        if json == self.last {
            return Ok(None);
        }
        let mut text = Vec::with_capacity(json.len() + 64);
        if left_out > 0 {
            push_skipped(left_out, &mut text);
        }
        push_change(&json, &mut text);
        let charge = owner.charge(text.len())?;
        self.client.sent(text.len());
        self.last = json;
        Ok(Some(charged(text, charge)))
    }
}

/// Withholds updates that follow the last one within `interval`.
pub(super) fn interval_of(interval: Duration) -> Filter {
    Filter {
        min_interval_ms: u32::try_from(interval.as_millis()).unwrap_or(u32::MAX),
        ..Filter::ALL
    }
}

/// Sends the last event, and waits until the server has taken it.
async fn end(sender: &Sender<Bytes>, code: u16, reason: &str) {
    let mut text = Vec::new();
    push_end(code, reason.trim_end(), &mut text);
    if sender.send(text.into()).await.is_ok() {
        let _ = sender.reserve().await;
    }
}
