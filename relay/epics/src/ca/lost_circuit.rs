//! Finds the channels of a server that answered their search and whose circuit ended before they were connected.
//!
//! libca reports the end of a circuit while its channels still have the server's name, and then searches them again
//! without a word: a server that refuses each connection would not be named anywhere.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use ca_sys::{ca_get_host_name, chid};

use super::channel_state::ChannelState;
use crate::memory::shrink;
use crate::silence::silent_server;

/// Looks through all channels in [`INTERVAL`], at most: many servers may end at the same time.
const MOST_LOOKS: usize = 20;

const INTERVAL: Duration = Duration::from_secs(1);

static OPEN: LazyLock<Mutex<Open>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Open {
    /// The state of each open channel, by the channel's address.
    channels: HashMap<usize, (Channel, Weak<ChannelState>)>,
    /// The last looks, oldest first.
    looks: VecDeque<Instant>,
}

struct Channel(chid);

// SAFETY: libca's functions take channels on any thread, and the channel is open while it is in the map.
unsafe impl Send for Channel {}

fn open() -> MutexGuard<'static, Open> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds a channel. [`closed`] must be called before it is cleared.
pub(super) fn opened(channel: chid, state: &Arc<ChannelState>) {
    let known = (Channel(channel), Arc::downgrade(state));
    open().channels.insert(channel.addr(), known);
}

/// Removes a channel.
pub(super) fn closed(channel: chid) {
    let mut open = open();
    open.channels.remove(&channel.addr());
    shrink(&mut open.channels);
}

/// A circuit to this server has ended; whether it had been made. Called while libca reports it, with none of libca's locks
/// but that of callbacks.
pub(super) fn ended(server: &str, was_made: bool) {
    let what = if was_made {
        "then ends the connection at once"
    } else {
        "then refuses the connection"
    };
    let reason = silent_server(server, what);
    for state in unconnected(server) {
        state.on_reason(&reason);
    }
}

fn unconnected(server: &str) -> Vec<Arc<ChannelState>> {
    let mut open = open();
    let now = Instant::now();
    while open
        .looks
        .pop_front_if(|look| *look + INTERVAL <= now)
        .is_some()
    {}
    if open.looks.len() >= MOST_LOOKS {
        return Vec::new();
    }
    open.looks.push_back(now);
    let channels = open.channels.values();
    let states = channels.filter_map(|(channel, state)| {
        let state = state.upgrade().filter(|state| !state.is_connected())?;
        (host(channel) == server.as_bytes()).then_some(state)
    });
    states.collect()
}

fn host(Channel(channel): &Channel) -> Vec<u8> {
    let mut host = vec![0_u8; 128];
    // SAFETY: the channel is open, because it is removed from the map before it is cleared; libca writes at most the given
    // length.
    unsafe { ca_get_host_name(*channel, host.as_mut_ptr().cast(), host.len() as u32) };
    let end = host.iter().position(|byte| *byte == 0);
    host.truncate(end.unwrap_or(host.len()));
    host
}
