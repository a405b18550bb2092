//! `GET /screens/…`: the files of displays, and their list.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Request, StatusCode};
use serde_json::json;

use super::answer::{Answer, Refusal, plain, shared_with, with_type};
use super::caller::{charged, charged_body};
use super::query::decoded_path;
use super::{Audience, Server, Visit};
use crate::compute::Size;
use crate::http::screens::{ListedFile, PATH, ScreenError, Screens};

/// A file that a browser opens as a page runs nothing.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox; frame-ancestors 'none'";

impl From<ScreenError> for Refusal {
    fn from(error: ScreenError) -> Self {
        let status = match error {
            ScreenError::NotAllowed => StatusCode::FORBIDDEN,
            ScreenError::NotFound => StatusCode::NOT_FOUND,
            ScreenError::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ScreenError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        };
        (status, format!("{error}\n")).into()
    }
}

impl Server {
    /// Answers a request for a file of a display, or for the list; `None` for other paths.
    pub(super) async fn screen(
        &self,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Option<Result<Answer, Refusal>> {
        let is_clients = visit.audience == Audience::Clients;
        let screens = self.screens.as_ref().filter(|_| is_clients)?;
        let path = request.uri().path().strip_prefix(PATH)?;
        Some(
            self.screen_answer(screens, path, request.headers(), visit)
                .await,
        )
    }

    async fn screen_answer(
        &self,
        screens: &Screens,
        path: &str,
        headers: &HeaderMap,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let caller = self.gate.authenticated(headers, visit)?;
        let (tag, body) = if path.is_empty() {
            let listing = screens.list().await?;
            let (size, known) = (Size::of(listing.count()), headers.clone());
            let reader = Arc::clone(&caller.identity);
            let write = move || {
                let files: Vec<_> = listing.readable(&reader).collect();
                let tag = entity_tag(&files);
                let list = (!has(&known, &tag)).then(|| list_json(&files));
                (tag, list)
            };
            let (tag, list) = self.pool.compute(caller.cpu(), size, write).await?;
            let body = list.map(|list| charged_body(&caller, list)).transpose()?;
            (tag, body.map(|body| (body, "application/json")))
        } else {
            let path = decoded_path(path).ok_or(ScreenError::NotFound)?;
            let opened = screens.open_file(&path, &caller.identity).await?;
            let (tag, content_type) = (entity_tag(&opened.version), opened.content_type);
            if has(headers, &tag) {
                (tag, None)
            } else {
                // Its memory is charged before it is read.
                let charge = caller.owner.charge(opened.bytes as usize)?;
                let body = charged(screens.read(opened).await?, charge);
                (tag, Some((body, content_type)))
            }
        };
        let mut answer = match body {
            Some((body, content_type)) => with_type(body, content_type),
            None => not_modified(),
        };
        let embeds = self.gate.trust.embedder(headers);
        let readers = if embeds {
            "cross-origin"
        } else {
            "same-origin"
        };
        let of = answer.headers_mut();
        of.insert(header::ETAG, tag);
        // Browsers keep it, and check it each time.
        let cache = HeaderValue::from_static("private, no-cache");
        of.insert(header::CACHE_CONTROL, cache);
        let policy = HeaderValue::from_static(POLICY);
        of.insert(header::CONTENT_SECURITY_POLICY, policy);
        let readers = HeaderValue::from_static(readers);
        of.insert("cross-origin-resource-policy", readers);
        Ok(shared_with(answer, headers))
    }
}

fn list_json(files: &[&ListedFile]) -> Vec<u8> {
    let file = |file: &&ListedFile| {
        json!({
            "path": file.path,
            "bytes": file.bytes,
            "modifiedMs": file.modified_ms,
            "version": file.version,
        })
    };
    let files: Vec<_> = files.iter().map(file).collect();
    json!({ "files": files }).to_string().into_bytes()
}

/// Another one for each content.
fn entity_tag(of: &impl Hash) -> HeaderValue {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    let tag = HeaderValue::try_from(format!("\"{:016x}\"", hasher.finish()));
    tag.expect("it has hexadecimal digits")
}

/// Whether the client has this version already.
fn has(headers: &HeaderMap, tag: &HeaderValue) -> bool {
    let named = headers.get_all(header::IF_NONE_MATCH).into_iter();
    let named = named.filter_map(|value| value.to_str().ok());
    let mut named = named.flat_map(|value| value.split(','));
    named.any(|known| known.trim().trim_start_matches("W/").as_bytes() == tag.as_bytes())
}

fn not_modified() -> Answer {
    let mut answer = plain(StatusCode::NOT_MODIFIED, "");
    answer.headers_mut().remove(header::CONTENT_TYPE);
    answer
}
