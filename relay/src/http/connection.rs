//! A TCP connection of the HTTP server that tracks whether its client reads.
//!
//! The answers of the status page and the metrics are short. A client that sends a request and
//! doesn't read the answer would hold a descriptor and up to 4 MiB of the kernel's memory without
//! limit of time. So their send buffer is bounded, and the server ends a connection whose client
//! reads nothing. The send buffer of a WebSocket or of a stream of large values is left to the
//! kernel: a fixed size would bound what a client gets in one round trip.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Send buffer of a short answer, in bytes; the kernel reserves twice as much memory.
const ANSWER_BUFFER_BYTES: usize = 64 << 10;

/// The kernel probes a client from which no byte came for this long.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(20);

/// Interval between probes without an answer.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(5);

/// Probes without an answer after which the connection ends.
const KEEPALIVE_TRIES: u32 = 6;

/// The state of a connection that hyper holds.
#[derive(Debug, Default)]
pub struct Progress {
    /// Its answer is short: its send buffer is bounded before the first byte.
    is_short: AtomicBool,
    /// It ends at once; unsent bytes are dropped.
    is_cut: AtomicBool,
    /// Since when the kernel takes no bytes although some wait.
    stalled: Mutex<Option<Instant>>,
}

impl Progress {
    /// Called before a short answer.
    pub fn answers_shortly(&self) {
        self.is_short.store(true, Ordering::Relaxed);
    }

    /// Ends the connection without sending what the client hasn't read.
    pub fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    /// Time for which the client has read nothing although data waits for it.
    #[must_use]
    pub fn stalled_for(&self, now: Instant) -> Duration {
        let since = *self.stalled();
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    fn stalled(&self) -> MutexGuard<'_, Option<Instant>> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note<T>(&self, written: &Poll<T>) {
        let mut stalled = self.stalled();
        match written {
            Poll::Ready(_) => *stalled = None,
            Poll::Pending => {
                stalled.get_or_insert_with(Instant::now);
            }
        }
    }
}

/// The connection as hyper and TLS use it.
#[derive(Debug)]
pub struct Connection {
    /// Taken out when the connection becomes a client's.
    tcp: Option<TcpStream>,
    progress: Arc<Progress>,
}

impl Connection {
    /// Wraps an accepted connection. A client whose machine or network is gone is detected within
    /// `gone_after`.
    ///
    /// # Errors
    /// When it has ended already.
    pub fn new(tcp: TcpStream, gone_after: Duration) -> io::Result<Self> {
        let options = SockRef::from(&tcp);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_AFTER);
        #[cfg(target_os = "linux")]
        let keepalive = keepalive
            .with_interval(KEEPALIVE_EVERY)
            .with_retries(KEEPALIVE_TRIES);
        options.set_tcp_keepalive(&keepalive)?;
        #[cfg(target_os = "linux")]
        options.set_tcp_user_timeout(Some(gone_after))?;
        Ok(Self {
            tcp: Some(tcp),
            progress: Arc::default(),
        })
    }

    /// The same connection in another thread's runtime.
    #[must_use]
    pub fn moved(tcp: TcpStream, progress: Arc<Progress>) -> Self {
        let tcp = Some(tcp);
        Self { tcp, progress }
    }

    /// The connection's progress, for the server.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// The socket.
    ///
    /// # Panics
    /// After `into_std`.
    #[must_use]
    pub fn tcp(&self) -> &TcpStream {
        self.tcp
            .as_ref()
            .expect("the socket is not used after `into_std`")
    }

    /// Takes the socket out of the HTTP server.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn into_std(mut self) -> io::Result<std::net::TcpStream> {
        let tcp = self.tcp.take();
        tcp.ok_or(io::ErrorKind::NotConnected)?.into_std()
    }

    fn pinned(&mut self) -> io::Result<Pin<&mut TcpStream>> {
        let tcp = self.tcp.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Pin::new(tcp))
    }

    fn before_write(&self) -> io::Result<()> {
        if self.progress.is_short.swap(false, Ordering::Relaxed) {
            SockRef::from(self.tcp()).set_send_buffer_size(ANSWER_BUFFER_BYTES)?;
        }
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(tcp) = &self.tcp
            && self.progress.is_cut.load(Ordering::Relaxed)
        {
            // Makes the kernel drop unsent bytes at once; if it fails, the kernel's time-outs apply.
            let _ = SockRef::from(tcp).set_linger(Some(Duration::ZERO));
        }
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.pinned()?.poll_read(context, into)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.before_write()?;
        let written = self.pinned()?.poll_write(context, bytes);
        self.progress.note(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.before_write()?;
        let written = self.pinned()?.poll_write_vectored(context, slices);
        self.progress.note(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.pinned()?.poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    const MINUTE: Duration = Duration::from_secs(60);

    async fn pair() -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let near = listener.accept().await.unwrap().0;
        (Connection::new(near, MINUTE).unwrap(), far)
    }

    fn run(test: impl Future<Output = ()>) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(test);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn kernel_looks_for_clients_whose_machine_or_network_is_gone() {
        run(async {
            let (connection, _far) = pair().await;
            let options = SockRef::from(connection.tcp());
            assert!(options.keepalive().unwrap());
            assert_eq!(options.tcp_user_timeout().unwrap(), Some(MINUTE));
        });
    }

    #[test]
    fn send_buffer_is_bounded_for_short_answers_only() {
        run(async {
            for is_short in [true, false] {
                let (mut connection, _far) = pair().await;
                let size = |connection: &Connection| {
                    SockRef::from(connection.tcp()).send_buffer_size().unwrap()
                };
                let before = size(&connection);
                if is_short {
                    connection.progress().answers_shortly();
                }
                let mut context = Context::from_waker(std::task::Waker::noop());
                let written = Pin::new(&mut connection).poll_write(&mut context, b"answer");
                assert!(written.is_ready());
                let expected = if is_short {
                    2 * ANSWER_BUFFER_BYTES
                } else {
                    before
                };
                assert_eq!(size(&connection), expected);
            }
        });
    }

    #[test]
    fn client_that_takes_nothing_stalls_and_one_that_reads_does_not() {
        run(async {
            let (mut connection, far) = pair().await;
            let progress = connection.progress();
            progress.answers_shortly();
            let chunk = [0; 64 << 10];
            let mut context = Context::from_waker(std::task::Waker::noop());
            let fill = |connection: &mut Connection, context: &mut Context<'_>| {
                while Pin::new(&mut *connection)
                    .poll_write(context, &chunk)
                    .is_ready()
                {}
            };
            fill(&mut connection, &mut context);
            let later = Instant::now() + MINUTE;
            assert!(progress.stalled_for(later) >= MINUTE);
            while progress.stalled_for(later) > Duration::ZERO {
                far.readable().await.unwrap();
                let _ = far.try_read(&mut [0; 256 << 10]);
                let _ = Pin::new(&mut connection).poll_write(&mut context, &chunk);
                tokio::task::yield_now().await;
            }
        });
    }
}
