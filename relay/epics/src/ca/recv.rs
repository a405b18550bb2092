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
//! Before libca sees the bytes they are checked ([`Check`](super::check::Check)). Messages that
//! libca would read wrongly are replaced or left out. A circuit whose next message can't be found
//! is cut, as if the server had closed it. The requests of libca are read from the bytes that it
//! sends, so this file also provides its function `send`. Between two of its messages the relay
//! asks quiet servers for an echo.
//!
//! A program whose linker exports the symbols uses these functions in place of the C library's; in
//! other programs nothing is paced, checked or asked. On all other threads they do the same as the C
//! library's. Searches and beacons use UDP, which libca reads by `recvfrom`; pvxs reads by `readv`.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{ptr, slice, thread};

use super::socket::{CircuitSocket, Seen};
use crate::guard::{guard, thread_name};

/// libca's names of the threads that read its circuits, and of those that write to them.
const RECEIVER: &[u8] = b"CAC-TCP-recv\0";
const SENDER: &[u8] = b"CAC-TCP-send\0";

/// Shortest wait. A server that sends at full speed fills libca's buffer in about this time.
const SHORTEST: Duration = Duration::from_micros(250);

/// Longest wait. A circuit that is silent for longer is not busy.
const LONGEST: Duration = Duration::from_millis(2);

static READS: AtomicU64 = AtomicU64::new(0);
static PACED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::Unknown) };
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
    /// Whether the begin of a message waits for the bytes that follow it.
    has_held: bool,
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
        Self { pause, ..self }
    }
}

/// The system's `recv`, which libca's receive threads also call.
///
/// # Safety
///
/// As for the C library's function: `buffer` has room for `room` bytes.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
unsafe extern "C" fn recv(socket: c_int, buffer: *mut c_void, room: usize, flags: c_int) -> isize {
    let buffer = buffer.cast::<u8>();
    let receive = |start: usize, flags| {
        // SAFETY: as the caller promises, and `start` is at most `room`; without a sender's address
        // this is equivalent to `recv`.
        unsafe {
            libc::recvfrom(
                socket,
                buffer.add(start).cast(),
                room - start,
                flags,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        }
    };
    let Thread::Receiver(mut circuit) = Thread::this() else {
        return receive(0, flags);
    };
    if flags & libc::MSG_PEEK != 0 {
        return receive(0, flags);
    }
    loop {
        let mut start = 0;
        if circuit.has_held {
            copy_held(socket, &mut |held| {
                start = held.len().min(room);
                // SAFETY: the buffer has room for `start` bytes, and is not the check's.
                unsafe { ptr::copy_nonoverlapping(held.as_ptr(), buffer, start) };
            });
        }
        let (count, blocked) = paced(circuit, |flags_too| receive(start, flags | flags_too));
        if count <= 0 {
            return count;
        }
        READS.fetch_add(1, Ordering::Relaxed);
        circuit = circuit.after(blocked, count.unsigned_abs(), room);
        let filled = start + count.unsigned_abs();
        // SAFETY: the system has just written the last `count` bytes there, and the first ones were
        // copied there; the buffer is the caller's.
        let bytes = unsafe { slice::from_raw_parts_mut(buffer, filled) };
        let seen = checked(socket, bytes);
        circuit.has_held = seen.as_ref().is_some_and(|seen| seen.has_held);
        THREAD.set(Thread::Receiver(circuit));
        match seen {
            // Reported like the end of the circuit.
            None => return 0,
            Some(Seen { count: 0, .. }) => {}
            Some(Seen { count, .. }) => return count as isize,
        }
    }
}

/// Reads, after a pause if the circuit is busy and no data is waiting. Returns also how long the
/// thread was blocked.
fn paced(circuit: Circuit, receive: impl Fn(c_int) -> isize) -> (isize, Duration) {
    // Reads without waiting first: a busy circuit often has more data already.
    let at_once = (!circuit.pause.is_zero()).then(|| receive(libc::MSG_DONTWAIT));
    match at_once {
        Some(count) if count >= 0 || !is_empty() => (count, Duration::ZERO),
        _ => {
            if at_once.is_some() {
                PACED.fetch_add(1, Ordering::Relaxed);
                thread::sleep(circuit.pause);
            }
            let from = Instant::now();
            // Reading the clock does not change errno.
            (receive(0), from.elapsed())
        }
    }
}

#[cold]
fn copy_held(socket: c_int, copy: &mut dyn FnMut(&[u8])) {
    guard("recv", || {
        let _ = CircuitSocket::with(socket, |circuit| circuit.copy_held(copy));
    });
}

/// What libca may see of received bytes, which is moved to the front. `None` if the circuit is
/// ended.
fn checked(socket: c_int, bytes: &mut [u8]) -> Option<Seen> {
    let mut seen = None;
    guard("recv", || {
        seen = CircuitSocket::with(socket, |circuit| circuit.received(bytes)).flatten();
    });
    seen
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
    let requests = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), count) };
    let mut is_within_echo = false;
    // The answer may arrive before the call returns.
    guard("send", || {
        let begun = CircuitSocket::with(socket, |circuit| circuit.sending(requests));
        is_within_echo = begun == Some(true);
    });
    if is_within_echo {
        let transmit = |rest: &[u8]| {
            // SAFETY: the pointer and the length are those of `rest`.
            unsafe {
                libc::sendto(
                    socket,
                    rest.as_ptr().cast(),
                    rest.len(),
                    flags,
                    ptr::null(),
                    0,
                )
            }
        };
        guard("send", || {
            let _ = CircuitSocket::with(socket, |circuit| circuit.complete_echo(transmit));
        });
    }
    let sent = transmit();
    // libca reads it after this call.
    let error = std::io::Error::last_os_error().raw_os_error();
    guard("send", || {
        let sent = usize::try_from(sent).unwrap_or(0);
        let _ = CircuitSocket::with(socket, |circuit| circuit.sent(&requests[..sent]));
    });
    if sent < 0
        && let Some(error) = error
    {
        // SAFETY: the pointer is to this thread's errno.
        unsafe { *libc::__errno_location() = error };
    }
    sent
}

/// Whether the failed read only had no data available.
fn is_empty() -> bool {
    std::io::Error::last_os_error().kind() == ErrorKind::WouldBlock
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
        use crate::ca::{circuits_cut_total, messages_withheld_total};

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
                // A message whose command doesn't exist, in two pieces.
                from.write_all(&[0, 99, 0, 0]).unwrap();
                from.write_all(&[0; 12]).unwrap();
                assert_eq!(to.read(&mut buffer).unwrap(), 0);
                assert_eq!(to.read(&mut buffer).unwrap(), 0);
                assert!(circuits_cut_total() > before);
                // The server sees the end too.
                assert_eq!(from.read(&mut buffer).unwrap(), 0);
            });
        }

        #[test]
        fn message_in_pieces_is_read_whole_and_one_without_a_request_not_at_all() {
            in_thread("CAC-TCP-recv", |mut from, mut to| {
                let before = messages_withheld_total();
                let mut buffer = [0; 64];
                // Access rights of a channel that was never requested.
                let mut rights = ECHO;
                rights[1] = 22;
                let writer = thread::spawn(move || {
                    for byte in [rights, ECHO].concat() {
                        from.write_all(&[byte]).unwrap();
                    }
                    from
                });
                assert_eq!(to.read(&mut buffer).unwrap(), ECHO.len());
                assert_eq!(buffer[..ECHO.len()], ECHO);
                assert!(messages_withheld_total() > before);
                drop(writer.join().unwrap());
                assert_eq!(to.read(&mut buffer).unwrap(), 0);
            });
        }

        #[test]
        fn echo_is_sent_between_two_requests_of_libca() {
            in_thread("CAC-TCP-send", |mut libca, mut server| {
                let mut request = [7; 24];
                // The header of a write with 8 bytes.
                request[..8].copy_from_slice(&[0, 4, 0, 8, 0, 6, 0, 1]);
                libca.write_all(&request[..10]).unwrap();
                let circuit = CircuitSocket::of_this_thread().unwrap();
                assert!(circuit.probe());
                libca.write_all(&request[10..]).unwrap();
                assert!(circuit.probe());
                let mut received = [0; 56];
                server.read_exact(&mut received).unwrap();
                assert_eq!(received, *[&request[..], &ECHO, &ECHO].concat());
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
