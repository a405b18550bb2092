//! The relay's certificate, which is read again while the relay runs.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

use crate::ops::file_reads::{FileReads, NO_ANSWER, read_regular};
use crate::ops::metrics::Metrics;
use crate::ops::rhythm;

/// Interval between reads of the files. Their modification times aren't compared, because a
/// symbolic link can change its target.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Maximum length of a certificate's or key's file, in bytes.
const MAX_PEM_BYTES: u64 = 1 << 20;

/// The certificate or its key can't be used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file can't be read.
    #[error("{key}: {path}: {reason}")]
    Read {
        /// The setting that names the file.
        key: &'static str,
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The disk of the files hangs.
    #[error("tls_cert, tls_key: {NO_ANSWER}")]
    DiskHangs,
    /// A file isn't in PEM.
    #[error("{key}: {path}: {reason}")]
    Pem {
        /// The setting that names the file.
        key: &'static str,
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
    /// The certificate and the key don't belong together.
    #[error("tls_cert: {cert} with tls_key {key}: {reason}")]
    Pair {
        /// The file of the certificate.
        cert: String,
        /// The file of the key.
        key: String,
        /// Why.
        reason: String,
    },
}

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

/// The content of both files.
#[derive(PartialEq, Eq)]
struct Files {
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Tls {
    /// Reads a chain of certificates and the key of the first of them, both in PEM.
    ///
    /// # Errors
    /// When they can't be read or don't belong together.
    pub fn open(cert: &str, key: &str) -> Result<Arc<Self>, TlsError> {
        let config = config(&read(cert, key)?, cert, key)?;
        Ok(Arc::new(Self {
            cert: cert.to_owned(),
            key: key.to_owned(),
            in_use: Mutex::new(config),
        }))
    }

    /// The configuration for new connections.
    #[must_use]
    pub fn in_use(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.in_use.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again, for ever. While they can't be used the previous pair stays in effect.
    /// The error is logged when it lasts until the next read, because two files are never replaced
    /// at the same moment.
    pub async fn keep_fresh(self: Arc<Self>, metrics: Arc<Metrics>) {
        let mut seen = read(&self.cert, &self.key);
        let mut complaint = None;
        let mut reads = FileReads::default();
        loop {
            rhythm::next(LOOK_EVERY).await;
            let (cert, key) = (self.cert.clone(), self.key.clone());
            let found = reads.read(move || read(&cert, &key)).await;
            let found = found.unwrap_or(Err(TlsError::DiskHangs));
            if found == seen {
                if let Some(error) = complaint.take() {
                    metrics.tls_stale.set(1);
                    log::error!("{error}; the previous certificate stays in effect");
                }
                continue;
            }
            let made = (found.as_ref().map_err(TlsError::clone))
                .and_then(|files| config(files, &self.cert, &self.key));
            complaint = match made {
                Ok(config) => {
                    *self.in_use.lock().unwrap_or_else(PoisonError::into_inner) = config;
                    metrics.tls_stale.set(0);
                    log::info!(
                        "{}: this certificate is in effect for new connections",
                        self.cert
                    );
                    None
                }
                Err(error) => Some(error),
            };
            seen = found;
        }
    }
}

fn read(cert: &str, key: &str) -> Result<Files, TlsError> {
    let file = |key: &'static str, path: &str| {
        read_regular(path, MAX_PEM_BYTES).map_err(|error| TlsError::Read {
            key,
            path: path.to_owned(),
            reason: error.to_string(),
        })
    };
    Ok(Files {
        cert: file("tls_cert", cert)?,
        key: file("tls_key", key)?,
    })
}

/// The configuration for a pair. Each configuration has separate session tickets, so that a client
/// that resumes its session sees the new certificate, too.
fn config(files: &Files, cert: &str, key: &str) -> Result<Arc<ServerConfig>, TlsError> {
    let wrong = |key: &'static str, path: &str, reason: String| TlsError::Pem {
        key,
        path: path.to_owned(),
        reason,
    };
    let chain = CertificateDer::pem_slice_iter(&files.cert).collect::<Result<Vec<_>, _>>();
    let chain = chain.map_err(|error| wrong("tls_cert", cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(
            "tls_cert",
            cert,
            "it has no certificate in PEM".into(),
        ));
    }
    let private = PrivateKeyDer::from_pem_slice(&files.key)
        .map_err(|error| wrong("tls_key", key, error.to_string()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|config| {
            config
                .with_no_client_auth()
                .with_single_cert(chain, private)
        })
        .map_err(|error| TlsError::Pair {
            cert: cert.to_owned(),
            key: key.to_owned(),
            reason: error.to_string(),
        })?;
    // WebSocket needs HTTP/1.1; without an offer browsers may choose another version.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
