//! A client's connection, with or without TLS, and certificates for tests.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use super::prefix;

/// The certificates that a client trusts. They live as long as the test, so that [`crate::How`] is
/// `Copy`.
#[derive(Clone, Copy)]
pub struct Trust(&'static Arc<ClientConfig>);

impl Trust {
    /// Trusts the certificate in this file alone.
    pub fn in_file(cert: &Path) -> Self {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(cert).unwrap())
            .unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        Self(Box::leak(Box::new(Arc::new(config))))
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trust")
    }
}

/// Files with a certificate and its key for a relay; dropping them deletes them.
pub struct Pair {
    folder: PathBuf,
}

impl Pair {
    /// A new pair in its own folder, and the trust in it.
    pub fn new() -> (Self, Trust) {
        let folder = std::env::temp_dir().join(prefix().replace(':', ""));
        std::fs::create_dir(&folder).unwrap();
        let pair = Self { folder };
        let trust = pair.replace();
        (pair, trust)
    }

    /// Writes a new pair to a folder that the caller deletes.
    pub fn write(folder: &Path) {
        let pair = Self {
            folder: folder.to_owned(),
        };
        pair.replace();
        std::mem::forget(pair);
    }

    pub fn cert(&self) -> PathBuf {
        self.folder.join("cert.pem")
    }

    pub fn key(&self) -> PathBuf {
        self.folder.join("key.pem")
    }

    /// The relay's flags.
    pub fn flags(&self) -> [String; 2] {
        let flag = |name: &str, path: &Path| format!("--tls-{name}={}", path.display());
        [flag("cert", &self.cert()), flag("key", &self.key())]
    }

    /// Replaces certificate and key, one after the other; returns the trust in the new pair alone.
    pub fn replace(&self) -> Trust {
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        std::fs::write(self.cert(), made.cert.pem()).unwrap();
        std::fs::write(self.key(), made.signing_key.serialize_pem()).unwrap();
        Trust::in_file(&self.cert())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A connection as tests read and write it.
pub enum Line {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Line {
    /// Uses TLS if the client trusts a certificate.
    pub fn over(tcp: TcpStream, trust: Option<Trust>) -> Self {
        let Some(Trust(config)) = trust else {
            return Self::Plain(tcp);
        };
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let tls = ClientConnection::new(Arc::clone(config), name).unwrap();
        Self::Tls(Box::new(StreamOwned::new(tls, tcp)))
    }

    pub fn connect(address: SocketAddr, trust: Option<Trust>) -> Self {
        let tcp = TcpStream::connect(address).unwrap();
        tcp.set_read_timeout(Some(super::DEADLINE)).unwrap();
        Self::over(tcp, trust)
    }

    pub fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(tls) => tls.get_ref(),
        }
    }
}

impl Read for Line {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(into),
            Self::Tls(tls) => tls.read(into),
        }
    }
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(bytes),
            Self::Tls(tls) => tls.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(tls) => tls.flush(),
        }
    }
}
