//! A network between a relay and its IOC that a test can cut.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

/// A TCP proxy from 127.0.0.2, or another address, to the same port of 127.0.0.1. While it is cut nothing passes, not
/// even the end of a connection, as in a network without a route; what was sent meanwhile passes
/// when it is repaired.
pub struct Wire {
    near: SocketAddr,
    cut: Arc<(Mutex<bool>, Condvar)>,
    flow: Arc<Mutex<Flow>>,
}

/// What passes through it, while it isn't cut.
#[derive(Default)]
struct Flow {
    /// Every 16 KiB wait so long.
    pause: Duration,
    connections: Vec<TcpStream>,
}

impl Wire {
    /// Starts the proxy.
    pub fn lay(port: u16) -> Self {
        Self::lay_from("127.0.0.2", port)
    }

    /// The same from another address of this machine.
    pub fn lay_from(near: &str, port: u16) -> Self {
        let listener = TcpListener::bind((near, port)).unwrap();
        Self::serve(listener, move || Some(([127, 0, 0, 1], port).into()))
    }

    /// The same from a port of 127.0.0.1 to the address that `far` gives for each connection.
    pub fn lay_to(far: impl Fn() -> Option<SocketAddr> + Send + 'static) -> Self {
        Self::serve(TcpListener::bind(("127.0.0.1", 0)).unwrap(), far)
    }

    /// Where clients connect to it.
    pub fn address(&self) -> SocketAddr {
        self.near
    }

    fn serve(listener: TcpListener, far: impl Fn() -> Option<SocketAddr> + Send + 'static) -> Self {
        let address = listener.local_addr().unwrap();
        let cut = Arc::<(Mutex<bool>, Condvar)>::default();
        let is_cut = Arc::clone(&cut);
        let flow = Arc::<Mutex<Flow>>::default();
        let flows = Arc::clone(&flow);
        thread::spawn(move || {
            for near in listener.incoming() {
                let far = far().and_then(|far| TcpStream::connect(far).ok());
                let (Ok(near), Some(far)) = (near, far) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (cut, flow) = (Arc::clone(&is_cut), Arc::clone(&flows));
                    thread::spawn(move || pass(&from, &to, &cut, &flow));
                }
                let connections = &mut flows.lock().unwrap().connections;
                connections.retain(|connection| connection.peer_addr().is_ok());
                connections.extend([near, far]);
            }
        });
        Self {
            near: address,
            cut,
            flow,
        }
    }

    /// The same for UDP too, by which PVs are searched; datagrams sent while it is cut are lost.
    pub fn lay_with_searches(port: u16) -> Self {
        let wire = Self::lay(port);
        let near = UdpSocket::bind(("127.0.0.2", port)).unwrap();
        let cut = Arc::clone(&wire.cut);
        thread::spawn(move || pass_searches(&near, port, &cut));
        wire
    }

    /// Cuts or repairs it.
    pub fn set(&self, cut: bool) {
        *self.cut.0.lock().unwrap() = cut;
        self.cut.1.notify_all();
    }

    /// Delays every 16 KiB by so much, from now on.
    pub fn slow(&self, pause: Duration) {
        self.flow.lock().unwrap().pause = pause;
    }

    /// Ends the present connections; new ones pass.
    pub fn sever(&self) {
        for connection in self.flow.lock().unwrap().connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

/// Passes datagrams on to the same port of 127.0.0.1, and the answers back.
fn pass_searches(near: &UdpSocket, port: u16, cut: &Arc<(Mutex<bool>, Condvar)>) {
    let mut bytes = [0; 2048];
    let mut far_of = HashMap::new();
    loop {
        let Ok((count, client)) = near.recv_from(&mut bytes) else {
            continue;
        };
        if *cut.0.lock().unwrap() {
            continue;
        }
        let far = far_of.entry(client).or_insert_with(|| {
            let far = UdpSocket::bind("127.0.0.1:0").unwrap();
            far.connect(("127.0.0.1", port)).unwrap();
            let (from, to, cut) = (
                far.try_clone().unwrap(),
                near.try_clone().unwrap(),
                cut.clone(),
            );
            thread::spawn(move || {
                let mut bytes = [0; 2048];
                loop {
                    // Without an IOC the system returns an error.
                    if let Ok(count) = from.recv(&mut bytes)
                        && !*cut.0.lock().unwrap()
                    {
                        let _ = to.send_to(&bytes[..count], client);
                    }
                }
            });
            far
        });
        let _ = far.send(&bytes[..count]);
    }
}

fn pass(
    mut from: &TcpStream,
    mut to: &TcpStream,
    (cut, mended): &(Mutex<bool>, Condvar),
    flow: &Mutex<Flow>,
) {
    let mut bytes = [0; 16 << 10];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        drop(mended.wait_while(cut.lock().unwrap(), |cut| *cut).unwrap());
        let pause = flow.lock().unwrap().pause;
        if !pause.is_zero() {
            thread::sleep(pause);
        }
        if count == 0 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
