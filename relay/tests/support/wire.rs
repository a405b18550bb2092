//! A network between a relay and its IOC that a test can cut.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A TCP proxy from 127.0.0.2 to the same port of 127.0.0.1. While it is cut nothing comes through
/// and no end of a connection is told, as in a network that has lost its way; what was sent meanwhile
/// comes when it has found it again.
pub(crate) struct Wire {
    cut: Arc<(Mutex<bool>, Condvar)>,
}

impl Wire {
    /// Lays it.
    pub(crate) fn lay(port: u16) -> Self {
        let cut = Arc::<(Mutex<bool>, Condvar)>::default();
        let listener = TcpListener::bind(("127.0.0.2", port)).unwrap();
        let is_cut = Arc::clone(&cut);
        thread::spawn(move || {
            for near in listener.incoming() {
                let (Ok(near), Ok(far)) = (near, TcpStream::connect(("127.0.0.1", port))) else {
                    continue;
                };
                for (from, to) in [(&near, &far), (&far, &near)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let cut = Arc::clone(&is_cut);
                    thread::spawn(move || pass(&from, &to, &cut));
                }
            }
        });
        Self { cut }
    }

    /// Cuts it, or mends it.
    pub(crate) fn set(&self, cut: bool) {
        *self.cut.0.lock().unwrap() = cut;
        self.cut.1.notify_all();
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, (cut, mended): &(Mutex<bool>, Condvar)) {
    let mut bytes = [0; 16 << 10];
    loop {
        let count = from.read(&mut bytes).unwrap_or(0);
        drop(mended.wait_while(cut.lock().unwrap(), |cut| *cut).unwrap());
        if count == 0 || to.write_all(&bytes[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
