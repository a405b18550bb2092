//! Measures how long clients wait for updates of an IOC that stays healthy: in the calm before the
//! first storm, and during each attack.
//!
//! The IOC has counters that process every 100 ms. A wait lasts from the moment when the IOC made
//! an update to its arrival at the client; when updates were skipped, from the first of them. The
//! IOC's own lateness is therefore not counted, nor is the time in which the driver has killed the
//! relay, nor that in which other programs had the cores.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::streams::Healthy;
use super::watcher::Address;
use super::withheld::{STEADY, Withheld};
use testbed::{Client, Fetching, How, Kept, RowSeen, eventually};

/// How often each counter changes.
const PERIOD: Duration = Duration::from_millis(100);
/// An attack may make clients wait this much longer than they do in the calm. At the end all attacks come at once: a
/// dozen busy programs beside a relay without optimization.
pub(super) const ALLOWED: Duration = Duration::from_secs(2);
/// What the time without an attack is called.
pub(super) const CALM: &str = "calm";

/// Clients of the healthy IOC, and the times of the attacks.
pub(super) struct Waits {
    pub(super) clients: Vec<Steady>,
    windows: Windows,
    withheld: Arc<Withheld>,
}

impl Waits {
    /// Starts clients. Those with streams watch the large arrays too.
    pub(super) fn start(
        healthy: &Healthy,
        clients: &[(How, Option<Fetching>)],
        allowed: Duration,
        address: &Address,
        withheld: &Arc<Withheld>,
    ) -> Self {
        let clients = clients.iter();
        Self {
            clients: clients
                .map(|(how, fetching)| Steady::start(*how, *fetching, healthy, address))
                .collect(),
            windows: Windows::new(allowed),
            withheld: Arc::clone(withheld),
        }
    }

    /// Waits until each client has a value of each PV.
    pub(super) fn wait_live(&self) {
        eventually("the steady clients have all values", || {
            self.clients.iter().all(|client| client.book().is_live())
        });
    }

    /// The driver is about to kill the relay. Waits that aren't over yet count until now.
    pub(super) fn relay_ends(&self) {
        for client in &self.clients {
            client.book().end_life();
        }
    }

    /// Updates that were due between `begin` and `end` count for this attack, or for the calm.
    pub(super) fn add_window(&mut self, name: &'static str, begin: SystemTime, end: SystemTime) {
        self.windows.new.push(Window { name, begin, end });
    }

    /// Measures the windows that were added since the last call, and fails when an attack made a
    /// client wait too long.
    pub(super) fn check(&mut self) {
        let mut waits = Vec::new();
        for client in &mut self.clients {
            client.fail_if_ended();
            let mut book = client.book();
            waits.append(&mut book.waits);
            waits.extend(book.open_waits());
        }
        let withheld = |wait: &Wait| self.withheld.between(wait.due, wait.arrived);
        self.windows.check(&waits, withheld);
    }

    /// Fails when a client has failed or gets nothing new. In a fleet, whose relays and bus the driver stops, how long
    /// clients wait says nothing.
    pub(super) fn check_alive(&mut self) {
        self.windows.new.clear();
        wait_new_values(&mut self.clients);
    }

    /// The longest waits, a line for each kind of attack.
    pub(super) fn table(&self) -> String {
        format!(
            "longest wait of {} clients for an update of a healthy IOC:\n{}",
            self.clients.len(),
            self.windows.table()
        )
    }
}

/// Waits until each client has a new value of each PV.
fn wait_new_values(clients: &mut [Steady]) {
    for client in clients.iter() {
        client.book().last.clear();
    }
    eventually("the steady clients get new values", || {
        clients.iter_mut().for_each(Steady::fail_if_ended);
        clients.iter().all(|client| client.book().is_live())
    });
}

/// A time in which the waits are of one kind.
struct Window {
    name: &'static str,
    begin: SystemTime,
    end: SystemTime,
}

/// The longest wait of each kind of window.
struct Windows {
    /// A window may make clients wait this much longer than the calm.
    allowed: Duration,
    /// Those that aren't measured yet.
    new: Vec<Window>,
    /// By name, with the number of windows.
    longest: BTreeMap<&'static str, (Duration, usize)>,
}

impl Windows {
    fn new(allowed: Duration) -> Self {
        Self {
            allowed,
            new: Vec::new(),
            longest: BTreeMap::new(),
        }
    }

    fn check(&mut self, waits: &[Wait], withheld: impl Fn(&Wait) -> Duration) {
        let without = |wait: &Wait| match wait.duration() {
            // Most are short. Of these the calm has the whole time too.
            duration if duration < PERIOD => duration,
            duration => duration.saturating_sub(withheld(wait)),
        };
        for window in self.new.drain(..) {
            let during = waits.iter().filter(|wait| wait.overlaps(&window));
            // No client may have been live: the relay had just started.
            let Some(wait) = during.map(without).max() else {
                continue;
            };
            let (longest, windows) = self.longest.entry(window.name).or_default();
            *windows += 1;
            *longest = wait.max(*longest);
        }
        let (calm, _) = self.longest[CALM];
        for (attack, (longest, _)) in &self.longest {
            assert!(
                *longest <= calm + self.allowed,
                "\"{attack}\" made a client wait {:.3} s for an update, {:.3} s without an attack:\n{}",
                longest.as_secs_f64(),
                calm.as_secs_f64(),
                self.table()
            );
        }
    }

    fn table(&self) -> String {
        let lines = self.longest.iter().map(|(name, (longest, windows))| {
            let seconds = longest.as_secs_f64();
            format!("{seconds:7.3} s  {name} ({windows} times)\n")
        });
        lines.collect()
    }
}

/// From when an update was due at a client until it, or one after it, arrived.
#[derive(Clone, Copy)]
struct Wait {
    due: SystemTime,
    arrived: SystemTime,
}

impl Wait {
    fn duration(&self) -> Duration {
        self.arrived.duration_since(self.due).unwrap_or_default()
    }

    fn overlaps(&self, window: &Window) -> bool {
        self.due < window.end && self.arrived > window.begin
    }
}

/// What one client has received during the present life of the relay.
#[derive(Default)]
pub(super) struct Book {
    /// How many PVs the client wants.
    wanted: usize,
    /// Of each PV the last count, and when the IOC made it.
    last: HashMap<String, (f64, SystemTime)>,
    waits: Vec<Wait>,
    pub(super) by_stream: ByStream,
}

/// The large values of a client that takes them by streams.
#[derive(Default)]
pub(super) struct ByStream {
    /// The present connection has a stream in use.
    pub(super) is_in_use: bool,
    /// Number of values that came by streams.
    pub(super) values: usize,
    /// Number of streams that broke in use.
    pub(super) broken: usize,
    /// The last value of each PV, however it came.
    pub(super) last: HashMap<String, RowSeen>,
}

impl Book {
    fn is_live(&self) -> bool {
        self.last.len() == self.wanted
    }

    fn add(&mut self, name: &str, count: f64, made: SystemTime, arrived: SystemTime) {
        let before = self.last.insert(name.to_owned(), (count, made));
        // A snapshot after a lost connection may repeat the last update.
        if let Some((last, last_made)) = before.filter(|(last, _)| *last != count) {
            let is_next = count == last + 1.0;
            let due = if is_next { made } else { last_made + PERIOD };
            self.waits.push(Wait { due, arrived });
        }
    }

    /// Waits of the updates that are due and haven't arrived yet.
    fn open_waits(&self) -> Vec<Wait> {
        let now = SystemTime::now();
        let last = self.last.values();
        last.map(|(_, made)| Wait {
            due: *made + PERIOD,
            arrived: now,
        })
        .collect()
    }

    fn end_life(&mut self) {
        self.waits.extend(self.open_waits());
        self.last.clear();
    }
}

/// A client in a separate thread that reads all the time.
pub(super) struct Steady {
    book: Arc<Mutex<Book>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Steady {
    fn start(how: How, fetching: Option<Fetching>, healthy: &Healthy, address: &Address) -> Self {
        let names = &healthy.counters;
        let book = Arc::new(Mutex::new(Book {
            wanted: names.len(),
            ..Book::default()
        }));
        let arrays = fetching.map(|_| healthy.arrays.clone());
        let stop = Arc::new(AtomicBool::new(false));
        let reader = Reader {
            how,
            fetching,
            names: names.clone(),
            arrays: arrays.unwrap_or_default(),
            address: Arc::clone(address),
            book: Arc::clone(&book),
        };
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new().name(STEADY.into());
        let thread = thread.spawn(move || reader.run(&stopped)).unwrap();
        Self {
            book,
            stop,
            thread: Some(thread),
        }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap()
    }

    fn fail_if_ended(&mut self) {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            let ended = self.thread.take().map(JoinHandle::join);
            panic!("a steady client failed: {ended:?}");
        }
    }
}

impl Drop for Steady {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The thread of a steady client.
struct Reader {
    how: How,
    fetching: Option<Fetching>,
    /// The counters.
    names: Vec<String>,
    arrays: Vec<String>,
    address: Address,
    book: Arc<Mutex<Book>>,
}

impl Reader {
    fn run(mut self, stopped: &AtomicBool) {
        let mut relay = None;
        let mut client = None;
        while !stopped.load(Ordering::Relaxed) {
            let known = *self.address.lock().unwrap();
            if known != relay {
                // The driver killed the relay: no attack made this client wait.
                self.book.lock().unwrap().last.clear();
                (relay, client) = (known, None);
            }
            if let (Some(fetching), Some(client)) = (&mut self.fetching, &mut client) {
                fetching.follow(client);
                if !is_open(client) {
                    fetching.end(client);
                }
            }
            // A connection that an attack has ended is a wait that goes on until there is a next
            // one.
            if !client.as_ref().is_some_and(is_open) {
                client = relay.and_then(|relay| self.connect(relay));
            }
            match &mut client {
                Some(client) => {
                    client.read_for_a_moment();
                    self.note(client);
                }
                None => thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn connect(&self, relay: SocketAddr) -> Option<Client> {
        let mut client = Client::try_connect(relay, self.how)?;
        let names = [&self.names[..], &self.arrays].concat();
        client.try_subscribe(names).then_some(client)
    }

    fn note(&self, client: &mut Client) {
        let arrived = SystemTime::now();
        let mut book = self.book.lock().unwrap();
        for name in &self.names {
            for row in client.held(name).iter().flat_map(|pv| &pv.rows) {
                let made = UNIX_EPOCH + Duration::from_nanos(row.time_ns.unsigned_abs());
                if let Kept::Number(count) = row.value {
                    book.add(name, count, made, arrived);
                }
            }
        }
        self.note_arrays(client, &mut book.by_stream);
        drop(book);
        client.forget_history();
    }
}

impl Reader {
    fn note_arrays(&self, client: &mut Client, by_stream: &mut ByStream) {
        for name in &self.arrays {
            if let Some(row) = client.held(name).and_then(|pv| pv.rows.last()) {
                by_stream.last.insert(name.clone(), row.clone());
            }
        }
        by_stream.is_in_use = client.is_fetching() && is_open(client);
        by_stream.values += client.take_fetched();
        by_stream.broken = self.fetching.map_or(0, |fetching| fetching.broken);
    }
}

fn is_open(client: &Client) -> bool {
    client.closed.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTER: &str = "counter";

    fn at(millis: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(millis)
    }

    /// The waits in milliseconds, of updates with a count, the time of the IOC and that of the
    /// arrival.
    fn waits(updates: &[(f64, u64, u64)]) -> Vec<u128> {
        let mut book = Book::default();
        for (count, made, arrived) in updates {
            book.add(COUNTER, *count, at(*made), at(*arrived));
        }
        let waits = book.waits.iter();
        waits.map(|wait| wait.duration().as_millis()).collect()
    }

    #[test]
    fn late_ioc_makes_no_client_wait() {
        assert_eq!(waits(&[(1.0, 0, 5), (2.0, 900, 907)]), [7]);
    }

    #[test]
    fn wait_begins_with_the_first_skipped_update() {
        let updates = [(1.0, 0, 5), (4.0, 300, 310), (4.0, 300, 400)];
        assert_eq!(waits(&updates), [210]);
    }

    /// The windows of a calm with waits of 100 ms and an attack with this wait, in each of which the machine
    /// withheld its cores so long.
    fn checked(attack: Duration, withheld: Duration) -> Windows {
        let mut windows = Windows::new(ALLOWED);
        for (name, begin) in [(CALM, 0), ("attack", 1_000)] {
            let (begin, end) = (at(begin), at(begin + 1_000));
            windows.new.push(Window { name, begin, end });
        }
        let wait = |due, lasts| Wait {
            due: at(due),
            arrived: at(due) + lasts,
        };
        let waits = [wait(500, Duration::from_millis(100)), wait(1_900, attack)];
        windows.check(&waits, |_| withheld);
        windows
    }

    #[test]
    fn wait_that_outlasts_its_attack_counts_for_it() {
        let windows = checked(Duration::from_millis(1_100), Duration::from_millis(90));
        assert_eq!(windows.longest["attack"].0, Duration::from_millis(1_010));
    }

    #[test]
    #[should_panic(expected = "a steady client failed")]
    fn client_that_has_failed_fails_the_run_of_a_fleet_too() {
        let book = Book {
            wanted: 1,
            ..Book::default()
        };
        let failed = Steady {
            book: Arc::new(Mutex::new(book)),
            stop: Arc::default(),
            thread: Some(thread::spawn(|| panic!("a gap"))),
        };
        wait_new_values(&mut [failed]);
    }

    #[test]
    #[should_panic(
        expected = "\"attack\" made a client wait 2.101 s for an update, 0.100 s without"
    )]
    fn attack_that_makes_a_client_wait_too_long_fails() {
        checked(Duration::from_millis(2_101), Duration::ZERO);
    }
}
