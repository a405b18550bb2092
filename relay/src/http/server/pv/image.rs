//! `GET /pv/NAME.png` and `GET /pv/NAME.mjpeg`: images of detectors and cameras.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Either;
use hyper::body::Incoming;
use hyper::header::HeaderValue;
use hyper::{Request, StatusCode};
use pvwire_http::{Image, ImageError, Node, Route, Standing, Talk};
use tokio::sync::mpsc::Sender;

use super::link::Link;
use super::{millis, not_current, settled};
use crate::compute::Size;
use crate::http::server::answer::{Answer, Refusal, shared_with, with_type};
use crate::http::server::pieces::pieces;
use crate::http::server::read::charged;
use crate::http::server::{Server, Visit};
use crate::limits::memory::Owner;

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
        let (mut link, mut talk) = self.opened(route, Duration::ZERO, request, visit)?;
        let bytes = self
            .first(&mut link, &mut talk, patience, Image::png)
            .await?;
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
        let (mut link, mut talk) = self.opened(route, interval, request, visit)?;
        let first = self
            .first(&mut link, &mut talk, patience, Image::jpeg)
            .await?;
        talk.take_change();
        let updates = talk.updates();
        let (sender, body) = pieces();
        let server = Arc::clone(self);
        tokio::task::spawn_local(async move {
            let begin = [BOUNDARY, &part(&first)].concat();
            if sender.send(begin.into()).await.is_ok() {
                server.follow(link, talk, updates, &sender).await;
            }
        });
        let mut answer = with_type("", "multipart/x-mixed-replace; boundary=image");
        *answer.body_mut() = Either::Right(Either::Right(body));
        let buffering = HeaderValue::from_static("no");
        answer.headers_mut().insert("x-accel-buffering", buffering);
        Ok(shared_with(answer, request.headers()))
    }

    /// The first image.
    async fn first(
        &self,
        link: &mut Link,
        talk: &mut Talk,
        patience: Duration,
        encode: Encode,
    ) -> Result<Bytes, Refusal> {
        let standing = settled(link, talk, patience).await?;
        if standing != Standing::Current {
            let (status, message) = not_current(standing, patience)?;
            return Err((status, message).into());
        }
        self.encoded(link.owner(), talk.structure(), encode).await
    }

    /// Sends the newest image whenever the last one is taken. While it is outdated it is crossed out. `sent` is the
    /// number of the update that the client has got.
    async fn follow(&self, mut link: Link, mut talk: Talk, mut sent: u64, sender: &Sender<Bytes>) {
        let mut is_outdated = false;
        let mut last = talk.structure();
        loop {
            tokio::select! {
                () = sender.closed() => return,
                turned = link.turn(&mut talk) => if turned.is_err() { return },
            }
            // Those that came meanwhile are older.
            while let Ok(true) = link.take(&mut talk) {}
            if !talk.take_change() {
                continue;
            }
            let is_current = talk.standing() == Standing::Current;
            if !is_current && std::mem::replace(&mut is_outdated, true) {
                continue;
            }
            is_outdated = !is_current;
            last = talk.structure().or(last);
            let encode = if is_current {
                Image::jpeg
            } else {
                Image::outdated_jpeg
            };
            let skipped = talk.updates().saturating_sub(sent + 1);
            sent = talk.updates();
            self.admin.metrics.images_skipped.inc_by(skipped);
            let encoded = self.encoded(link.owner(), last.clone(), encode);
            let bytes = match encoded.await {
                Ok(bytes) => bytes,
                Err(refused) => return log::debug!("a stream of images ends: {}", refused.message),
            };
            if sender.send(part(&bytes)).await.is_err() {
                return;
            }
        }
    }

    /// Converts a value on another thread.
    async fn encoded(
        &self,
        owner: &Arc<Owner>,
        node: Option<Node>,
        encode: Encode,
    ) -> Result<Bytes, Refusal> {
        let refused = |error: ImageError| -> Refusal {
            (StatusCode::NOT_ACCEPTABLE, format!("{error}\n")).into()
        };
        let node = node.ok_or_else(|| refused(ImageError::NoImage))?;
        let size = Image::element_bytes(&node);
        let mut charge = owner.charge(size * CONVERSION_FACTOR)?;
        let convert = move || Image::of(&node).and_then(|image| encode(&image));
        let size = Size::of(size);
        let bytes = self.pool.compute(owner.cpu(), size, convert).await?;
        let bytes = bytes.map_err(refused)?;
        charge.resize(bytes.len())?;
        Ok(charged(bytes, charge))
    }
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
