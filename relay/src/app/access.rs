//! Starts what decides who a client is and what records its writes: tokens, proxy headers, audit file.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

use super::StartError;
use crate::access::audit::Audit;
use crate::access::auth::{Network, Tokens};
use crate::access::keys;
use crate::config::{Auth, Config};
use crate::http::server::ProxyHeaders;

/// How long writing the last records may take.
const LAST_RECORDS: Duration = Duration::from_secs(2);

/// Who clients are, and where their writes are recorded.
pub(super) struct Access {
    /// With `auth = jwt`.
    pub(super) tokens: Option<Arc<Tokens>>,
    /// With `auth = trusted-header`.
    pub(super) headers: Option<ProxyHeaders>,
    /// Proxies whose headers are trusted.
    pub(super) proxies: Vec<Network>,
    /// With `audit_file`.
    pub(super) audit: Option<Arc<Audit>>,
}

impl Access {
    /// Reads the keys and opens the audit file.
    pub(super) async fn start(config: &Config) -> Result<Self, StartError> {
        let headers = match config.auth {
            Auth::TrustedHeader => Some(ProxyHeaders {
                user: config.user_header.clone(),
                groups: config.groups_header.clone(),
            }),
            Auth::None | Auth::Jwt => None,
        };
        let proxies = config.trusted_proxy.iter().copied();
        let audit = audit(config)?;
        let tokens = match config.auth {
            Auth::Jwt => Some(keys::tokens(config).await.map_err(StartError::file)?),
            Auth::None | Auth::TrustedHeader => None,
        };
        Ok(Self {
            tokens,
            headers,
            proxies: proxies.map(Network::from).collect(),
            audit,
        })
    }
}

/// Writes the records that still wait.
pub(super) fn finish(audit: Option<&Audit>) {
    if let Some(audit) = audit {
        audit.finish(LAST_RECORDS);
    }
}

/// Opens the audit file; it is opened again on SIGHUP and when it was moved or deleted.
fn audit(config: &Config) -> Result<Option<Arc<Audit>>, StartError> {
    let path = &config.audit_file;
    if path.is_empty() {
        return Ok(None);
    }
    let audit = Audit::start(path, config.audit_fail_closed, config.audit_sync);
    let audit = Arc::new(audit.map_err(|source| StartError::AuditFile {
        path: path.clone(),
        source,
    })?);
    tokio::task::spawn_local(Arc::clone(&audit).watch());
    let mut hangup = signal(SignalKind::hangup())?;
    let looks = Arc::clone(&audit);
    tokio::task::spawn_local(async move {
        while hangup.recv().await.is_some() {
            looks.look();
        }
    });
    Ok(Some(audit))
}
