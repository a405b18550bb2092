//! Clients that put through the relay all the time. Each put has one outcome, in time, and it is true.
//!
//! Each client writes a separate record of the IOC that dies and hangs. The record's device support prints every
//! value that is written; the prints go to a file, the journal, which outlives the IOC. Two further clients, of two edges
//! in a fleet, write one record with guarded puts alone.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pvwire_schema::types::{
    ConnectionState, Expected, Outcome, PutRequest, PutValue, Reply, RequestBody,
};
use testbed::random::Random;
use testbed::{Client, DEADLINE, How, Kept, SoftIoc, eventually, in_tmp, prefix};

use super::watcher::Address;

const WRITERS: usize = 3;
/// Further clients, which make guarded puts to one record.
const GUARDED: usize = 2;
/// Most puts that a client makes before it waits for their outcomes.
const AT_ONCE: usize = 3;
/// While this record is 0 the IOC allows no put to the others.
const SWITCH: &str = "journal";

/// The clients and the journal.
pub(super) struct Writers {
    clients: Vec<Writer>,
    journal: PathBuf,
}

impl Writers {
    /// Starts the clients, in turn of each of these relays.
    pub(super) fn start(prefix: &str, seed: u64, addresses: [&Address; 2]) -> Self {
        let journal = in_tmp(&format!("{}journal", self::prefix().replace(':', "-")));
        fs::write(&journal, "").unwrap();
        let start = |number| Writer::start(prefix, number, seed, addresses[number % 2]);
        Self {
            clients: (0..WRITERS + GUARDED).map(start).collect(),
            journal,
        }
    }

    /// The records that they write.
    pub(super) fn database(prefix: &str) -> String {
        let mut database = format!(r#"record(ao, "{prefix}{SWITCH}") {{ field(VAL, "0") }}"#);
        for number in 0..=WRITERS {
            database += &format!(
                r#"record(stringout, "{}") {{
                    field(DTYP, "stdio") field(OUT, "@stderr") field(ASG, "JOURNAL")
                }}"#,
                record(prefix, number)
            );
        }
        database
    }

    /// The IOC's rules for them.
    pub(super) fn rules(prefix: &str) -> String {
        format!(
            "ASG(JOURNAL) {{
                INPA(\"{prefix}{SWITCH}\")
                RULE(1, READ)
                RULE(1, WRITE) {{ CALC(\"A>=1\") }}
             }}"
        )
    }

    /// Has an IOC that was just started keep the journal. Before, it allows no put.
    pub(super) fn open_journal(&self, ioc: &mut SoftIoc) {
        let journal = self.journal.to_str().unwrap();
        ioc.run(&format!(
            "import os\nos.dup2(os.open({journal:?}, os.O_WRONLY | os.O_APPEND), 2)\n\
             os.write(2, b'{START}\\n')"
        ));
        ioc.put(SWITCH, "1");
    }

    /// Waits until each client has written once more.
    pub(super) fn wait_done(&mut self) {
        for client in &mut self.clients {
            let before = client.done();
            let what = format!("a put of {} is done", client.record);
            eventually(&what, || {
                client.fail_if_ended();
                client.done() > before
            });
        }
    }

    /// Compares all outcomes with the journal.
    pub(super) fn check(&mut self) {
        for client in &mut self.clients {
            client.fail_if_ended();
            let told = client.told.lock().unwrap().clone();
            let journal = fs::read_to_string(&self.journal).unwrap();
            let begin = format!("{} ", client.mark);
            let lines = journal.lines().filter_map(|line| line.strip_prefix(&begin));
            let written: Vec<u64> = lines.filter_map(|number| number.parse().ok()).collect();
            let untrue = untrue(&told, &written);
            assert!(untrue.is_empty(), "{}: {untrue:#?}", client.record);
        }
        self.check_guarded();
    }

    /// Compares the guarded puts with the journal.
    fn check_guarded(&self) {
        let mut puts = HashMap::new();
        for client in &self.clients[WRITERS..] {
            let told: HashMap<u64, End> = client.told.lock().unwrap().iter().copied().collect();
            for (number, expected) in client.expected.lock().unwrap().iter() {
                let put = Guarded {
                    end: told.get(number).copied(),
                    expected: expected.clone(),
                };
                puts.insert(format!("{} {number}", client.mark), put);
            }
        }
        let journal = fs::read_to_string(&self.journal).unwrap();
        let lines = journal.lines().map(str::to_owned);
        let written: Vec<_> = lines
            .filter(|line| line == START || puts.contains_key(line))
            .collect();
        let overtaken = overtaken(&puts, &written);
        assert!(overtaken.is_empty(), "guarded puts: {overtaken:#?}");
    }

    /// Puts by outcome.
    pub(super) fn table(&self) -> String {
        let mut outcomes = BTreeMap::<_, u64>::new();
        for client in &self.clients {
            for (_, end) in client.told.lock().unwrap().iter() {
                *outcomes.entry(format!("{end:?}")).or_default() += 1;
            }
        }
        let puts: u64 = outcomes.values().sum();
        let lines = outcomes
            .iter()
            .map(|(outcome, puts)| format!("{puts:7} × {outcome}\n"));
        format!(
            "{puts} puts, each outcome true:\n{}",
            lines.collect::<String>()
        )
    }
}

/// The record of a client; those with guarded puts share the last one.
fn record(prefix: &str, number: usize) -> String {
    format!("{prefix}journal{}", number.min(WRITERS))
}

/// How a put ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Answered(Outcome),
    /// The client lost the relay before.
    Lost,
}

impl End {
    pub(super) fn is_done(self) -> bool {
        self == Self::Answered(Outcome::Done)
    }

    /// Whether it says that nothing was written.
    pub(super) fn is_refusal(self) -> bool {
        match self {
            Self::Lost => false,
            Self::Answered(outcome) => !matches!(
                outcome,
                Outcome::Done | Outcome::TimedOut | Outcome::Interrupted | Outcome::Unknown
            ),
        }
    }
}

/// Every outcome of a client's puts, which have rising numbers, that the IOC's record of what was written belies.
fn untrue(told: &[(u64, End)], written: &[u64]) -> Vec<String> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    for number in written {
        if !seen.insert(number) {
            found.push(format!("put {number} was written twice"));
        }
    }
    let mut done = HashSet::new();
    for (number, end) in told {
        if end.is_done() {
            done.insert(number);
            if !seen.contains(number) {
                found.push(format!(
                    "put {number} was not written, its client was told {end:?}"
                ));
            }
        } else if end.is_refusal() && seen.contains(number) {
            found.push(format!(
                "put {number} was written, its client was told {end:?}"
            ));
        }
    }
    let in_order: Vec<_> = written
        .iter()
        .filter(|number| done.contains(number))
        .collect();
    let swapped = in_order.windows(2).filter(|two| two[0] > two[1]);
    found.extend(swapped.map(|two| format!("put {} was written before {}", two[0], two[1])));
    found
}

/// Numbers of guarded puts, and the values that they expect.
type Expectations = Arc<Mutex<Vec<(u64, String)>>>;

/// A client in a separate thread, which reconnects whenever it has lost the relay.
struct Writer {
    record: String,
    /// Begins every value that it writes.
    mark: String,
    told: Arc<Mutex<Vec<(u64, End)>>>,
    /// Empty if its puts aren't guarded.
    expected: Expectations,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(prefix: &str, number: usize, seed: u64, address: &Address) -> Self {
        let (record, mark) = (record(prefix, number), format!("w{number}"));
        let (told, expected) = (Arc::<Mutex<Vec<_>>>::default(), Arc::<Mutex<_>>::default());
        let is_guarded = number >= WRITERS;
        let stop = Arc::<AtomicBool>::default();
        let side = Side {
            record: record.clone(),
            mark: mark.clone(),
            // Of some the PV is open all the time.
            subscribes: number == 0 || is_guarded,
            expected: is_guarded.then(|| Arc::clone(&expected)),
            random: Random(seed ^ (number as u64 + 1)),
            address: Arc::clone(address),
            told: Arc::clone(&told),
            last: 0,
        };
        let stopped = Arc::clone(&stop);
        let thread = Some(thread::spawn(move || side.run(&stopped)));
        Self {
            record,
            mark,
            told,
            expected,
            stop,
            thread,
        }
    }

    fn done(&self) -> usize {
        let told = self.told.lock().unwrap();
        told.iter().filter(|(_, end)| end.is_done()).count()
    }

    fn fail_if_ended(&mut self) {
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            let ended = self.thread.take().map(JoinHandle::join);
            panic!("the client that writes {} failed: {ended:?}", self.record);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// The client's thread.
struct Side {
    record: String,
    mark: String,
    subscribes: bool,
    /// Set if it makes guarded puts.
    expected: Option<Expectations>,
    random: Random,
    address: Address,
    told: Arc<Mutex<Vec<(u64, End)>>>,
    /// Number of the last put.
    last: u64,
}

impl Side {
    fn run(mut self, stopped: &AtomicBool) {
        let mut client = None;
        while !stopped.load(Ordering::Relaxed) {
            if !client.as_ref().is_some_and(is_open) {
                client = self.connect();
            }
            match &mut client {
                Some(client) => self.put(client),
                // The relay is down, starting or full.
                None => thread::sleep(Duration::from_millis(50)),
            }
        }
    }

    fn connect(&self) -> Option<Client> {
        let relay = (*self.address.lock().unwrap())?;
        let mut client = Client::try_connect(relay, How::default())?;
        let names = Vec::from_iter(self.subscribes.then(|| self.record.clone()));
        (names.is_empty() || client.try_subscribe(names)).then_some(client)
    }

    /// The last update of the record and its value, if the client makes guarded puts and the PV is connected.
    fn known(&self, client: &Client) -> Option<(Expected, String)> {
        self.expected.as_ref()?;
        let pv = client.held(&self.record)?;
        let is_connected = pv.connection?.state == ConnectionState::Connected;
        let now = pv.now.as_ref().filter(|_| is_connected)?;
        let update = Expected {
            sequence: pv.sequence,
            epoch: pv.metadata.as_ref()?.epoch,
        };
        match &now.value {
            Kept::Text(value) => Some((update, value.clone())),
            other => panic!("{other:?} is no text"),
        }
    }

    /// Puts once or several times, waits for the outcomes, and then for a while.
    fn put(&mut self, client: &mut Client) {
        let mut open = Vec::new();
        let known = self.known(client);
        let puts = match (&self.expected, &known) {
            (Some(_), None) => 0,
            _ => self.random.below(AT_ONCE) + 1,
        };
        for _ in 0..puts {
            self.last += 1;
            if let (Some(expected), Some((_, value))) = (&self.expected, &known) {
                let mut expected = expected.lock().unwrap();
                expected.push((self.last, value.clone()));
            }
            let request = client.request(RequestBody::Put(PutRequest {
                name: self.record.clone(),
                value: PutValue::Text(format!("{} {}", self.mark, self.last)),
                wait: self.random.one_in(2),
                timeout_ms: self.random.pick(&[0, 0, 500]),
                expected: known.as_ref().map(|(update, _)| *update),
            }));
            open.push((self.last, request));
        }
        let since = Instant::now();
        for (number, request) in open {
            while !client.has_answer(request) && is_open(client) {
                let waited = since.elapsed();
                assert!(
                    waited < DEADLINE,
                    "put {number} has no outcome after {waited:?}"
                );
                client.read_for_a_moment();
            }
            let end = if client.has_answer(request) {
                match client.wait_answer(request).0 {
                    Reply::PutDone { outcome, .. } => End::Answered(outcome),
                    other => panic!("{other:?} answers a put"),
                }
            } else {
                End::Lost
            };
            self.told.lock().unwrap().push((number, end));
        }
        client.forget_history();
        let until = Instant::now() + self.random.millis(1, 200);
        while is_open(client) && Instant::now() < until {
            client.read_for_a_moment();
        }
    }
}

fn is_open(client: &Client) -> bool {
    client.closed.is_none()
}

/// What the journal contains where an IOC has started. The record is empty then.
pub(super) const START: &str = "start";

/// A guarded put: how it ended, and the value that it expected.
#[derive(Clone, Debug)]
pub(super) struct Guarded {
    pub(super) end: Option<End>,
    pub(super) expected: String,
}

/// Every put that was done although the record had another value than the put expected. `written` is what was written to
/// the record, in order. Between a put and the value that it expected there may be puts whose outcome isn't known: the IOC
/// may have taken them before a relay that came later could see them.
pub(super) fn overtaken(puts: &HashMap<String, Guarded>, written: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, value) in written.iter().enumerate() {
        let Some(put) = puts.get(value) else {
            continue;
        };
        if !put.end.is_some_and(End::is_done) {
            continue;
        }
        let before = written[..at].iter().rev();
        let unknown = |value: &&String| {
            puts.get(*value).is_some_and(|put| {
                put.end
                    .is_none_or(|end| !end.is_done() && !end.is_refusal())
            })
        };
        let is_expected = |value: &String| match put.expected.as_str() {
            "" => value == START,
            expected => value == expected,
        };
        let mut blocking = before.skip_while(|value| !is_expected(value) && unknown(value));
        if !blocking.next().is_some_and(is_expected) {
            let from = at.saturating_sub(4);
            found.push(format!(
                "{value} was done and expected {:?}, after {:?}",
                put.expected,
                &written[from..at]
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use pvwire_schema::types::Outcome;

    use super::*;

    const DONE: End = End::Answered(Outcome::Done);
    const NOT_CONNECTED: End = End::Answered(Outcome::NotConnected);
    const TIMED_OUT: End = End::Answered(Outcome::TimedOut);

    #[test]
    fn outcomes_that_say_what_was_written_are_true() {
        let told = [
            (1, DONE),
            (2, NOT_CONNECTED),
            (3, TIMED_OUT),
            (4, End::Lost),
            (5, DONE),
        ];
        assert_eq!(untrue(&told, &[1, 5, 4]), [""; 0]);
        assert_eq!(untrue(&told, &[1, 3, 5]), [""; 0]);
    }

    #[test]
    fn outcomes_that_the_journal_belies_are_found() {
        let found = |told: &[_], written: &[_]| untrue(told, written).len();
        assert_eq!(found(&[(1, DONE)], &[]), 1, "done, but not written");
        assert_eq!(
            found(&[(1, NOT_CONNECTED)], &[1]),
            1,
            "refused, but written"
        );
        assert_eq!(found(&[(1, TIMED_OUT)], &[1, 1]), 1, "written twice");
        assert_eq!(found(&[(1, DONE), (2, DONE)], &[2, 1]), 1, "swapped");
    }

    fn found(puts: &[(&str, Option<End>, &str)], written: &[&str]) -> usize {
        let put = |(value, end, expected): &(&str, Option<End>, &str)| {
            let expected = (*expected).to_owned();
            (
                (*value).to_owned(),
                Guarded {
                    end: *end,
                    expected,
                },
            )
        };
        let written: Vec<String> = written.iter().map(|value| (*value).to_owned()).collect();
        overtaken(&puts.iter().map(put).collect(), &written).len()
    }

    #[test]
    fn put_that_follows_the_value_that_it_expected_is_true() {
        let done = Some(End::Answered(Outcome::Done));
        let lost = Some(End::Lost);
        let one = ("g0 1", done, "");
        assert_eq!(found(&[one], &["start", "g0 1"]), 0);
        let two = ("g1 1", done, "g0 1");
        assert_eq!(found(&[one, two], &["start", "g0 1", "g1 1"]), 0);
        let between = [("g0 2", lost, "g0 1"), ("g0 3", None, "g0 1")];
        let all = [one, two, between[0], between[1]];
        let written = ["start", "g0 1", "g0 2", "g0 3", "g1 1"];
        assert_eq!(found(&all, &written), 0, "their outcome isn't known");
    }

    #[test]
    fn put_that_overwrites_what_it_did_not_expect_is_found() {
        let done = Some(End::Answered(Outcome::Done));
        let (one, two) = (("g0 1", done, ""), ("g1 1", done, ""));
        assert_eq!(found(&[one, two], &["start", "g0 1", "g1 1"]), 1);
        let three = ("g0 2", done, "g0 1");
        assert_eq!(found(&[one, three], &["start", "g0 1", "start", "g0 2"]), 1);
        let refused = ("g1 1", Some(End::Answered(Outcome::Changed)), "");
        assert_eq!(
            found(&[one, refused, three], &["start", "g0 1", "g1 1", "g0 2"]),
            1
        );
    }
}
