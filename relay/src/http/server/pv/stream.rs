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
use pvwire_http::{Program, Route, Standing, Talk};
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, sleep_until};

use super::link::{Ended, Link};
use super::{lacks_token, millis, refused_name, selected};
use crate::http::server::answer::{Answer, Refusal, shared_with, with_type};
use crate::http::server::pieces::pieces;
use crate::http::server::read::charged;
use crate::http::server::{Server, Visit};

/// Longest interval between two updates that a client may ask for.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);

/// A stream without events sends a comment after this time.
const QUIET: Duration = Duration::from_secs(15);

/// A stream of one PV.
struct Stream {
    link: Link,
    talk: Talk,
    selection: Program,
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
        let (selection, has_description) = selected(request)?;
        let interval = millis(request, "interval_ms", MAX_INTERVAL)?.unwrap_or_default();
        let (mut link, mut talk) = self.opened(route, interval, request, visit)?;
        if has_description {
            talk.describe();
        }
        while !talk.is_subscribed() {
            lacks_token(&talk)?;
            link.turn(&mut talk).await?;
        }
        if let Standing::Refused(problem, message) = talk.standing() {
            return Err(refused_name(problem, &message));
        }
        let (sender, body) = pieces();
        let stream = Stream {
            link,
            talk,
            selection,
            last: Bytes::new(),
            updates: None,
        };
        tokio::task::spawn_local(stream.run(Arc::clone(self), sender));
        let mut answer = with_type("", "text/event-stream");
        *answer.body_mut() = Either::Right(Either::Right(body));
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
        let mut has_changed = true;
        let mut quiet_until = Instant::now() + QUIET;
        loop {
            if has_changed && piece.is_none() && !is_open(&self.talk.standing()) {
                has_changed = false;
                match self.event(&server).await {
                    Ok(event) => piece = event,
                    Err(refused) => return end(&sender, 1013, &refused.message).await,
                }
            }
            let ended = tokio::select! {
                biased;
                () = sender.closed() => return,
                permit = sender.reserve(), if piece.is_some() => {
                    if let (Ok(permit), Some(piece)) = (permit, piece.take()) {
                        permit.send(piece);
                    }
                    quiet_until = Instant::now() + QUIET;
                    continue;
                }
                turned = self.link.turn(&mut self.talk) => {
                    has_changed |= self.talk.take_change();
                    turned.err()
                }
                () = sleep_until(quiet_until), if piece.is_none() => {
                    piece = Some(Bytes::from_static(KEEP_ALIVE));
                    continue;
                }
            };
            if let Some(ended) = ended {
                return self.farewell(&sender, piece, &ended).await;
            }
        }
    }

    /// The event of the present state; `None` when the selection's result is that of the last one.
    async fn event(&mut self, server: &Server) -> Result<Option<Bytes>, Refusal> {
        let owner = Arc::clone(self.link.owner());
        let json = server
            .json(&owner, self.talk.select(&self.selection))
            .await?;
        let updates = self.talk.updates();
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
        self.last = json;
        Ok(Some(charged(text, charge)))
    }

    /// Sends what still waits and why the stream ends.
    async fn farewell(self, sender: &Sender<Bytes>, piece: Option<Bytes>, ended: &Ended) {
        if let Some(piece) = piece {
            // The client may be gone.
            let _ = sender.send(piece).await;
        }
        end(sender, ended.code(), &ended.reason()).await;
    }
}

/// Whether it isn't known yet what the PV is.
fn is_open(standing: &Standing) -> bool {
    matches!(standing, Standing::Awaited | Standing::Searched(_))
}

/// Sends the last event, and waits until the server has taken it.
async fn end(sender: &Sender<Bytes>, code: u16, reason: &str) {
    let mut text = Vec::new();
    push_end(code, reason.trim_end(), &mut text);
    if sender.send(text.into()).await.is_ok() {
        let _ = sender.reserve().await;
    }
}
