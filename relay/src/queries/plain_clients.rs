//! Clients of plain HTTP, which have no connection to a shard: they count as clients while they are answered, and end
//! for the same reasons.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use pvwire_schema::close::CloseCode;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};

use crate::access::auth::{Login, Tokens};
use crate::access::caller::Caller;
use crate::limits::connections::{ClientPermit, Permit, TooManyConnections, Users};
use crate::ops::metrics::Metrics;
use crate::session::shard::{ClientSeen, Unsent};

/// Interval between checks of a token: whether it has expired, and whether the relay still has its key.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The ids of these clients begin with it, before their numbers.
const PREFIX: &str = "http-";

/// When the clients are closed in a drain.
#[derive(Clone, Copy, Debug)]
struct Drain {
    begun: Instant,
    over: Duration,
}

/// A client as the status page shows it.
#[derive(Debug)]
struct Shown {
    caller: Caller,
    since: Instant,
    bytes: AtomicU64,
    /// The PV that it reads, once that is known.
    pv: OnceLock<String>,
    /// An operator ends it.
    ending: Notify,
}

/// All clients of plain HTTP.
pub struct PlainClients {
    open: Mutex<HashMap<u64, Arc<Shown>>>,
    next: AtomicU64,
    metrics: Arc<Metrics>,
    users: Arc<Users>,
    tokens: Option<Arc<Tokens>>,
    drain: watch::Sender<Option<Drain>>,
    /// Number of changes of the rules.
    rules: watch::Sender<u64>,
}

/// One client; dropping it ends its count.
pub struct PlainClient {
    all: Arc<PlainClients>,
    number: u64,
    shown: Arc<Shown>,
    login: Option<Login>,
    rules: watch::Receiver<u64>,
    drain: watch::Receiver<Option<Drain>>,
    /// Counted when it ends.
    code: CloseCode,
    _permits: (ClientPermit, Option<Permit>),
}

impl PlainClients {
    /// No clients. `users` counts the connections of each user.
    #[must_use]
    pub fn new(metrics: Arc<Metrics>, users: Arc<Users>, tokens: Option<Arc<Tokens>>) -> Arc<Self> {
        Arc::new(Self {
            open: Mutex::default(),
            next: AtomicU64::new(0),
            metrics,
            users,
            tokens,
            drain: watch::Sender::new(None),
            rules: watch::Sender::new(0),
        })
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Shown>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a client, which has proved its identity by `login` if tokens are required.
    ///
    /// # Errors
    /// When its user has too many connections.
    pub fn enter(
        self: &Arc<Self>,
        caller: Caller,
        login: Option<Login>,
        permit: ClientPermit,
    ) -> Result<PlainClient, TooManyConnections> {
        let of_user = self.permit(&caller)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let shown = Arc::new(Shown {
            caller,
            since: Instant::now(),
            bytes: AtomicU64::new(0),
            pv: OnceLock::new(),
            ending: Notify::new(),
        });
        self.open().insert(number, Arc::clone(&shown));
        self.metrics.sessions_opened.inc();
        Ok(PlainClient {
            rules: self.rules.subscribe(),
            drain: self.drain.subscribe(),
            all: Arc::clone(self),
            number,
            shown,
            login,
            code: CloseCode::Normal,
            _permits: (permit, of_user),
        })
    }

    /// Counts one more connection of a client's user, if it has one.
    ///
    /// # Errors
    /// When its user has too many connections.
    pub fn permit(&self, caller: &Caller) -> Result<Option<Permit>, TooManyConnections> {
        let user = caller.identity.user.as_ref();
        user.map(|user| self.users.permit(user)).transpose()
    }

    /// Number of clients.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open().len()
    }

    /// The clients as the status page shows them.
    #[must_use]
    pub fn seen(&self) -> Vec<ClientSeen> {
        let open = self.open();
        let seen = open.iter().map(|(number, shown)| ClientSeen {
            id: format!("{PREFIX}{number}"),
            client: None,
            address: shown.caller.peer.address.clone(),
            user: shown.caller.identity.user.clone(),
            connected: shown.since.elapsed(),
            bytes: shown.bytes.load(Ordering::Relaxed),
            is_in_step: true,
            is_behind: false,
            unsent: Unsent::default(),
            pv: shown.pv.get().cloned(),
        });
        seen.collect()
    }

    /// Ends the client with this id, which a [`ClientSeen`] has; returns whether it was there.
    pub fn end(&self, id: &str) -> bool {
        let number = id.strip_prefix(PREFIX).and_then(|text| text.parse().ok());
        let open = self.open();
        let shown = number.and_then(|number: u64| open.get(&number));
        if let Some(shown) = shown {
            shown.ending.notify_one();
        }
        shown.is_some()
    }

    /// Ends all clients, evenly over this time.
    pub fn drain(&self, over: Duration) {
        let begun = Instant::now();
        self.drain.send_replace(Some(Drain { begun, over }));
    }

    /// The rules have changed: ends the clients that may no longer read their PV.
    pub fn recheck(&self) {
        self.rules.send_modify(|changes| *changes += 1);
    }
}

impl PlainClient {
    /// Who it is.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.shown.caller
    }

    /// Notes the PV that it reads, for operators.
    pub fn reads(&self, pv: &str) {
        self.shown.pv.get_or_init(|| pv.to_owned());
    }

    /// Counts bytes of its answer.
    pub fn sent(&self, bytes: usize) {
        self.shown.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.all.metrics.bytes_sent.inc_by(bytes as u64);
    }

    /// Waits until the relay ends it; returns why. `may_read`: whether the present rules let it read its PV.
    pub async fn ended(&mut self, may_read: impl Fn(&Caller) -> bool) -> CloseCode {
        let Self {
            all, shown, login, ..
        } = self;
        let has_valid_token = || match (&all.tokens, &login) {
            (Some(tokens), Some(login)) => {
                SystemTime::now() < login.until && tokens.keys().has(login.key)
            }
            _ => true,
        };
        let code = loop {
            let code = tokio::select! {
                () = shown.ending.notified() => Some(CloseCode::EndedByOperator),
                () = drained(&mut self.drain, nth(self.number)) => Some(CloseCode::ServiceRestart),
                _ = self.rules.changed() => {
                    (!may_read(&shown.caller)).then_some(CloseCode::RightsChanged)
                }
                () = sleep(CHECK_EVERY), if login.is_some() => {
                    (!has_valid_token()).then_some(CloseCode::NotLoggedIn)
                }
            };
            if let Some(code) = code {
                break code;
            }
        };
        log::debug!("a client of plain HTTP was closed: {}", code.reason());
        self.code = code;
        code
    }
}

impl Drop for PlainClient {
    fn drop(&mut self) {
        self.all.open().remove(&self.number);
        self.all.metrics.closed(self.code);
    }
}

/// Waits until a drain has come so far.
async fn drained(drain: &mut watch::Receiver<Option<Drain>>, far: f64) {
    let begun = drain.wait_for(Option::is_some).await.map(|drain| *drain);
    // Without a sender the relay has ended.
    if let Ok(Some(Drain { begun, over })) = begun {
        sleep_until(begun + over.mul_f64(far)).await;
    }
}

/// Spreads numbers evenly between 0 and 1.
fn nth(number: u64) -> f64 {
    // 2⁶⁴ divided by the golden ratio.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    (number.wrapping_mul(FACTOR) >> 32) as f64 / 2_f64.powi(32)
}
