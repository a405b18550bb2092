//! How often does libca read from a busy circuit?
//!
//! A server of EPICS base sends what changed in pieces of some forty updates, and libca's receive
//! thread, being quicker than the server, is woken for each of them: that costs more than all that
//! is then done with the updates. This file has the function `recv` that the thread reads by. While
//! pieces come one after the other and none is there, it sleeps for a moment before it waits for the
//! next, so that then several are there. At that point the thread holds none of libca's locks, which
//! it does while it calls back.
//!
//! A program whose linker exports the symbol has this `recv` in place of the C library's; in others
//! nothing is paced. On all other threads it is the same as that.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io::ErrorKind;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What libca names the threads that read from its circuits.
const RECEIVER: &[u8] = b"CAC-TCP-recv\0";

/// Shortest wait. A server that sends as fast as it can fills libca's buffer in about that time.
const SHORTEST: Duration = Duration::from_micros(250);

/// Longest wait. A circuit that is silent for longer is not busy.
const LONGEST: Duration = Duration::from_millis(2);

static READS: AtomicU64 = AtomicU64::new(0);
static PACED: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static THREAD: Cell<Thread> = const { Cell::new(Thread::Unknown) };
}

/// Keeps the function in programs that call it only by way of a library.
#[used]
static EXPORTED: unsafe extern "C" fn(c_int, *mut c_void, usize, c_int) -> isize = recv;

/// Reads from the circuits of all Channel Access clients since the start of the process; 0 in a
/// program that doesn't export its symbol `recv`.
pub fn reads_total() -> u64 {
    READS.load(Ordering::Relaxed)
}

/// Those among them that found nothing and slept a moment first, because the circuit was busy.
pub fn paced_reads_total() -> u64 {
    PACED.load(Ordering::Relaxed)
}

/// Whose thread it is that reads.
#[derive(Clone, Copy, Debug)]
enum Thread {
    Unknown,
    Receiver(Circuit),
    Other,
}

/// What the reads of one circuit were like; a receive thread has one circuit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Circuit {
    /// How long to wait when nothing is there; nothing unless it is busy.
    pause: Duration,
}

impl Circuit {
    /// After a read that was blocked so long and then got `count` bytes, where there was room for
    /// `room`: waits so long that a read gets more than half of what it could, and hardly longer.
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

/// The system's `recv`, which libca's receive threads call too.
///
/// # Safety
///
/// As of the C library's function: `buffer` has room for `room` bytes.
#[unsafe(no_mangle)]
unsafe extern "C" fn recv(socket: c_int, buffer: *mut c_void, room: usize, flags: c_int) -> isize {
    let receive = |flags| {
        // SAFETY: as the caller promises; with no place for the sender's address this is `recv`.
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
    let circuit = match THREAD.get() {
        Thread::Receiver(circuit) => circuit,
        Thread::Unknown if is_receiver() => Circuit::default(),
        Thread::Unknown => {
            THREAD.set(Thread::Other);
            return receive(flags);
        }
        Thread::Other => return receive(flags),
    };
    // Without a wait first: a busy circuit often has more already.
    let at_once = (!circuit.pause.is_zero()).then(|| receive(flags | libc::MSG_DONTWAIT));
    let (count, blocked) = match at_once {
        Some(count) if count >= 0 || !is_empty() => (count, Duration::ZERO),
        _ => {
            if at_once.is_some() {
                PACED.fetch_add(1, Ordering::Relaxed);
                thread::sleep(circuit.pause);
            }
            let from = Instant::now();
            // The clock leaves errno as it is.
            (receive(flags), from.elapsed())
        }
    };
    if count > 0 {
        READS.fetch_add(1, Ordering::Relaxed);
        super::thread_circuit::heard();
        let circuit = circuit.after(blocked, count.unsigned_abs(), room);
        THREAD.set(Thread::Receiver(circuit));
    }
    count
}

/// Whether the read that has just failed did so for want of bytes alone.
fn is_empty() -> bool {
    std::io::Error::last_os_error().kind() == ErrorKind::WouldBlock
}

/// Whether the calling thread reads from a circuit of libca.
pub(super) fn is_receiver() -> bool {
    // The longest name of a thread, with its NUL.
    let mut name = [0_u8; 16];
    // SAFETY: the call writes a name of at most 16 bytes, as many as there are.
    let failed = unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) } != 0;
    !failed && name.starts_with(RECEIVER)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;

    const AT_ONCE: Duration = Duration::from_micros(100);
    const LATE: Duration = Duration::from_millis(20);
    const ROOM: usize = 16_384;
    const PIECE: usize = 1_600;

    /// The pauses after reads that were blocked so long and got so many bytes.
    fn pauses(reads: &[(Duration, usize)]) -> Vec<Duration> {
        let mut circuit = Circuit::default();
        let pause = |(blocked, count): &(Duration, usize)| {
            circuit = circuit.after(*blocked, *count, ROOM);
            circuit.pause
        };
        reads.iter().map(pause).collect()
    }

    #[test]
    fn pieces_that_follow_each_other_are_waited_for_the_longer_the_fewer_come() {
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

    /// What `body` makes of the two ends of a connection, in a thread of this name.
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
                from.write_all(b"a piece").unwrap();
                assert_eq!(to.read(&mut buffer).unwrap(), 7);
                assert_eq!(&buffer[..7], b"a piece");
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
    fn other_threads_read_as_ever() {
        in_thread("shard-0", |mut from, mut to| {
            from.write_all(b"a request").unwrap();
            assert_eq!(to.read(&mut [0; 64]).unwrap(), 9);
            assert!(matches!(THREAD.get(), Thread::Other));
        });
    }
}
