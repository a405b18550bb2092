//! Which certificate does the relay show, and when does it take a new one?

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::ops::file_reads::{FileReads, NO_ANSWER};
use crate::ops::metrics::Metrics;

/// How often the files are looked at. A clock's times of change say nothing of what a link points to,
/// so they are read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The certificate and key in use, and the files that they come from.
pub struct Tls {
    cert: String,
    key: String,
    in_use: Mutex<Arc<ServerConfig>>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("cert", &self.cert)
            .finish_non_exhaustive()
    }
}

/// What stands in both files.
#[derive(PartialEq, Eq)]
struct Files {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads a chain of certificates and the key of the first of them, both in PEM.
    ///
    /// # Errors
    /// With a line for the operator, when they can't be read or don't belong together.
    pub fn open(cert: &str, key: &str) -> Result<Arc<Self>, String> {
        let config = config(&read(cert, key)?, cert, key)?;
        Ok(Arc::new(Self {
            cert: cert.to_owned(),
            key: key.to_owned(),
            in_use: Mutex::new(config),
        }))
    }

    /// What new connections are answered by.
    #[must_use]
    pub fn in_use(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_use.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again, for ever. A pair that isn't good leaves the one before in place; it is
    /// complained of when it is still there at the next look, because two files are never replaced at
    /// once.
    pub async fn keep_fresh(self: Arc<Self>, metrics: Arc<Metrics>) {
        let mut seen = read(&self.cert, &self.key);
        let mut complaint = None;
        let mut reads = FileReads::default();
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            let (cert, key) = (self.cert.clone(), self.key.clone());
            let found = reads.read(move || read(&cert, &key)).await;
            let found = found.unwrap_or_else(|| Err(format!("tls_cert, tls_key: {NO_ANSWER}")));
            if found == seen {
                if let Some(error) = complaint.take() {
                    metrics.tls_stale.set(1);
                    log::error!("{error}; the certificate from before stays");
                }
                continue;
            }
            let made = (found.as_ref().map_err(String::clone))
                .and_then(|files| config(files, &self.cert, &self.key));
            complaint = match made {
                Ok(config) => {
                    *self.in_use.lock().unwrap_or_else(PoisonError::into_inner) = config;
                    metrics.tls_stale.set(0);
                    log::info!("{}: new connections get this certificate now", self.cert);
                    None
                }
                Err(error) => Some(error),
            };
            seen = found;
        }
    }
}

fn read(cert: &str, key: &str) -> Result<Files, String> {
    let file = |name: &str, path: &str| {
        std::fs::read(path).map_err(|error| format!("{name}: {path}: {error}"))
    };
    Ok(Files {
        cert: file("tls_cert", cert)?,
        key: file("tls_key", key)?,
    })
}

/// Each pair has a configuration of its own, and with it its own tickets: nobody comes back by a
/// ticket without seeing the new certificate.
fn config(files: &Files, cert: &str, key: &str) -> Result<Arc<ServerConfig>, String> {
    let chain = CertificateDer::pem_slice_iter(&files.cert).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| format!("tls_cert: {cert}: {error}"))?;
    if chain.is_empty() {
        return Err(format!("tls_cert: {cert}: no certificate in PEM in it"));
    }
    let private = PrivateKeyDer::from_pem_slice(&files.key)
        .map_err(|error| format!("tls_key: {key}: {error}"))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config
                .with_no_client_auth()
                .with_single_cert(chain, private)
        })
        .map_err(|error| format!("tls_cert: {cert} with tls_key {key}: {error}"))?;
    // WebSocket needs it, and browsers that are offered nothing may guess.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
