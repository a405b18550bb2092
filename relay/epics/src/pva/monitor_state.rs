//! A monitor's state, which outlives its subscriptions and connections.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;

use super::command::Command;
use super::event::{Metadata, PvaEvents, TypeInfo, Update, ValueKind, memory};
use crate::command_thread::Commands;
use crate::guard::guard;
use crate::liveness::{Circuit, OnCircuit, now_ns};

/// State shared by the callbacks of one monitor and the pva-cmd thread.
///
/// Callbacks come from the only thread of the context; after a failure the subscription may be
/// another one.
pub(super) struct MonitorState {
    id: u64,
    events: Arc<dyn PvaEvents>,
    commands: Commands<Command>,
    /// Whether an update has arrived since its server was last asked, or since it subscribed.
    is_updated: AtomicBool,
    /// Whether the first value of this subscription has arrived.
    is_settled: AtomicBool,
    /// When its server last showed that it serves the PV, as far as that was noticed: nanoseconds past the POSIX epoch.
    heard_ns: AtomicI64,
    /// It isn't answered while others of its circuit are.
    is_silent: AtomicBool,
    known: Mutex<Known>,
    peers: Arc<Peers>,
}

/// The servers that monitors of one client are connected to, by address and port.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<HashMap<String, Weak<Circuit>>>);

impl Peers {
    fn circuit(&self, peer: &str) -> Option<Arc<Circuit>> {
        let mut peers = self.0.lock().ok()?;
        if let Some(known) = peers.get(peer).and_then(Weak::upgrade) {
            return Some(known);
        }
        peers.retain(|_, circuit| circuit.strong_count() > 0);
        let circuit = Arc::new(Circuit::new());
        peers.insert(peer.to_owned(), Arc::downgrade(&circuit));
        Some(circuit)
    }

    /// The circuit of a server that a monitor is connected to.
    pub(super) fn known(&self, peer: &str) -> Option<Arc<Circuit>> {
        self.0.lock().ok()?.get(peer)?.upgrade()
    }

    /// Address and port of a circuit's server.
    pub(super) fn name(&self, circuit: &Arc<Circuit>) -> Option<String> {
        let peers = self.0.lock().ok()?;
        let mut peers = peers.iter();
        let found = peers.find(|(_, known)| known.as_ptr() == Arc::as_ptr(circuit));
        found.map(|(peer, _)| peer.clone())
    }
}

/// The last reported state of the latest connection.
#[derive(Default)]
struct Known {
    is_connected: bool,
    /// The server refused the last attempt.
    is_refused: bool,
    /// The circuit by which it is connected.
    circuit: Option<Arc<Circuit>>,
    /// When it was connected last.
    since: Option<Instant>,
    /// The signature of its structure's definition.
    signature: Option<u64>,
    type_id: String,
    kind: Option<ValueKind>,
    /// The last reported metadata; `None` before the first.
    metadata: Option<Metadata>,
}

impl MonitorState {
    pub(super) fn new(
        id: u64,
        events: Arc<dyn PvaEvents>,
        commands: Commands<Command>,
        peers: Arc<Peers>,
    ) -> Self {
        Self {
            peers,
            id,
            events,
            commands,
            is_updated: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
            heard_ns: AtomicI64::new(0),
            is_silent: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// The memory that an update reads.
    pub(super) fn reads(&self) -> Vec<*const [u8]> {
        let mut reads = vec![memory(self)];
        reads.extend(self.events.reads());
        reads
    }

    /// Whether updates contain the whole structure.
    pub(super) fn wants_structure(&self) -> bool {
        self.events.wants_structure()
    }

    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Called by the pva-cmd thread before it subscribes, also before it subscribes again.
    pub(super) fn begin(&self) {
        self.is_updated.store(false, Ordering::Relaxed);
        self.is_settled.store(false, Ordering::Relaxed);
        self.events.searched();
    }

    pub(super) fn on_connected(
        &self,
        type_id: String,
        kind: ValueKind,
        signature: u64,
        peer: &str,
    ) {
        let mut changed = false;
        let circuit = self.peers.circuit(peer);
        if let Ok(mut known) = self.known.lock() {
            let before = known.signature.replace(signature);
            changed = before.is_some_and(|before| before != signature);
            known.type_id.clone_from(&type_id);
            known.kind = Some(kind);
            known.metadata = None;
            known.is_connected = true;
            known.is_refused = false;
            known.circuit = circuit;
            known.since = Some(Instant::now());
        }
        let _ = self.commands.send(Command::Connected(self.id));
        self.events.server(peer);
        self.events.connected(TypeInfo {
            type_id,
            kind,
            changed,
        });
    }

    pub(super) fn on_disconnected(&self) {
        let (mut was_connected, mut circuit) = (true, None);
        if let Ok(mut known) = self.known.lock() {
            was_connected =
                std::mem::take(&mut known.is_connected) | std::mem::take(&mut known.is_refused);
            circuit = known.circuit.take();
        }
        if was_connected {
            if let Some(circuit) = circuit {
                let is_silent = self.is_silent.swap(false, Ordering::Relaxed);
                self.events.heard(if is_silent {
                    self.heard_ns()
                } else {
                    circuit.heard_ns()
                });
            }
            self.events.disconnected();
            let _ = self.commands.send(Command::Lost(self.id));
        }
    }

    /// Whether it is connected since before this time.
    pub(super) fn is_connected_since(&self, before: Instant) -> bool {
        let known = self.known.lock();
        known.is_ok_and(|known| {
            known.is_connected && known.since.is_some_and(|since| since < before)
        })
    }

    /// A server has answered the search of the PV, which is not connected.
    pub(super) fn on_reason(&self, reason: &str) {
        self.events.reason(reason);
    }

    /// Whether its server serves the PV, or has refused it with a reason.
    pub(super) fn is_answered(&self) -> bool {
        self.known
            .lock()
            .is_ok_and(|known| known.is_connected || known.is_refused)
    }

    /// The subscription was closed and another will be created, or its server, which refused it,
    /// doesn't answer any more; called by the pva-cmd thread when no more callbacks will come.
    pub(super) fn closed(&self) {
        guard("disconnected", || self.on_disconnected());
    }

    /// Passes metadata on unless they are unchanged: some servers mark them as changed with every
    /// value. `read` creates them from the type id and kind of the connection.
    pub(super) fn on_metadata(&self, read: impl FnOnce(&str, ValueKind) -> Metadata) {
        let metadata = {
            let Ok(mut known) = self.known.lock() else {
                return;
            };
            let Some(kind) = known.kind else { return };
            let metadata = read(&known.type_id, kind);
            let before = known.metadata.as_ref();
            if before.is_some_and(|before| before.same(&metadata)) {
                return;
            }
            known.metadata = Some(metadata.clone());
            metadata
        };
        self.events.metadata(metadata);
    }

    pub(super) fn on_update(&self, update: Update<'_>) {
        if !self.is_updated.load(Ordering::Relaxed) {
            self.on_first_update();
        }
        self.events.update(update);
    }

    /// The first update of this subscription, or after a question.
    #[cold]
    fn on_first_update(&self) {
        self.is_updated.store(true, Ordering::Relaxed);
        self.heard(now_ns());
        if !self.is_settled.swap(true, Ordering::Relaxed) {
            let _ = self.commands.send(Command::Settled(self.id));
        }
    }

    /// Called by the pva-cmd thread before it asks the server.
    pub(super) fn asks(&self) {
        self.is_updated.store(false, Ordering::Relaxed);
    }

    /// Whether it was updated after its server was last asked.
    pub(super) fn is_updated(&self) -> bool {
        self.is_updated.load(Ordering::Relaxed)
    }

    /// Called by the pva-cmd thread: whether the PV is not answered while others of its circuit are.
    pub(super) fn is_silent_alone(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::Relaxed);
    }

    /// Its server served the PV at this time.
    pub(super) fn heard(&self, at_ns: i64) {
        self.heard_ns.fetch_max(at_ns, Ordering::Relaxed);
    }

    /// When its server last showed that it serves the PV.
    pub(super) fn heard_ns(&self) -> i64 {
        self.heard_ns.load(Ordering::Relaxed)
    }

    /// The connection to this server broke, before or after the first value.
    pub(super) fn on_broken(&self, server: String, had_values: bool) {
        let _ = self.commands.send(if had_values {
            Command::BrokenLater(self.id, server, Instant::now())
        } else {
            Command::Broken(self.id, server)
        });
    }

    /// Its server sends data that can't be read, so it is suspended for a while; called by the
    /// pva-cmd thread.
    pub(super) fn held_back(&self, reason: &str) {
        self.events.unreadable(reason);
    }

    /// A value was refused for this reason.
    pub(super) fn on_unreadable(&self, reason: String) {
        let _ = self.commands.send(Command::Unreadable(self.id, reason));
    }

    /// The subscription is dead, before it had a value or later.
    pub(super) fn on_failed(&self, reason: &str) {
        let mut is_refused = false;
        if let Ok(mut known) = self.known.lock() {
            is_refused = !known.is_connected;
            known.is_refused = is_refused;
        }
        let _ = self.commands.send(Command::Failed(self.id, is_refused));
        self.events.failed(reason);
    }
}

impl OnCircuit for MonitorState {
    fn circuit(&self) -> Option<Arc<Circuit>> {
        self.known.lock().ok()?.circuit.clone()
    }

    fn unresponsive(&self, heard_ns: i64) {
        self.events.unresponsive(heard_ns);
    }

    fn responsive(&self) {
        self.events.responsive();
    }
}
