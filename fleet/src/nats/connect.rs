//! Addresses of NATS servers, and what it takes to connect to one of them.

use std::fmt;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr};
use tokio::sync::mpsc::UnboundedSender;

use super::Settings;
use crate::member::MemberId;

/// Interval of pings to the server; after two without an answer the connection is lost.
const PING_EVERY: Duration = Duration::from_secs(2);

/// A server that hasn't accepted the connection after this time is not there.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// A file that isn't read after this time is on a disk that hangs.
const READ_WITHIN: Duration = Duration::from_secs(2);

/// Longer than any relay runs: the client library must not connect again by itself.
const NEVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Messages of one subscription that wait for this member, which takes them at once.
const SUBSCRIPTION_CAPACITY: usize = 8192;

/// Messages in the library that wait for the connection, each as large as NATS allows. More wait in this member's
/// own queue, whose bytes are limited.
const CLIENT_CAPACITY: usize = 64;

/// The addresses of NATS servers, `nats://HOST:PORT` or `tls://HOST:PORT`, separated by commas.
#[derive(Clone, Debug)]
pub struct Servers(Vec<ServerAddr>);

/// Why a text is not a list of servers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServersError {
    /// The address of a server is malformed.
    #[error("invalid server {server:?}, expected nats://HOST:PORT or tls://HOST:PORT")]
    Malformed {
        /// What is written there.
        server: String,
    },
    /// A password is in the address, where it would be shown.
    #[error("an address with a user name: write it into the credentials file, as USER:PASSWORD")]
    User,
}

impl FromStr for Servers {
    type Err = ServersError;

    fn from_str(text: &str) -> Result<Self, ServersError> {
        let server = |server: &str| {
            let malformed = || ServersError::Malformed {
                server: server.to_owned(),
            };
            let known = ["nats://", "tls://"];
            if !known.iter().any(|scheme| server.starts_with(scheme)) {
                return Err(malformed());
            }
            // A password without a user name, too.
            if server.contains('@') {
                return Err(ServersError::User);
            }
            let address: ServerAddr = server.parse().map_err(|_| malformed())?;
            let path = address.clone().into_inner();
            if address.host().is_empty() || !["", "/"].contains(&path.path()) {
                return Err(malformed());
            }
            Ok(address)
        };
        text.split(',')
            .map(|each| server(each.trim()))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers: Vec<String> = self
            .0
            .iter()
            .map(|server| server.clone().into_inner().to_string())
            .collect();
        f.write_str(&servers.join(","))
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectError {
    #[error("can't read the file {}: {error}", path.display())]
    File { path: PathBuf, error: io::Error },
    #[error("no server accepts the connection: {0}")]
    Refused(#[from] async_nats::ConnectError),
}

/// Connects to one of the servers. What happens to the connection afterwards is sent to `events`.
pub(super) async fn connect(
    settings: &Settings,
    me: MemberId,
    events: UnboundedSender<Event>,
) -> Result<Client, ConnectError> {
    let connected = Arc::new(AtomicBool::new(false));
    let was_connected = Arc::clone(&connected);
    let delay = move |_| {
        let lost = was_connected.load(Ordering::Relaxed);
        if lost { NEVER } else { Duration::ZERO }
    };
    let mut options = ConnectOptions::new()
        .name(format!("pvwire-{me}"))
        .connection_timeout(CONNECT_WITHIN)
        .ping_interval(PING_EVERY)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .client_capacity(CLIENT_CAPACITY)
        .skip_subject_validation(true)
        .reconnect_delay_callback(delay)
        .event_callback(move |event| {
            // Its receiver is there as long as the connection.
            let _ = events.send(event);
            std::future::ready(())
        });
    if let Some(ca) = &settings.ca {
        // The library opens it, and would wait for ever for the other end of a pipe.
        read(settings, ca).await?;
        // Who names an authority wants no connection without TLS, whatever the server offers.
        options = options.add_root_certificates(ca.clone()).require_tls(true);
    }
    if let Some(path) = &settings.credentials {
        let text = read(settings, path).await?;
        options = with_credentials(options, text).map_err(failed(path))?;
    }
    let client = options.connect(settings.servers.0.clone()).await?;
    connected.store(true, Ordering::Relaxed);
    Ok(client)
}

fn failed(path: &Path) -> impl Fn(io::Error) -> ConnectError {
    let path = path.to_owned();
    move |error| ConnectError::File {
        path: path.clone(),
        error,
    }
}

/// Reads a file beside the thread of the bus, which carries out commands meanwhile.
async fn read(settings: &Settings, path: &Path) -> Result<Vec<u8>, ConnectError> {
    let (read_file, of_read) = (settings.read_file, path.to_owned());
    let reading = tokio::task::spawn_blocking(move || read_file(&of_read));
    let read = tokio::time::timeout(READ_WITHIN, reading).await;
    let read = match read {
        Ok(read) => read.unwrap_or_else(|panic| Err(io::Error::other(panic))),
        Err(_) => Err(io::Error::new(
            ErrorKind::TimedOut,
            "no answer from its disk",
        )),
    };
    read.map_err(failed(path))
}

fn with_credentials(options: ConnectOptions, text: Vec<u8>) -> io::Result<ConnectOptions> {
    let text = String::from_utf8(text).map_err(|_| io::Error::other("not UTF-8"))?;
    let line = text.trim();
    if line.contains("-----BEGIN") {
        return options.credentials(&text);
    }
    if let Some((user, password)) = line.split_once(':') {
        return Ok(options.user_and_password(user.to_owned(), password.to_owned()));
    }
    Ok(options.nkey(line.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_a_list_of_addresses() {
        let servers: Servers = "nats://a:4222, tls://b".parse().unwrap();
        assert_eq!(servers.to_string(), "nats://a:4222,tls://b");
    }

    #[test]
    fn address_of_another_protocol_or_with_a_password_is_refused() {
        let error = |text: &str| text.parse::<Servers>().unwrap_err().to_string();
        let malformed = |text: &str| {
            format!("invalid server {text:?}, expected nats://HOST:PORT or tls://HOST:PORT")
        };
        for wrong in [
            "",
            "a:4222",
            "ws://a",
            "http://a",
            "nats://",
            "nats://a:x",
            "nats://a/b",
        ] {
            assert_eq!(error(wrong), malformed(wrong));
        }
        for secret in ["nats://me:secret@a", "tls://:secret@a"] {
            assert!(error(secret).contains("credentials file"), "{secret}");
        }
    }
}
