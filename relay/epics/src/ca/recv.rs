//! Replaces `recv` and `send` for libca: busy circuits are read less often, and messages are
//! checked.
//!
//! A server of EPICS base sends changes in pieces of about forty updates. libca's receive thread is
//! faster than the server and is woken for each piece, which costs more than processing the
//! updates. This file provides the function `recv` that the thread calls. While pieces arrive one
//! after another and none is waiting, it sleeps briefly before it waits for the next one, so that
//! several have arrived by then. At that point the thread holds none of libca's locks, which it
//! holds during callbacks.
//!
//! Before libca sees the bytes they are checked ([`Check`]). A circuit with a message that no
//! server may send is cut, as if the server had closed it. The requests of libca are read from the
//! bytes that it sends, so this file also provides its function `send`.
//!
//! A program whose linker exports the symbols uses these functions in place of the C library's; in
//! other programs nothing is paced or checked. On all other threads they do the same as the C
//! library's. Searches and beacons use UDP, which libca reads by `recvfrom`; pvxs reads by `readv`.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::{c_int, c_void};
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use std::{ptr, slice, thread};

use super::check::{Check, Lie};
use crate::guard::guard;
use crate::throttle::Throttle;

/// libca's names of the threads that read its circuits, and of those that write to them.
const RECEIVER: &[u8] = b"CAC-TCP-recv\0";
const SENDER: &[u8] = b"CAC-TCP-send\0";

/// Shortest wait. A server that sends at full speed fills libca's buffer in about this time.
const SHORTEST: Duration = Duration::from_micros(250);

/// Longest wait. A circuit that is silent for longer is not busy.
const LONGEST: Duration = Duration::from_millis(2);

static READS: AtomicU64 = AtomicU64::new(0);
static PACED: AtomicU64 = AtomicU64::new(0);
static CUT: AtomicU64 = AtomicU64::new(0);
static LIES: Throttle = Throttle::new();

/// The state of each circuit, by the inode of its socket: the number of a file descriptor is soon
/// reused. The lock is taken once by each of a new circuit's two threads.
static CIRCUITS: LazyLock<Mutex<HashMap<libc::ino_t, Weak<Checked>>>> =
    LazyLock::new(Mutex::default);

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::Unknown) };
    /// The circuit that the thread reads from or writes to.
    static CHECKED: RefCell<Option<Arc<Checked>>> = const { RefCell::new(None) };
}

/// Keeps the functions in programs that call them only through a library.
#[used]
static EXPORTED: unsafe extern "C" fn(c_int, *mut c_void, usize, c_int) -> isize = recv;
#[used]
static EXPORTED_TOO: unsafe extern "C" fn(c_int, *const c_void, usize, c_int) -> isize = send;

/// Number of reads from circuits of all Channel Access clients since the start of the process; 0 in
/// a program that doesn't export the symbol `recv`.
pub fn reads_total() -> u64 {
    READS.load(Ordering::Relaxed)
}

/// Number of these reads that found no data and slept first, because the circuit was busy.
pub fn paced_reads_total() -> u64 {
    PACED.load(Ordering::Relaxed)
}

/// Number of circuits that were cut because their server sent an invalid message.
pub fn circuits_cut_total() -> u64 {
    CUT.load(Ordering::Relaxed)
}

/// A circuit whose messages are checked.
#[derive(Debug, Default)]
struct Checked {
    /// A lock that the circuit's two threads take, the receiving thread once per read.
    check: Mutex<Check>,
    is_cut: AtomicBool,
}

impl Checked {
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
        let new = Arc::<Self>::default();
        circuits.insert(stat.st_ino, Arc::downgrade(&new));
        Some(new)
    }

    fn with<T>(&self, body: impl FnOnce(&mut Check) -> T) -> T {
        body(&mut self.check.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Calls a function with the circuit of the calling thread.
fn with_circuit<T>(socket: c_int, body: impl FnOnce(&Checked) -> T) -> Option<T> {
    // Fails when the thread ends.
    let called = CHECKED.try_with(|checked| {
        let mut checked = checked.try_borrow_mut().ok()?;
        if checked.is_none() {
            *checked = Checked::of(socket);
        }
        checked.as_deref().map(body)
    });
    called.ok().flatten()
}

/// The role of the thread that reads or writes.
#[derive(Clone, Copy, Debug)]
enum Thread {
    Unknown,
    Receiver(Circuit),
    Sender,
    Other,
}

impl Thread {
    /// The calling thread.
    fn this() -> Self {
        let known = THREAD.get();
        if !matches!(known, Self::Unknown) {
            return known;
        }
        let name = thread_name();
        let found = if name.starts_with(RECEIVER) {
            Self::Receiver(Circuit::default())
        } else if name.starts_with(SENDER) {
            Self::Sender
        } else {
            Self::Other
        };
        THREAD.set(found);
        found
    }
}

/// Statistics of one circuit's reads; a receive thread has one circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Circuit {
    /// Time to wait if no data is available; zero unless the circuit is busy.
    pause: Duration,
}

impl Circuit {
    /// The state after a read that was blocked for `blocked` and then got `count` bytes into a
    /// buffer of `room` bytes. The pause is chosen so that a read fills more than half of the
    /// buffer, and hardly longer.
    fn after(self, blocked: Duration, count: usize, room: usize) -> Self {
        let pause = if blocked > LONGEST {
            Duration::ZERO
        } else if count >= room {
            Some(self.pause / 2)
                .filter(|pause| *pause >= SHORTEST)
                .unwrap_or_default()
        } else if count < room / 2 {
            (self.pause * 2).clamp(SHORTEST, LONGEST)
        } else {
            self.pause
        };
        Self { pause }
    }
}

/// The system's `recv`, which libca's receive threads also call.
///
/// # Safety
///
/// As for the C library's function: `buffer` has room for `room` bytes.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
unsafe extern "C" fn recv(socket: c_int, buffer: *mut c_void, room: usize, flags: c_int) -> isize {
    let receive = |flags| {
        // SAFETY: as the caller promises; without a sender's address this is equivalent to `recv`.
        unsafe {
            libc::recvfrom(
                socket,
                buffer,
                room,
                flags,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        }
    };
    let Thread::Receiver(circuit) = Thread::this() else {
        return receive(flags);
    };
    // Reads without waiting first: a busy circuit often has more data already.
    let at_once = (!circuit.pause.is_zero()).then(|| receive(flags | libc::MSG_DONTWAIT));
    let (count, blocked) = match at_once {
        Some(count) if count >= 0 || !is_empty() => (count, Duration::ZERO),
        _ => {
            if at_once.is_some() {
                PACED.fetch_add(1, Ordering::Relaxed);
                thread::sleep(circuit.pause);
            }
            let from = Instant::now();
            // Reading the clock does not change errno.
            (receive(flags), from.elapsed())
        }
    };
    if count > 0 {
        READS.fetch_add(1, Ordering::Relaxed);
        super::thread_circuit::heard();
        let circuit = circuit.after(blocked, count.unsigned_abs(), room);
        THREAD.set(Thread::Receiver(circuit));
        // SAFETY: the system has just written `count` bytes there, into the caller's buffer.
        let bytes = unsafe { slice::from_raw_parts(buffer.cast::<u8>(), count.unsigned_abs()) };
        if flags & libc::MSG_PEEK == 0 && !is_true(socket, bytes) {
            // Reported like the end of the circuit.
            return 0;
        }
    }
    count
}

/// The system's `send`, which libca's send threads also call.
///
/// # Safety
///
/// As for the C library's function: `bytes` has `count` bytes.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
unsafe extern "C" fn send(
    socket: c_int,
    bytes: *const c_void,
    count: usize,
    flags: c_int,
) -> isize {
    let transmit = || {
        // SAFETY: as the caller promises; without an address this is equivalent to `send`.
        unsafe { libc::sendto(socket, bytes, count, flags, ptr::null(), 0) }
    };
    if !matches!(Thread::this(), Thread::Sender) {
        return transmit();
    }
    // SAFETY: as the caller promises.
    let asked = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), count) };
    let note = |note: &dyn Fn(&mut Check)| {
        guard("send", || {
            let _ = with_circuit(socket, |checked| checked.with(note));
        });
    };
    // The answer may arrive before the call returns.
    note(&|check| check.sending(asked));
    let sent = transmit();
    // Neither the lock nor the pass over the sent bytes changes errno.
    if let Ok(sent) = usize::try_from(sent) {
        note(&|check| check.sent(&asked[..sent]));
    }
    sent
}

/// Whether libca may see the received bytes. If not, the circuit is ended.
fn is_true(socket: c_int, bytes: &[u8]) -> bool {
    let mut is_true = false;
    guard("recv", || {
        let judged = with_circuit(socket, |checked| {
            if checked.is_cut.load(Ordering::Relaxed) {
                return false;
            }
            let Err(lie) = checked.with(|check| check.received(bytes)) else {
                return true;
            };
            checked.is_cut.store(true, Ordering::Relaxed);
            cut(socket, lie);
            false
        });
        is_true = judged == Some(true);
    });
    is_true
}

#[cold]
fn cut(socket: c_int, lie: Lie) {
    CUT.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the socket is libca's and open; it is not closed here.
    let stream = ManuallyDrop::new(unsafe { TcpStream::from_raw_fd(socket) });
    let peer =
        (stream.peer_addr()).map_or_else(|_| "?".to_owned(), |peer: SocketAddr| peer.to_string());
    let _ = stream.shutdown(std::net::Shutdown::Both);
    LIES.warn(format_args!(
        "the Channel Access server {peer} sends what no server may send ({lie}), so its circuit is cut and its \
         PVs are disconnected; its administrator must stop or repair it"
    ));
}

/// Whether the failed read only had no data available.
fn is_empty() -> bool {
    std::io::Error::last_os_error().kind() == ErrorKind::WouldBlock
}

/// Whether the calling thread reads a circuit of libca.
pub(super) fn is_receiver() -> bool {
    thread_name().starts_with(RECEIVER)
}

/// The name of the calling thread and a NUL; empty if the system doesn't provide it.
fn thread_name() -> [u8; 16] {
    // The maximum length of a thread's name, including its NUL.
    let mut name = [0_u8; 16];
    // SAFETY: the call writes a name of at most 16 bytes, the size of the array.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    if failed { [0; 16] } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT_ONCE: Duration = Duration::from_micros(100);
    const LATE: Duration = Duration::from_millis(20);
    const ROOM: usize = 16_384;
    const PIECE: usize = 1_600;

    /// The pauses after reads, each given by how long it was blocked and how many bytes it got.
    fn pauses(reads: &[(Duration, usize)]) -> Vec<Duration> {
        let mut circuit = Circuit::default();
        let pause = |(blocked, count): &(Duration, usize)| {
            circuit = circuit.after(*blocked, *count, ROOM);
            circuit.pause
        };
        reads.iter().map(pause).collect()
    }

    #[test]
    fn pieces_are_awaited_longer_the_fewer_come() {
        let read = (AT_ONCE, PIECE);
        let waits = pauses(&[(LATE, PIECE), read, read, read, read, read]);
        let longer = [1, 2, 4, 8, 8].map(|times| SHORTEST * times);
        assert_eq!((waits[0], &waits[1..]), (Duration::ZERO, &longer[..]));
        assert_eq!(longer[4], LONGEST);
    }

    #[test]
    fn wait_that_brings_half_a_buffer_is_long_enough() {
        let waits = pauses(&[(AT_ONCE, PIECE), (AT_ONCE, ROOM / 2), (AT_ONCE, ROOM - 1)]);
        assert_eq!(waits, [SHORTEST; 3]);
    }

    #[test]
    fn first_piece_after_a_silence_ends_the_waiting() {
        let read = (AT_ONCE, PIECE);
        assert_eq!(pauses(&[read, read, (LATE, PIECE)])[2], Duration::ZERO);
    }

    #[test]
    fn update_now_and_then_is_never_waited_for() {
        assert_eq!(pauses(&[(LATE, 40); 100]), [Duration::ZERO; 100]);
    }

    #[test]
    fn full_buffers_end_the_waiting() {
        let (piece, full) = ((AT_ONCE, PIECE), (Duration::ZERO, ROOM));
        let waits = pauses(&[piece, piece, full, full, full]);
        assert_eq!(waits[2..], [SHORTEST, Duration::ZERO, Duration::ZERO]);
    }

    /// Reads through the exported `recv`: these tests need the feature that exports it.
    #[cfg(feature = "interpose")]
    mod interposed {
        use std::io::{Read, Write};
        use std::net::{TcpListener, TcpStream};

        use super::*;

        const ECHO: [u8; 16] = [0, 23, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];

        /// Calls `body` with the two ends of a connection, in a thread of this name.
        fn in_thread<T: Send + 'static>(
            name: &str,
            body: impl FnOnce(TcpStream, TcpStream) -> T + Send + 'static,
        ) -> T {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (other, _) = listener.accept().unwrap();
            let thread = thread::Builder::new().name(name.into());
            thread.spawn(|| body(one, other)).unwrap().join().unwrap()
        }

        #[test]
        fn receiver_gets_what_was_sent_and_why_there_is_nothing() {
            in_thread("CAC-TCP-recv", |mut from, mut to| {
                let before = reads_total();
                let mut buffer = [0; 64];
                for _ in 0..10 {
                    from.write_all(&ECHO).unwrap();
                    assert_eq!(to.read(&mut buffer).unwrap(), ECHO.len());
                    assert_eq!(buffer[..ECHO.len()], ECHO);
                }
                assert!(matches!(THREAD.get(), Thread::Receiver(_)));
                assert!(reads_total() >= before + 10);
                to.set_nonblocking(true).unwrap();
                let nothing = to.read(&mut buffer).unwrap_err();
                assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
                drop(from);
                to.set_nonblocking(false).unwrap();
                assert_eq!(to.read(&mut buffer).unwrap(), 0);
            });
        }

        #[test]
        fn circuit_that_lies_ends_before_the_lie_is_read() {
            in_thread("CAC-TCP-recv", |mut from, mut to| {
                let before = circuits_cut_total();
                let mut buffer = [0; 64];
                from.write_all(&ECHO).unwrap();
                assert_eq!(to.read(&mut buffer).unwrap(), ECHO.len());
                // The first half of a message whose command doesn't exist.
                from.write_all(&[0, 99, 0, 0]).unwrap();
                assert_eq!(to.read(&mut buffer).unwrap(), 4);
                from.write_all(&[0; 12]).unwrap();
                assert_eq!(to.read(&mut buffer).unwrap(), 0);
                assert_eq!(to.read(&mut buffer).unwrap(), 0);
                assert!(circuits_cut_total() > before);
                // The server sees the end too.
                assert_eq!(from.read(&mut buffer).unwrap(), 0);
            });
        }

        #[test]
        fn other_threads_read_as_ever() {
            in_thread("shard-0", |mut from, mut to| {
                from.write_all(b"a request").unwrap();
                assert_eq!(to.read(&mut [0; 64]).unwrap(), 9);
                assert!(matches!(THREAD.get(), Thread::Other));
            });
        }
    }
}
