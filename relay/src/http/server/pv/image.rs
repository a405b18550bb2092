//! `GET /pv/NAME.png` and `GET /pv/NAME.mjpeg`: images of detectors and cameras.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Request, StatusCode};
use pvwire_http::{Image, ImageError, Route};
use tokio::sync::mpsc::Sender;

use super::millis;
use super::standing::{Standing, refused_name, structure, updates};
use super::stream::interval_of;
use crate::compute::Size;
use crate::http::server::answer::pieces;
use crate::http::server::answer::{Answer, Refusal, shared_with, with_type};
use crate::http::server::caller::charged;
use crate::http::server::{Server, Visit};
use crate::limits::memory::Owner;
use crate::queries::follow::Follower;
use crate::queries::plain_clients::PlainClient;
use crate::queries::watch::PvState;

/// Bytes that an image takes while it is converted, for each byte of its elements.
const CONVERSION_FACTOR: usize = 4;

/// Longest interval between two images that a client may ask for.
const MAX_INTERVAL: Duration = Duration::from_secs(3600);

/// An encoder.
type Encode = fn(&Image) -> Result<Vec<u8>, ImageError>;

impl Server {
    /// `GET /pv/NAME.png`.
    pub(super) async fn pv_png(
        &self,
        route: &Route,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let patience = self.patience(request)?;
        let mut client = self.plain_client(request.headers(), visit).await?;
        let (_, bytes) = self.first(&mut client, route, patience, Image::png).await?;
        client.sent(bytes.len());
        Ok(shared_with(
            with_type(bytes, "image/png"),
            request.headers(),
        ))
    }

    /// `GET /pv/NAME.mjpeg`. Its client gets the newest image each time that it has read one.
    pub(super) async fn pv_mjpeg(
        self: &Arc<Self>,
        route: &Route,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let interval = millis(request, "interval_ms", MAX_INTERVAL)?.unwrap_or_default();
        let patience = self.patience(request)?;
        let mut client = self.plain_client(request.headers(), visit).await?;
        // It holds the PV from now on.
        let follower = (self.admin.queries)
            .follow(client.caller(), &route.name, Some(interval_of(interval)), 1)
            .map_err(refused_name)?;
        let (state, first) = self
            .first(&mut client, route, patience, Image::jpeg)
            .await?;
        let name = route.name.clone();
        let (sender, body) = pieces();
        let server = Arc::clone(self);
        tokio::task::spawn_local(async move {
            let begin = [BOUNDARY, &part(&first)].concat();
            if sender.send(begin.into()).await.is_ok() {
                server
                    .follow((client, name), follower, state, &sender)
                    .await;
            }
        });
        let mut answer = with_type("", "multipart/x-mixed-replace; boundary=image");
        *answer.body_mut() = Either::Right(Either::Right(Either::Left(body)));
        let buffering = HeaderValue::from_static("no");
        answer.headers_mut().insert("x-accel-buffering", buffering);
        Ok(shared_with(answer, request.headers()))
    }

    /// The first image, and the state that it shows.
    async fn first(
        &self,
        client: &mut PlainClient,
        route: &Route,
        patience: Duration,
        encode: Encode,
    ) -> Result<(PvState, Bytes), Refusal> {
        let settled = self.settled(client, &route.name, (patience, false));
        let state = settled.await?;
        let standing = Standing::of(&state);
        if standing != Standing::Current {
            return Err(standing.error(patience).into());
        }
        let encoded = self.encoded(&client.caller().owner, state.clone(), encode);
        let bytes = encoded.await?;
        Ok((state, bytes))
    }

    /// Sends the newest image whenever the last one is taken. While it is outdated it is crossed out. `last` is the
    /// state whose image the client has got.
    async fn follow(
        &self,
        (mut client, name): (PlainClient, String),
        follower: Follower,
        mut last: PvState,
        sender: &Sender<Bytes>,
    ) {
        let (mut is_outdated, mut sent) = (false, None);
        loop {
            let state = tokio::select! {
                () = sender.closed() => return,
                _ = self.ended(&mut client, &name) => return,
                state = follower.next() => state,
            };
            let count = updates(&state);
            let before = *sent.get_or_insert(count);
            let is_current = Standing::of(&state) == Standing::Current;
            let is_shown = is_current && !is_outdated && is_same(&last, &state);
            if is_shown || !is_current && is_outdated {
                continue;
            }
            is_outdated = !is_current;
            // A present value that is no image ends the stream.
            if is_current || structure(&state).is_some() {
                last = state;
            }
            let encode = if is_current {
                Image::jpeg
            } else {
                Image::outdated_jpeg
            };
            self.admin
                .metrics
                .images_skipped
                .inc_by(count.saturating_sub(before + 1));
            sent = Some(count);
            let encoded = self.encoded(&client.caller().owner, last.clone(), encode);
            let bytes = match encoded.await {
                Ok(bytes) => bytes,
                Err(refused) => return log::debug!("a stream of images ends: {}", refused.message),
            };
            client.sent(bytes.len());
            if sender.send(part(&bytes)).await.is_err() {
                return;
            }
        }
    }

    /// Converts a value on another thread.
    async fn encoded(
        &self,
        owner: &Arc<Owner>,
        state: PvState,
        encode: Encode,
    ) -> Result<Bytes, Refusal> {
        let refused = |error: ImageError| -> Refusal {
            (StatusCode::NOT_ACCEPTABLE, format!("{error}\n")).into()
        };
        let node = structure(&state).ok_or_else(|| refused(ImageError::NoImage))?;
        let size = Image::element_bytes(node);
        let mut charge = owner.charge(size * CONVERSION_FACTOR)?;
        let convert = move || {
            let node = structure(&state).ok_or(ImageError::NoImage)?;
            Image::of(node).and_then(|image| encode(&image))
        };
        let size = Size::of(size);
        let bytes = self.pool.compute(owner.cpu(), size, convert).await?;
        let bytes = bytes.map_err(refused)?;
        charge.resize(bytes.len())?;
        Ok(charged(bytes, charge))
    }
}

/// Whether both states show the same update.
fn is_same(one: &PvState, other: &PvState) -> bool {
    let update = |state: &PvState| {
        let epoch = state.metadata.as_ref().map(|metadata| metadata.epoch);
        (epoch, state.latest.as_ref().map(|latest| latest.sequence))
    };
    update(one) == update(other)
}

/// Precedes each image of the body.
const BOUNDARY: &[u8] = b"--image\r\n";

/// One image of the body. The boundary before the next one follows at once: a browser shows an image only when it has
/// read that.
fn part(jpeg: &Bytes) -> Bytes {
    let length = jpeg.len();
    let head = format!("Content-Type: image/jpeg\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), jpeg, b"\r\n", BOUNDARY].concat().into()
}
