//! Is every PV in every client the truth, in every field, after whatever may happen has happened?
//!
//! Topology: a soft IOC with a hundred records of every kind, a relay with a wire to it, clients that read well or
//! badly, all of them broken and mended at random, and an independent Channel Access client that
//! tells the truth when it is calm again. `make soak` runs it; `PVWIRE_SOAK_SECONDS` says for how
//! long and `PVWIRE_SOAK_SEED` repeats the driver's choices.

#![allow(clippy::print_stdout, reason = "it says what it does")]

mod attacks;
mod disk;
mod liar;
mod pressure;
mod rules;

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pvwire_schema::types::RequestBody;

use self::attacks::Attack;
use self::disk::AuditDisk;
use self::liar::Liar;
use self::rules::RulesFile;
use crate::support::random::Random;
use crate::support::records::{ANALOG, CHOICES, KINDS, TEXTS, analog_value, record};
use crate::support::{
    Client, How, Network, Pv, Relay, SoftIoc, Truth, Wire, eventually, prefix,
    relay_command_with_limit, try_get,
};

const RECORDS: usize = 100;
/// Longer than any time-out: libca gives a circuit up after 10 s, the relay a client after 15.
const STALL: Duration = Duration::from_millis(15_500);
/// After this long everything must be right again.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);
/// A name that was away for a storm is searched for ever more rarely by libca: as long again.
const FOUND_AGAIN_WITHIN: Duration = Duration::from_secs(100);

/// What a client is told to do.
enum Order {
    /// Reads and writes nothing for a while.
    Stall(Duration),
    /// Reads, but acknowledges nothing for a while.
    Mute(Duration),
    /// Ends its connection without a word and makes another.
    Cut,
    /// Gives up these PVs and subscribes them again.
    Renew(Vec<String>),
    /// Says what it knows.
    Tell(Sender<Report>),
}

/// What a client knows of the PVs that it wants; those that it doesn't hold are not there.
#[derive(Clone, Default)]
struct Report {
    pvs: HashMap<String, Pv>,
    /// How often it was told at once what it had missed.
    catch_ups: usize,
    connections: usize,
}

/// A client in a thread of its own, which connects again whenever it lost the relay.
struct Watcher {
    title: &'static str,
    wanted: Vec<String>,
    orders: Sender<Order>,
    thread: Option<JoinHandle<()>>,
}

type Address = Arc<Mutex<Option<SocketAddr>>>;

impl Watcher {
    fn start(title: &'static str, how: How, wanted: Vec<String>, address: &Address) -> Self {
        let (orders, taken) = channel();
        let (address, names) = (Arc::clone(address), wanted.clone());
        let thread = thread::spawn(move || watch(how, &names, &address, &taken));
        Self {
            title,
            wanted,
            orders,
            thread: Some(thread),
        }
    }

    /// Gives an order; fails as the client's thread did if it failed.
    fn order(&mut self, order: Order) {
        if self.orders.send(order).is_err() {
            self.fail();
        }
    }

    fn tell(&mut self) -> Report {
        let (report, told) = channel();
        self.order(Order::Tell(report));
        match told.recv() {
            Ok(report) => report,
            Err(_) => self.fail(),
        }
    }

    fn fail(&mut self) -> ! {
        let ended = self.thread.take().map(JoinHandle::join);
        panic!("the client \"{}\" failed: {ended:?}", self.title);
    }
}

/// A client's thread: it does as ordered, and otherwise reads.
fn watch(how: How, wanted: &[String], address: &Address, orders: &Receiver<Order>) {
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
                // The relay is away, or on its way.
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

/// One record of the IOC as it is in its present life.
struct Entry {
    name: String,
    kind: &'static str,
    variant: u32,
    /// An IOC may come back without it.
    exists: bool,
    /// The index that was written last, of a choice: only another one makes an event.
    choice: u32,
}

impl Entry {
    /// The PV to watch: of some long strings their whole text.
    fn pv(&self) -> String {
        match self.kind {
            "lso" => format!("{}.VAL$", self.name),
            _ => self.name.clone(),
        }
    }
}

/// All that is broken and mended.
struct World {
    network: Network,
    /// Between relay and IOC.
    wire: Wire,
    prefix: String,
    random: Random,
    start: Instant,
    entries: Vec<Entry>,
    ioc: Option<SoftIoc>,
    relay: Option<Relay>,
    audit: AuditDisk,
    liar: Liar,
    address: Address,
    watchers: Vec<Watcher>,
    /// Attacks under way.
    attacks: Vec<Attack>,
    rules: RulesFile,
    /// Whether a record is there that was not in the life before.
    has_returned: bool,
    done: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let (network, prefix) = (Network::new(), prefix());
        let mut random = Random(seed);
        let entries: Vec<Entry> = (0..RECORDS)
            .map(|number| Entry {
                name: format!("{prefix}{number}"),
                kind: KINDS[number % KINDS.len()],
                variant: random.below(1000) as u32,
                exists: true,
                choice: 0,
            })
            .collect();
        let address = Address::default();
        let mut world = Self {
            network,
            wire: Wire::lay_with_searches(network.server_port()),
            rules: RulesFile::new(&prefix),
            prefix,
            random,
            start: Instant::now(),
            entries,
            ioc: None,
            relay: None,
            audit: AuditDisk::new(),
            liar: Liar::start(&address),
            address,
            watchers: Vec::new(),
            attacks: Vec::new(),
            has_returned: false,
            done: BTreeMap::new(),
        };
        world.start_ioc();
        world.start_relay();
        // Names outlive the kinds of their records.
        let all: Vec<String> = world.entries.iter().map(Entry::pv).collect();
        let half = all.iter().step_by(2).cloned().collect();
        let small = How {
            receive_buffer: Some(4096),
            ..How::default()
        };
        for (title, how, wanted) in [
            ("one of two with the same set", How::default(), all.clone()),
            ("the other of the same set", How::default(), all.clone()),
            ("small buffer", small, all.clone()),
            ("half of the PVs", How::default(), half),
            ("small buffer, few PVs", small, all[..9].to_vec()),
        ] {
            let watcher = Watcher::start(title, how, wanted, &world.address);
            world.watchers.push(watcher);
        }
        world
    }

    /// A PV that clients may write and none of them watches.
    fn scratch(&self) -> String {
        format!("{}scratch", self.prefix)
    }

    fn say(&mut self, what: &'static str) {
        println!("{:7.1} s  {what}", self.start.elapsed().as_secs_f64());
        *self.done.entry(what).or_default() += 1;
    }

    fn start_ioc(&mut self) {
        let mut database = String::new();
        for (number, entry) in self.entries.iter().enumerate() {
            if entry.exists {
                database += &record(entry.kind, &entry.name, entry.variant);
                // It changes only with the life of the IOC: the relay reads it once for each.
                database += &format!(
                    r#"record("*", "{}") {{ field(DESC, "{}") }}"#,
                    entry.name,
                    description(number, entry.variant)
                );
                if number % 2 == 0 {
                    // May be written, or seen at all, only while a switch is on.
                    let group = if number % 14 == 0 {
                        "HIDDEN"
                    } else {
                        "SWITCHED"
                    };
                    database += &format!(
                        r#"record("*", "{}") {{ field(ASG, "{group}") }}"#,
                        entry.name
                    );
                }
            }
        }
        let prefix = &self.prefix;
        for switch in ["switch", "curtain", "scratch"] {
            database += &format!(r#"record(ao, "{prefix}{switch}") {{ field(VAL, "1") }}"#);
        }
        let rules = format!(
            "ASG(DEFAULT) {{ RULE(1, READ) RULE(1, WRITE) }}
             ASG(SWITCHED) {{
                INPA(\"{prefix}switch\")
                RULE(1, READ)
                RULE(1, WRITE) {{ CALC(\"A>=1\") }}
             }}
             ASG(HIDDEN) {{
                INPA(\"{prefix}curtain\")
                RULE(1, READ) {{ CALC(\"A>=1\") }}
             }}"
        );
        let ioc = SoftIoc::with_prefix(self.network, &self.prefix, &database, &rules);
        self.ioc = Some(ioc);
        for entry in &mut self.entries {
            entry.choice = entry.variant % 2;
        }
    }

    fn start_relay(&mut self) {
        // An impatient relay makes more catch-ups.
        let window = self.random.pick(&["200", "500", "2000"]);
        // Few file descriptors, so that an attack can use them up.
        let mut command = relay_command_with_limit(self.network, "-n 256");
        command.env("EPICS_CA_ADDR_LIST", self.liar.addresses("127.0.0.2"));
        let audit = self.audit.flags(&self.scratch());
        let [put, allowed, file] = audit.each_ref().map(String::as_str);
        let rules = self.rules.path.to_str().unwrap();
        let flags = [
            "--ack-window-ms",
            window,
            put,
            allowed,
            file,
            "--config",
            rules,
            // Little enough for a client to ask for more.
            "--max-memory-per-client-mib=20",
        ];
        let relay = Relay::spawn(command, &flags);
        *self.address.lock().unwrap() = Some(relay.address());
        self.relay = Some(relay);
    }

    /// Something happens for `time`; at its end there is a relay, and mostly an IOC. Of three storms one
    /// has an IOC that hangs and one a network that is cut, for longer than any time-out.
    fn storm(&mut self, number: usize, time: Duration) {
        if self.ioc.is_none() {
            self.say("the IOC comes back");
            self.start_ioc();
        }
        self.has_returned = false;
        let end = Instant::now() + time;
        let mut stall =
            (!number.is_multiple_of(3)).then(|| Instant::now() + self.random.millis(0, 4_000));
        while Instant::now() < end {
            if stall.is_some_and(|begin| begin <= Instant::now()) {
                stall = None;
                self.stall(number % 3 == 1);
                continue;
            }
            match self.random.below(100) {
                0..2 => self.restart_ioc(),
                2..5 => self.restart_relay(),
                5..8 => self.hang_ioc(),
                8..14 => self.cut(),
                14..30 => self.hold_up(),
                30..35 => self.renew(),
                35..41 => self.switch(),
                41..44 => self.change_rules(),
                44..60 => self.change_metadata(),
                60..66 => self.put(),
                66..70 => self.break_audit_disk(),
                70..75 => self.attack(),
                75..78 => self.press_memory(),
                _ => self.burst(),
            }
            let pause = self.random.millis(10, 500);
            thread::sleep(pause);
        }
        for attack in self.attacks.drain(..) {
            attack.end();
        }
        let relay = self.relay.as_ref().unwrap().address();
        eventually("the relay is live", || {
            // While it has few file descriptors left it ends connections at once.
            try_get(relay, "/live").is_some_and(|answer| answer.status == 200)
        });
        self.open_rules();
        // What some clients are told last, they are told at once for all that they have missed.
        self.hold_up();
        for _ in 0..4 {
            self.burst();
            self.change_metadata();
            let pause = self.random.millis(10, 300);
            thread::sleep(pause);
        }
        self.last_words();
        if self.random.one_in(8) {
            self.say("the IOC dies and stays away");
            self.ioc.take().unwrap().kill();
        } else {
            // All that was asked of it is done when it answers.
            let answer = format!("dbgf {}switch", self.prefix);
            self.ioc.as_mut().unwrap().ask(&answer);
        }
    }

    fn restart_ioc(&mut self) {
        self.ioc.take().unwrap().kill();
        match self.random.below(3) {
            0 => self.say("the IOC dies and comes back as it was"),
            1 => {
                self.say("the IOC dies and comes back with other values and metadata");
                for entry in &mut self.entries {
                    entry.variant = self.random.below(1000) as u32;
                }
            }
            _ => {
                self.say("the IOC dies and comes back with other types, and not with all records");
                for entry in &mut self.entries {
                    // The long string is asked for by a name that other types don't have.
                    if entry.kind != "lso" && self.random.one_in(3) {
                        entry.kind = self.random.pick(&KINDS);
                        if entry.kind == "lso" {
                            entry.kind = "lsi";
                        }
                    }
                    entry.variant = self.random.below(1000) as u32;
                    self.has_returned |= !entry.exists;
                    entry.exists = !self.random.one_in(30);
                }
            }
        }
        let pause = self.random.millis(1, 2_000);
        thread::sleep(pause);
        self.start_ioc();
    }

    fn restart_relay(&mut self) {
        self.say("the relay dies and comes back");
        *self.address.lock().unwrap() = None;
        self.relay = None;
        let pause = self.random.millis(1, 500);
        thread::sleep(pause);
        self.start_relay();
    }

    fn hang_ioc(&mut self) {
        self.say("the IOC hangs for a while");
        let ioc = self.ioc.as_ref().unwrap();
        ioc.hang();
        thread::sleep(self.random.millis(50, 1_500));
        ioc.go_on();
    }

    /// The IOC, or the network to it, stalls while other things go on.
    fn stall(&mut self, hangs: bool) {
        if hangs {
            self.say("the IOC hangs for longer than any time-out");
            self.ioc.as_ref().unwrap().hang();
        } else {
            self.say("the network to the IOC is cut for longer than any time-out");
            self.wire.set(true);
        }
        let end = Instant::now() + STALL;
        while Instant::now() < end {
            // A relay that came to life now would not find the IOC for a long while.
            match self.random.below(if hangs { 3 } else { 8 }) {
                7 => self.change_rules(),
                0 => self.cut(),
                1 => self.hold_up(),
                2 => self.renew(),
                3 => self.switch(),
                4 => self.change_metadata(),
                _ => self.burst(),
            }
            let pause = self.random.millis(100, 1_000);
            thread::sleep(pause);
        }
        self.ioc.as_ref().unwrap().go_on();
        self.wire.set(false);
    }

    /// Clients that mean harm do something for a while, beside whatever happens.
    fn attack(&mut self) {
        let relay = self.relay.as_ref().unwrap().address();
        let time = self.random.millis(500, 4_000);
        let attack = match self.random.below(3) {
            0 => {
                self.say("connections use up the relay's file descriptors");
                attacks::use_up_descriptors(relay, time)
            }
            1 => {
                self.say("connections ask for pages and read nothing");
                attacks::ask_and_read_nothing(relay, time)
            }
            _ => {
                self.say("connections flood the relay with the smallest frames");
                attacks::flood_with_control_frames(relay, time)
            }
        };
        self.attacks.push(attack);
    }

    fn cut(&mut self) {
        self.say("a client is cut");
        let number = self.random.below(self.watchers.len());
        self.watchers[number].order(Order::Cut);
    }

    /// Some clients read nothing for a while, some read and say nothing.
    fn hold_up(&mut self) {
        self.say("some clients stall or fall silent");
        for watcher in &mut self.watchers {
            let time = self.random.millis(100, 3_000);
            match self.random.below(4) {
                0 => watcher.order(Order::Stall(time)),
                1 => watcher.order(Order::Mute(time)),
                _ => {}
            }
        }
    }

    fn renew(&mut self) {
        self.say("a client gives up some PVs and takes them again");
        let number = self.random.below(self.watchers.len());
        let (random, watcher) = (&mut self.random, &mut self.watchers[number]);
        let names = watcher.wanted.iter().filter(|_| random.one_in(4));
        let names = names.cloned().collect();
        watcher.order(Order::Renew(names));
    }

    fn switch(&mut self) {
        self.say("access rights change");
        let switch = self.random.pick(&["switch", "curtain"]);
        let position = self.random.pick(&["0", "1"]);
        self.ioc.as_mut().unwrap().put(switch, position);
    }

    fn change_metadata(&mut self) {
        self.say("metadata changes");
        let mut puts = Vec::new();
        for _ in 0..self.random.below(20) + 1 {
            let number = self.random.below(self.entries.len());
            let text = format!("{}", self.random.below(100));
            let (random, entry) = (&mut self.random, &mut self.entries[number]);
            let field = match entry.kind {
                kind if ANALOG.contains(&kind) => {
                    let fields = ["EGU", "HOPR", "LOPR", "HIHI", "HIGH", "LOW", "LOLO", "PREC"];
                    let whole = usize::from(!["ai", "ao", "calc"].contains(&kind));
                    random.pick(&fields[..fields.len() - whole])
                }
                "bi" | "bo" => random.pick(&["ZNAM", "ONAM"]),
                "mbbi" | "mbbo" => random.pick(&["ZRST", "ONST", "TWST", "THST"]),
                kind if TEXTS.contains(&kind) => continue,
                "STRING" | "ENUM" | "one text of one" => continue,
                _ => random.pick(&["EGU", "HOPR", "PREC"]),
            };
            let value = match field {
                // A label that is a number would be taken for an index.
                _ if CHOICES.contains(&entry.kind) => format!("label {text}"),
                "PREC" => format!("{}", random.below(15)),
                _ => text,
            };
            puts.push((format!("{}.{field}", entry.name), value.into_bytes()));
            // The field may have processed the record, whose stamp moves on without an event.
            if CHOICES.contains(&entry.kind) {
                puts.push(process(random, entry));
            }
        }
        self.write(&puts);
    }

    fn burst(&mut self) {
        self.say("a burst of updates");
        let mut puts = Vec::new();
        for _ in 0..self.random.below(800) + 1 {
            let number = self.random.below(self.entries.len());
            let (random, entry) = (&mut self.random, &mut self.entries[number]);
            let has_no_alarm = !ANALOG.contains(&entry.kind) && !CHOICES.contains(&entry.kind);
            if has_no_alarm && random.one_in(3) {
                // The alarm of what has no limits comes from its simulation mode.
                let on = random.pick(&["YES", "NO"]).as_bytes().to_vec();
                puts.push((format!("{}.SIMM", entry.name), on));
            }
            puts.push(process(random, entry));
        }
        self.write(&puts);
    }

    /// Writes fields in the IOC, one after the other, soon.
    fn write(&mut self, puts: &[(String, Vec<u8>)]) {
        let exists: HashMap<&str, bool> = self
            .entries
            .iter()
            .map(|entry| (entry.name.as_str(), entry.exists))
            .collect();
        let mut pairs = String::new();
        for (field, value) in puts {
            let name = field.split('.').next().unwrap();
            if exists[name] {
                let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
                pairs += &format!("('{field}','{hex}'),");
            }
        }
        self.ioc.as_mut().unwrap().run(&format!(
            "from epicscorelibs.ioc import dbCore
for field, value in [{pairs}]: dbCore.dbpf(field.encode(), bytes.fromhex(value))"
        ));
    }

    /// Updates each text, array and mbbo once more, after a pause.
    ///
    /// Of these an IOC queues no copies: when two updates follow so fast that the first hasn't been
    /// sent, its monitors get the value of the second with alarm and stamp of the first, and nothing
    /// more. The truth, which a get is told, then differs from what any monitor has seen.
    fn last_words(&mut self) {
        let has_copies = |kind| ANALOG.contains(&kind) || ["bi", "bo", "mbbi"].contains(&kind);
        let mut puts = Vec::new();
        for entry in &mut self.entries {
            if !has_copies(entry.kind) {
                puts.push(process(&mut self.random, entry));
            }
        }
        let ioc = self.ioc.as_mut().unwrap();
        ioc.run("import time\ntime.sleep(1)");
        self.write(&puts);
    }

    fn put(&mut self) {
        self.say("another client puts");
        let mut pairs = Vec::new();
        for _ in 0..self.random.below(5) + 1 {
            let number = self.random.below(self.entries.len());
            let (random, entry) = (&mut self.random, &self.entries[number]);
            let name = entry.name.clone();
            if TEXTS.contains(&entry.kind) {
                pairs.push((name, format!("put {}", random.below(1000))));
            } else if ANALOG.contains(&entry.kind) && entry.kind != "calc" {
                pairs.push((name, analog_value(random.below(1000) as u32, true)));
            }
        }
        let pairs: Vec<_> = pairs
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        if !pairs.is_empty() {
            // Access rights and missing records may refuse it, and so they should.
            Truth::put(self.network, &pairs);
        }
    }

    /// Waits until every PV is the truth in every client; says how many were compared.
    fn settle(&mut self) -> usize {
        let names: Vec<String> = self.watchers[0].wanted.clone();
        let start = Instant::now();
        let within = match self.has_returned {
            true => FOUND_AGAIN_WITHIN,
            false => SETTLES_WITHIN,
        };
        loop {
            let truth = Truth::ask_described(self.network, &names);
            let mut different = Vec::new();
            let mut compared = 0;
            for watcher in &mut self.watchers {
                let report = watcher.tell();
                compared += report.pvs.len();
                let absent = watcher.wanted.iter();
                let absent = absent.filter(|name| !report.pvs.contains_key(*name));
                different
                    .extend(absent.map(|name| format!("{}: {name} isn't held", watcher.title)));
                let found = truth.differences(|name| report.pvs.get(name));
                let kinds: HashMap<String, &str> = (self.entries.iter())
                    .map(|entry| (entry.pv(), entry.kind))
                    .collect();
                different.extend(found.iter().map(|(name, fields)| {
                    let kind = kinds[name];
                    format!("{}: {name} ({kind}): {}", watcher.title, fields.join("; "))
                }));
            }
            if different.is_empty() {
                let took = start.elapsed().as_secs_f64();
                let at = self.start.elapsed().as_secs_f64();
                println!("{at:7.1} s  all {compared} are the truth, after {took:.1} s");
                return compared;
            }
            assert!(
                start.elapsed() < within,
                "{} of {compared} differ from the truth for good:\n{}",
                different.len(),
                different.join("\n")
            );
        }
    }
}

/// What a record's DESC says: nothing, something short, or the 40 bytes that it has room for.
fn description(number: usize, variant: u32) -> String {
    match variant % 5 {
        0 => String::new(),
        1 => format!("{number:02} of {variant:03} has 40 bytes, all that can fit"),
        2 => format!("gap {number} in µm, {variant}"),
        _ => format!("record {number}, {variant}"),
    }
}

/// The put that processes a record so that it posts an event.
fn process(random: &mut Random, entry: &mut Entry) -> (String, Vec<u8>) {
    let number = random.below(1000) as u32;
    let few = |random: &mut Random, most: usize, element: &dyn Fn(usize) -> String| {
        let elements: Vec<String> = (0..random.below(most + 1)).map(element).collect();
        format!("[{}]", elements.join(","))
    };
    let kind = entry.kind;
    let (field, value) = match kind {
        "calc" => (".A", analog_value(number, false)),
        "ai" | "ao" => ("", analog_value(number, false)),
        "longin" | "longout" | "int64out" => ("", analog_value(number, true)),
        kind if CHOICES.contains(&kind) => {
            let choices = if kind.starts_with("mb") { 3 } else { 2 };
            entry.choice = (entry.choice + 1 + number % (choices - 1)) % choices;
            ("", entry.choice.to_string())
        }
        "lsi" | "lso" => ("", "long ".repeat(random.below(600))),
        kind if TEXTS.contains(&kind) => ("", format!("text {number}")),
        "STRING" => ("", few(random, 4, &|at| format!("\"t{number} {at}\""))),
        "one of one" => ("", format!("{number}.5")),
        "one text of one" => ("", format!("alone {number}")),
        "DOUBLE" => ("", few(random, 400, &|at| format!("{}.5", at * 7))),
        "CHAR" => (
            "",
            few(random, 5, &|at| format!("{}", number as usize % 100 + at)),
        ),
        _ => (
            "",
            few(random, 4, &|at| format!("{}", number as usize % 250 + at)),
        ),
    };
    (format!("{}{field}", entry.name), value.into_bytes())
}

fn setting(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok().filter(|value| !value.is_empty())?;
    Some(
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

#[test]
#[ignore = "takes minutes; `make soak` runs it"]
fn every_pv_in_every_client_is_the_truth_after_whatever_may_happen() {
    let clock = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap().as_millis() as u64
    };
    let seed = setting("PVWIRE_SOAK_SEED").unwrap_or_else(clock);
    let seconds = setting("PVWIRE_SOAK_SECONDS").unwrap_or(600);
    println!("seed {seed}, {seconds} s: repeat it by make soak SEED={seed} SECONDS={seconds}");
    let mut world = World::new(seed);
    world.settle();
    let storm = Duration::from_secs(20.min(seconds.div_ceil(2)));
    let (mut storms, mut compared) = (0_usize, 0);
    while world.start.elapsed() < Duration::from_secs(seconds) {
        storms += 1;
        world.storm(storms, storm);
        compared += world.settle();
    }
    world.audit.check();
    for (what, times) in &world.done {
        println!("{times:7} × {what}");
    }
    for watcher in &mut world.watchers {
        let Report {
            connections,
            catch_ups,
            ..
        } = watcher.tell();
        println!(
            "{}: {connections} connections, {catch_ups} times behind",
            watcher.title
        );
    }
    println!("seed {seed}: {storms} storms, 0 of {compared} PVs differ from the truth");
}
