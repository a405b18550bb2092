//! Requests of the relay to other HTTP servers: one connection each, with TLS where the address says so.

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::header::{ACCEPT, AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, Response, Uri};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

/// Why there is no answer.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The address can't be requested.
    #[error("not a URL")]
    NotAUrl,
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] io::Error),
    /// TLS can't be used.
    #[error("{0}")]
    Tls(String),
    /// The server's answer isn't HTTP, or the connection ended.
    #[error(transparent)]
    Http(#[from] hyper::Error),
}

/// A connection that is ready for its request.
pub struct Connected {
    sender: hyper::client::conn::http1::SendRequest<Empty<Bytes>>,
    driving: Driving,
}

/// The task of a connection; dropping it ends the connection.
struct Driving(JoinHandle<()>);

impl Drop for Driving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// An answer. Dropping it ends the connection.
pub struct Answer {
    /// Its head, and its body as it arrives.
    pub response: Response<Incoming>,
    _driving: Driving,
}

/// Connects to the server of an address. Needs a `LocalSet`.
///
/// # Errors
/// When the server can't be reached.
pub async fn connect(uri: &Uri) -> Result<Connected, RequestError> {
    let is_tls = uri.scheme_str() == Some("https");
    let name = uri.host().unwrap_or_default();
    let name = name
        .trim_start_matches('[')
        .trim_end_matches(']')
        .to_owned();
    let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
    let tcp = TcpStream::connect((name.as_str(), port)).await?;
    if !is_tls {
        return handshake(tcp).await;
    }
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| RequestError::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name).map_err(|error| RequestError::Tls(error.to_string()))?;
    let tls = TlsConnector::from(Arc::new(config)).connect(name, tcp);
    handshake(tls.await?).await
}

async fn handshake<S>(stream: S) -> Result<Connected, RequestError>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let (sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let driving = tokio::task::spawn_local(async move {
        if let Err(error) = connection.await {
            log::debug!("a connection to another server ended: {error}");
        }
    });
    Ok(Connected {
        sender,
        driving: Driving(driving),
    })
}

impl Connected {
    /// `GET`s the address.
    ///
    /// # Errors
    /// When the server gives no answer.
    pub async fn get(self, uri: &Uri, accept: &'static str) -> Result<Answer, RequestError> {
        self.get_as(uri, accept, None).await
    }

    /// The same, with who asks, as the header `Authorization` says it.
    ///
    /// # Errors
    /// When the server gives no answer.
    pub async fn get_as(
        self,
        uri: &Uri,
        accept: &'static str,
        authorization: Option<&HeaderValue>,
    ) -> Result<Answer, RequestError> {
        let Self {
            mut sender,
            driving,
        } = self;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let host = uri.authority().map_or("", |authority| authority.as_str());
        let mut request = Request::get(path).header(HOST, host).header(ACCEPT, accept);
        if let Some(authorization) = authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request
            .body(Empty::<Bytes>::new())
            .map_err(|_| RequestError::NotAUrl)?;
        let response = sender.send_request(request).await?;
        Ok(Answer {
            response,
            _driving: driving,
        })
    }
}
