//! Clients in separate threads, which stall, fall silent and reconnect on command.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pvwire_schema::types::RequestBody;

use testbed::{Client, Fetching, How, Pv};

/// An order to a client.
pub(super) enum Order {
    /// Reads and writes nothing for a while.
    Stall(Duration),
    /// Reads but doesn't acknowledge for a while.
    Mute(Duration),
    /// Drops its connection without a close frame and makes another.
    Cut,
    /// Gives up these PVs and subscribes them again.
    Renew(Vec<String>),
    /// Reports what it knows.
    Tell(Sender<Report>),
}

/// What a client knows of the PVs that it subscribed; PVs that it doesn't hold are absent.
#[derive(Clone, Default)]
pub(super) struct Report {
    pub(super) pvs: HashMap<String, Pv>,
    /// Number of catch-up frames.
    pub(super) catch_ups: usize,
    pub(super) connections: usize,
}

/// A client in its own thread, which reconnects whenever it has lost the relay.
pub(super) struct Watcher {
    pub(super) title: &'static str,
    pub(super) wanted: Vec<String>,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

pub(super) type Address = Arc<Mutex<Option<SocketAddr>>>;

impl Watcher {
    pub(super) fn start(
        title: &'static str,
        how: How,
        wanted: Vec<String>,
        address: &Address,
    ) -> Self {
        Self::start_by_stream(title, (how, None), wanted, address)
    }

    /// The same of a client that may take its large values by streams.
    pub(super) fn start_by_stream(
        title: &'static str,
        (how, fetching): (How, Option<Fetching>),
        wanted: Vec<String>,
        address: &Address,
    ) -> Self {
        let (orders, taken) = channel();
        let (address, names) = (Arc::clone(address), wanted.clone());
        let thread = thread::spawn(move || watch(how, fetching, &names, &address, &taken));
        Self {
            title,
            wanted,
            orders,
            thread: Some(thread),
        }
    }

    /// Gives an order. Panics if the client's thread has failed.
    pub(super) fn order(&mut self, order: Order) {
        if self.orders.send(order).is_err() {
            self.fail();
        }
    }

    pub(super) fn tell(&mut self) -> Report {
        let (report, told) = channel();
        self.order(Order::Tell(report));
        match told.recv() {
            Ok(report) => report,
            Err(_) => self.fail(),
        }
    }

    pub(super) fn fail_if_ended(&mut self) {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            self.fail();
        }
    }

    fn fail(&mut self) -> ! {
        let ended = self.thread.take().map(JoinHandle::join);
        panic!("the client \"{}\" failed: {ended:?}", self.title);
    }
}

/// The client's thread: it follows orders and otherwise reads.
fn watch(
    how: How,
    mut fetching: Option<Fetching>,
    wanted: &[String],
    address: &Address,
    orders: &Receiver<Order>,
) {
    let mut client: Option<Client> = None;
    let mut muted_until = None;
    let mut report = Report::default();
    loop {
        match orders.try_recv() {
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) => {}
            Ok(Order::Stall(time)) => thread::sleep(time),
            Ok(Order::Mute(time)) => muted_until = Some(Instant::now() + time),
            Ok(Order::Cut) => client = None,
            Ok(Order::Renew(names)) => {
                if let Some(client) = client.as_mut().filter(|client| client.closed.is_none()) {
                    let names: Vec<_> = client.known(&names).into_iter().cloned().collect();
                    let ids = names.iter().map(|name| client.id(name)).collect();
                    client.request(RequestBody::Unsubscribe { ids });
                    if client.try_subscribe(names.clone()) {
                        client.describe(&names);
                    }
                }
            }
            Ok(Order::Tell(to)) => {
                let held = |name: &String| {
                    let pv = client.as_ref()?.held(name)?;
                    Some((name.clone(), pv.clone()))
                };
                report.pvs = wanted.iter().filter_map(held).collect();
                let _ = to.send(report.clone());
            }
        }
        if let (Some(fetching), Some(client)) = (&mut fetching, &mut client) {
            fetching.follow(client);
            if client.closed.is_some() {
                fetching.end(client);
            }
        }
        let Some(connected) = client.as_mut().filter(|client| client.closed.is_none()) else {
            let known = *address.lock().unwrap();
            client = known.and_then(|address| Client::try_connect(address, how));
            let take = |client: &mut Client| {
                let took = client.try_subscribe(wanted.to_vec());
                if took {
                    client.describe(&client.known(wanted));
                }
                took
            };
            if client.as_mut().is_some_and(take) {
                report.connections += 1;
            } else {
                // The relay is down or starting.
                client = None;
                thread::sleep(Duration::from_millis(50));
            }
            continue;
        };
        connected.set_acks(muted_until.is_none_or(|until| until < Instant::now()));
        connected.read_for_a_moment();
        let behind = connected.messages.iter();
        report.catch_ups += behind.filter(|message| message.is_catch_up()).count();
        connected.forget_history();
    }
}
