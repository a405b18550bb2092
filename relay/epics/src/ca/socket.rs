//! One circuit of libca, as the functions see it by which libca reads and writes its socket.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_int;
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use super::check::{Check, Lie};
use crate::descriptors::are_scarce;
use crate::liveness::Circuit;
use crate::throttle::Throttle;

static CUT: AtomicU64 = AtomicU64::new(0);
static WITHHELD: AtomicU64 = AtomicU64::new(0);
static LIES: Throttle = Throttle::new();

/// The circuits by the inodes of their sockets: the number of a file descriptor is soon reused. The
/// lock is taken once by each of a new circuit's two threads.
static CIRCUITS: LazyLock<Mutex<HashMap<libc::ino_t, Weak<CircuitSocket>>>> =
    LazyLock::new(Mutex::default);

thread_local! {
    /// The circuit that the thread reads from or writes to.
    static OF_THREAD: RefCell<Option<Arc<CircuitSocket>>> = const { RefCell::new(None) };
}

/// Number of circuits that were cut because their server's messages had no known end.
pub fn circuits_cut_total() -> u64 {
    CUT.load(Ordering::Relaxed)
}

/// Number of invalid messages of servers that libca didn't see.
pub fn messages_withheld_total() -> u64 {
    WITHHELD.load(Ordering::Relaxed)
}

/// A circuit whose messages are checked.
#[derive(Debug)]
pub(super) struct CircuitSocket {
    /// When its server was last heard from.
    pub(super) liveness: Arc<Circuit>,
    /// Host and port of its server.
    pub(super) peer: String,
    /// Another descriptor of libca's socket. It stays open after libca has closed its own, whose
    /// number may then be another connection's. `None` if few descriptors were free.
    stream: Option<TcpStream>,
    /// A lock that the circuit's two threads take, the receiving thread once per read.
    check: Mutex<Check>,
    is_cut: AtomicBool,
}

/// What libca sees of a read.
pub(super) struct Seen {
    /// Bytes at the front.
    pub(super) count: usize,
    /// Whether more bytes are held until others follow them.
    pub(super) has_held: bool,
}

impl CircuitSocket {
    /// The circuit of a socket, which the calling thread is the first or second to use.
    fn of(socket: c_int) -> Option<Arc<Self>> {
        // SAFETY: an all-zero `stat` is valid.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a complete `stat` that outlives the call.
        if unsafe { libc::fstat(socket, &raw mut stat) } != 0 {
            return None;
        }
        let mut circuits = CIRCUITS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = circuits.get(&stat.st_ino).and_then(Weak::upgrade) {
            return Some(known);
        }
        circuits.retain(|_, circuit| circuit.strong_count() > 0);
        // SAFETY: the socket is libca's, which is calling and keeps it open meanwhile.
        let borrowed = unsafe { BorrowedFd::borrow_raw(socket) };
        let stream = borrowed.try_clone_to_owned().ok().map(TcpStream::from);
        let peer = stream.as_ref().and_then(|stream| stream.peer_addr().ok());
        let stream = stream.filter(|stream| !are_scarce(stream.as_raw_fd()));
        let new = Arc::new(Self {
            liveness: Arc::new(Circuit::new()),
            peer: peer.map_or_else(|| "?".to_owned(), |peer| peer.to_string()),
            stream,
            check: Mutex::default(),
            is_cut: AtomicBool::new(false),
        });
        circuits.insert(stat.st_ino, Arc::downgrade(&new));
        Some(new)
    }

    /// Calls a function with the circuit of the calling thread, which reads or writes this socket.
    pub(super) fn with<T>(socket: c_int, body: impl FnOnce(&Self) -> T) -> Option<T> {
        // Fails when the thread ends.
        let called = OF_THREAD.try_with(|circuit| {
            let mut circuit = circuit.try_borrow_mut().ok()?;
            if circuit.is_none() {
                *circuit = Self::of(socket);
            }
            circuit.as_deref().map(body)
        });
        called.ok().flatten()
    }

    /// The circuit of the calling thread, if it is one of libca's that read or write circuits.
    pub(super) fn of_this_thread() -> Option<Arc<Self>> {
        let known = OF_THREAD.try_with(|circuit| circuit.try_borrow().ok()?.clone());
        known.ok().flatten()
    }

    fn check<T>(&self, body: impl FnOnce(&mut Check) -> T) -> T {
        body(&mut self.check.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Copies the bytes that the next ones follow to libca's buffer.
    pub(super) fn copy_held(&self, mut copy: impl FnMut(&[u8])) {
        self.check(|check| copy(check.held()));
    }

    /// Checks bytes that the server has sent, and moves those that libca may see to the front. `None`
    /// after the circuit was cut.
    pub(super) fn received(&self, bytes: &mut [u8]) -> Option<Seen> {
        self.liveness.heard();
        if self.is_cut.load(Ordering::Relaxed) {
            return None;
        }
        let (result, withheld) = self.check(|check| {
            let result = check.received(bytes).map(|count| Seen {
                count,
                has_held: !check.held().is_empty(),
            });
            (result, check.take_withheld())
        });
        if let Some((lie, count)) = withheld {
            self.withheld(lie, count);
        }
        result.map_err(|lie| self.cut(lie)).ok()
    }

    #[cold]
    fn withheld(&self, lie: Lie, count: u64) {
        WITHHELD.fetch_add(count, Ordering::Relaxed);
        LIES.warn(format_args!(
            "the Channel Access server {} sends what no server may send ({lie}); such messages are ignored, and \
             PVs that they are for have no value until a valid one arrives; its administrator must repair it",
            self.peer
        ));
    }

    #[cold]
    fn cut(&self, lie: Lie) {
        self.is_cut.store(true, Ordering::Relaxed);
        CUT.fetch_add(1, Ordering::Relaxed);
        // Without it libca closes the circuit alone, once `recv` says that it has ended.
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(Shutdown::Both);
        }
        LIES.warn(format_args!(
            "the Channel Access server {} sends what no server may send ({lie}), after which no message can be \
             found, so its circuit is cut and its PVs are disconnected; its administrator must stop or repair it",
            self.peer
        ));
    }

    /// libca is about to send these bytes. Returns whether a part of an echo request must be
    /// completed first.
    pub(super) fn sending(&self, bytes: &[u8]) -> bool {
        self.check(|check| {
            check.sending(bytes);
            check.is_within_echo()
        })
    }

    /// These bytes were sent.
    pub(super) fn sent(&self, bytes: &[u8]) {
        self.check(|check| {
            check.sent(bytes);
            self.send_echo(check);
        });
    }

    /// Sends the rest of an echo request, in the thread that sends.
    pub(super) fn complete_echo(&self, transmit: impl Fn(&[u8]) -> isize) {
        loop {
            let rest = self.check(|check| check.rest_of_echo());
            let Ok(count @ 1..) = usize::try_from(transmit(rest)) else {
                return;
            };
            self.check(|check| check.echo_sent(count));
        }
    }

    /// Asks the server for an echo, which no record notices, as soon as libca has sent all of a
    /// message. Returns whether the server must answer.
    pub(super) fn probe(&self) -> bool {
        self.stream.is_some()
            && self.check(|check| {
                let may = check.want_echo();
                self.send_echo(check);
                may
            })
    }

    /// Sends as much of an echo request as the system takes at once.
    fn send_echo(&self, check: &mut Check) {
        let bytes = check.echo_to_send();
        let (Some(stream), false) = (&self.stream, bytes.is_empty()) else {
            return;
        };
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: the pointer and the length are those of `bytes`; without an address this is
        // equivalent to `send`.
        let sent = unsafe {
            libc::sendto(
                stream.as_raw_fd(),
                bytes.as_ptr().cast(),
                bytes.len(),
                flags,
                ptr::null(),
                0,
            )
        };
        // An error is that of a circuit that ends, or of a full buffer, which is tried again.
        check.echo_sent(usize::try_from(sent).unwrap_or(0));
    }
}
