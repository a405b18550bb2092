//! The spelling of header names in answers: some clients look for `Sec-WebSocket-Protocol` in this spelling only, although
//! the case of names has no meaning.
//!
//! hyper spells names as they were in a request that it has read, if the answer has that request's extensions. It has no
//! other way to give it names with a capital letter inside a word, so it reads such a request here once.

use std::convert::Infallible;
use std::io;
use std::sync::OnceLock;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::http::Extensions;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;

/// A request whose headers have the names that are not in title case.
const NAMES: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nSec-WebSocket-Accept: a\r\n\
    Sec-WebSocket-Protocol: a\r\nWWW-Authenticate: a\r\nConnection: close\r\n\r\n";

/// How answers spell the names of their headers.
#[derive(Clone, Debug, Default)]
pub struct HeaderCase(Extensions);

impl HeaderCase {
    /// Lets hyper read the names.
    ///
    /// # Errors
    /// When the system gives no socket pair.
    pub async fn read() -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        far.writable().await?;
        far.try_write(NAMES)?;
        let names = OnceLock::new();
        let service = service_fn(|request: Request<Incoming>| {
            // There is one request.
            let _ = names.set(request.extensions().clone());
            async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) }
        });
        let mut http = hyper::server::conn::http1::Builder::new();
        let served = http
            .preserve_header_case(true)
            .serve_connection(TokioIo::new(near), service)
            .await;
        served.map_err(io::Error::other)?;
        Ok(Self(names.into_inner().unwrap_or_default()))
    }

    /// Lets an answer spell its names so.
    pub(super) fn apply<B>(&self, answer: &mut Response<B>) {
        answer.extensions_mut().extend(self.0.clone());
    }
}
