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
            Auth::TrustedHeader => Some(proxy_headers(config)?),
            Auth::None | Auth::Jwt => None,
        };
        let proxies = proxies(config)?;
        let audit = audit(config)?;
        let tokens = match config.auth {
            Auth::Jwt => Some(keys::tokens(config).await.map_err(StartError::file)?),
            Auth::None | Auth::TrustedHeader => None,
        };
        Ok(Self {
            tokens,
            headers,
            proxies,
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

fn proxies(config: &Config) -> Result<Vec<Network>, StartError> {
    let network = |text: &String| {
        Network::read(text).ok_or_else(|| StartError::Setting {
            key: "trusted_proxy",
            value: text.clone(),
            expected: "a network, as 10.1.0.0/16",
        })
    };
    config.trusted_proxy.iter().map(network).collect()
}

/// The headers in which a proxy names the user and the groups.
fn proxy_headers(config: &Config) -> Result<ProxyHeaders, StartError> {
    let header = |key, name: &String| {
        name.parse().map_err(|_| StartError::Setting {
            key,
            value: name.clone(),
            expected: "the name of a header",
        })
    };
    let groups = Some(&config.groups_header).filter(|name| !name.is_empty());
    Ok(ProxyHeaders {
        user: header("user_header", &config.user_header)?,
        groups: groups
            .map(|name| header("groups_header", name))
            .transpose()?,
    })
}
