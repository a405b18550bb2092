//! The random run of faults: afterwards every PV in every client equals the IOC's in every field,
//! and no client of a healthy IOC has waited for its updates.
//!
//! Topology: a soft IOC with a hundred records of all kinds, a relay that reaches it through a
//! proxy, and clients that read well or badly, some of them clients of PVWS and of Coniql; all of them stop,
//! stall and restart at random. An independent Channel Access client then reads the IOC for comparison.
//! Servers of other makers fail beside it. Other clients put all the time, and each outcome is compared with what the IOC has written. A second IOC
//! with three clients stays healthy throughout; two more clients take its large arrays by the stream, through a proxy that
//! fails alone. With `PVWIRE_SOAK_FLEET` the relay is one of two edges of a fleet, whose
//! owners and bus fail too, and a client watches some of the records by pvAccess. `make soak` runs it; `PVWIRE_SOAK_SECONDS` sets the duration,
//! and `PVWIRE_SOAK_SEED` repeats the driver's choices.

#![allow(clippy::print_stdout, reason = "it prints its progress")]

mod attacks;
mod checks;
mod computing;
mod coniql;
mod door;
mod faults;
mod fleet;
mod makers;
mod pva;
mod pvws;
mod streams;
mod waits;
mod watcher;
mod withheld;
mod writers;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use self::attacks::Attack;
use self::attacks::Liar;
use self::coniql::{CONIQL, LEGACY};
use self::door::DoorClient;
use self::faults::AuditDisk;
use self::fleet::Fleet;
use self::makers::Makers;
use self::pva::PvaRights;
use self::pvws::PVWS;
use self::streams::{Healthy, Streams};
use self::waits::{ALLOWED, CALM, Waits};
use self::watcher::{Address, Report, Watcher};
use self::withheld::Withheld;
use self::writers::Writers;
use self::writes::{Entry, RulesFile, description};
use testbed::random::Random;
use testbed::records::{KINDS, record};
use testbed::{How, Network, Relay, SoftIoc, Wire, prefix, relay_command_with_limit};

const RECORDS: usize = 100;
/// Time without faults before the first storm.
const CALM_LASTS: Duration = Duration::from_secs(5);

/// The client that has all PVs and takes its large values by streams.
const FETCHING: &str = "all PVs, large values by the stream";

/// Everything that the driver breaks and repairs.
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
    fleet: Option<Fleet>,
    audit: AuditDisk,
    liar: Liar,
    /// Absent where the relay is one of a fleet.
    makers: Option<Makers>,
    /// Likewise.
    pva_rights: Option<PvaRights>,
    healthy: Healthy,
    waits: Waits,
    withheld: Arc<Withheld>,
    streams: Streams,
    address: Address,
    watchers: Vec<Watcher>,
    writers: Writers,
    doors: Vec<DoorClient>,
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
                // Many facilities' names contain braces, which also begin a filter.
                name: match number % 3 {
                    0 => format!("{prefix}D{{{number}}}"),
                    _ => format!("{prefix}{number}"),
                },
                kind: KINDS[number % KINDS.len()],
                variant: random.below(1000) as u32,
                exists: true,
                choice: 0,
            })
            .collect();
        let address = Address::default();
        let healthy = Healthy::start(network);
        let withheld = Arc::new(Withheld::start());
        let packed = How {
            lz4: true,
            ..How::default()
        };
        let steady = [How::default(), How::default(), packed].map(|how| (how, None));
        let fleet = setting("PVWIRE_SOAK_FLEET").map(|_| Fleet::start());
        // Where some of the clients are in a fleet.
        let second = fleet.as_ref().map_or(&address, |fleet| &fleet.second);
        let mut world = Self {
            network,
            wire: Wire::lay_with_searches(network.server_port()),
            rules: RulesFile::new(&prefix),
            random,
            start: Instant::now(),
            entries,
            ioc: None,
            relay: None,
            audit: AuditDisk::new(),
            liar: Liar::start(),
            makers: fleet.is_none().then(|| Makers::start(&address)),
            pva_rights: fleet.is_none().then(|| PvaRights::start(&prefix)),
            waits: Waits::start(&healthy, &steady, ALLOWED, &address, &withheld),
            streams: Streams::start(&healthy, &address, &withheld),
            withheld,
            healthy,
            writers: Writers::start(&prefix, seed, [&address, second]),
            prefix,
            fleet,
            address,
            watchers: Vec::new(),
            doors: Vec::new(),
            attacks: Vec::new(),
            has_returned: false,
            done: BTreeMap::new(),
        };
        world.start_ioc();
        world.start_relay();
        // Names outlive the kinds of their records.
        let all: Vec<String> = world.entries.iter().map(Entry::pv).collect();
        let half: Vec<String> = all.iter().step_by(2).cloned().collect();
        let with_prefix = half.iter().map(|name| format!("ca://{name}")).collect();
        let with_prefix: Vec<String> = with_prefix;
        for (door, title, buffer, wanted) in [
            (&PVWS, "all PVs", None, all.clone()),
            (
                &PVWS,
                "half of the PVs with ca://",
                None,
                with_prefix.clone(),
            ),
            (&PVWS, "small buffer", Some(4096), all.clone()),
            (&CONIQL, "all PVs", None, all.clone()),
            (&LEGACY, "half of the PVs with ca://", None, with_prefix),
            (&CONIQL, "small buffer", Some(4096), all.clone()),
        ] {
            let door = DoorClient::start(door, title, wanted, buffer, &world.address);
            world.doors.push(door);
        }
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
        let names = [&all[..], &world.healthy.arrays].concat();
        let fetching = Some(world.streams.fetching());
        let how = (How::default(), fetching);
        let watcher = Watcher::start_by_stream(FETCHING, how, names, &world.address);
        world.watchers.push(watcher);
        if let Some(fleet) = &world.fleet {
            let how = How::default();
            let by_pva = pva::names(&world.entries);
            for (title, wanted) in [("at the second edge", all), ("by pvAccess", by_pva)] {
                let watcher = Watcher::start(title, how, wanted, &fleet.second);
                world.watchers.push(watcher);
            }
        }
        world
    }

    /// A PV that clients write and none of them watches.
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
        database += &Writers::database(prefix);
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
             }}
             {}",
            Writers::rules(prefix)
        );
        let start = match self.fleet {
            None => SoftIoc::with_prefix,
            Some(_) => SoftIoc::with_prefix_and_pv_access,
        };
        let mut ioc = start(self.network, prefix, &database, &rules);
        self.writers.open_journal(&mut ioc);
        self.ioc = Some(ioc);
        for entry in &mut self.entries {
            entry.choice = entry.variant % 2;
        }
    }

    fn start_relay(&mut self) {
        self.start_owners();
        // An impatient relay makes more catch-ups.
        let window = self.random.pick(&["200", "500", "2000"]);
        // Few file descriptors, so that an attack can use them up.
        let mut command = relay_command_with_limit(self.network, "-n 256");
        let searched = self.liar.addresses(&format!("127.0.0.2 {}", streams::HOST));
        match &self.makers {
            Some(makers) => makers.apply(&mut command, &searched),
            None => drop(command.env("EPICS_CA_ADDR_LIST", searched)),
        }
        if let Some(rights) = &self.pva_rights {
            let others = format!("127.0.0.1:{}", self.network.pva_port());
            command.env("EPICS_PVA_NAME_SERVERS", rights.name_servers(&others));
        }
        let throttle = self.random.pick(&["0", "100"]);
        self.audit.give_to(&mut command);
        let audit = self.audit.flags(&format!("{}*", self.prefix));
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
            "--pvws",
            "--coniql",
            "--pvws-throttle-ms",
            throttle,
            // Little enough for a client to ask for more.
            "--max-memory-per-client-mib=20",
        ];
        let mut flags = flags.to_vec();
        let bus = self
            .fleet
            .as_ref()
            .map(|fleet| (fleet.url(), fleet.key.clone()));
        if let Some((bus, key)) = &bus {
            flags.extend(["--bus", bus, "--role", "edge", key]);
        }
        let relay = Relay::spawn(command, &flags);
        self.withheld.follow(relay.id());
        *self.address.lock().unwrap() = Some(relay.address());
        self.relay = Some(relay);
    }

    /// Updates and nothing else for a while: the waits that attacks are compared with.
    fn calm(&mut self) {
        self.waits.wait_live();
        self.streams.waits.wait_live();
        let begin = SystemTime::now();
        while begin.elapsed().unwrap_or(CALM_LASTS) < CALM_LASTS {
            self.burst();
            let pause = self.random.millis(10, 500);
            thread::sleep(pause);
        }
        for waits in [&mut self.waits, &mut self.streams.waits] {
            waits.add_window(CALM, begin, SystemTime::now());
            waits.check();
        }
    }

    /// Random faults for `time`; at its end the relay runs, and mostly the IOC. Of three storms one
    /// has an IOC that hangs and one a network that is cut, each for longer than any time-out.
    fn storm(&mut self, number: usize, time: Duration) {
        if self.ioc.is_none() {
            self.say("the IOC comes back");
            self.start_ioc();
        }
        self.has_returned = false;
        self.liar.be_believed(&self.address);
        let begin = SystemTime::now();
        let end = Instant::now() + time;
        let mut stall =
            (!number.is_multiple_of(3)).then(|| Instant::now() + self.random.millis(0, 4_000));
        // Each storm has each of these at least once.
        let mut hostile: Vec<usize> = (0..attacks::ALL.len()).collect();
        let mut attacks: Vec<fn(&mut Self)> = vec![
            Self::press_memory,
            Self::break_audit_disk,
            Self::change_rules,
            |world| world.break_maker(0),
            |world| world.break_maker(1),
            |world| world.break_maker(2),
            |world| world.break_stream(0),
            |world| world.break_stream(1),
            |world| world.break_stream(2),
            Self::restart_pva_rights,
        ];
        if self.fleet.is_some() {
            let faults: [fn(&mut Self); 2] = [Self::restart_ioc, Self::restart_relay];
            attacks.extend(faults);
            attacks.extend([Self::break_fleet as fn(&mut Self); 3]);
        }
        while Instant::now() < end || !attacks.is_empty() || !hostile.is_empty() {
            if self.random.one_in(4) && !attacks.is_empty() {
                let next = self.random.below(attacks.len());
                attacks.swap_remove(next)(self);
            }
            if self.random.one_in(4) && !hostile.is_empty() {
                let next = self.random.below(hostile.len());
                let kind = hostile.swap_remove(next);
                self.attack(kind);
            }
            if stall.is_some_and(|begin| begin <= Instant::now()) {
                stall = None;
                self.stall(number % 3 == 1);
                continue;
            }
            if self.fleet.is_some() && self.random.one_in(6) {
                self.break_fleet();
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
                70..75 => {
                    let kind = self.random.below(attacks::ALL.len());
                    self.attack(kind);
                }
                75..78 => self.press_memory(),
                78..81 => {
                    let fault = self.random.below(makers::FAULTS.len());
                    self.break_maker(fault);
                }
                81..83 => {
                    let fault = self.random.below(streams::FAULTS.len());
                    self.break_stream(fault);
                }
                _ => self.burst(),
            }
            let pause = self.random.millis(10, 500);
            thread::sleep(pause);
        }
        self.end_attacks();
        let faults = "all faults, beside a lying server";
        self.waits.add_window(faults, begin, SystemTime::now());
        self.open_rules();
        // Some clients receive the last updates in a catch-up.
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
            // Its shell answers after all earlier commands.
            let answer = format!("dbgf {}switch", self.prefix);
            self.ioc.as_mut().unwrap().ask(&answer);
        }
    }
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
fn pvs_are_the_truth_and_no_client_waits_under_random_faults() {
    let clock = || {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.unwrap().as_millis() as u64
    };
    let seed = setting("PVWIRE_SOAK_SEED").unwrap_or_else(clock);
    let seconds = setting("PVWIRE_SOAK_SECONDS").unwrap_or(600);
    println!("seed {seed}, {seconds} s: repeat it by make soak SEED={seed} SECONDS={seconds}");
    let mut world = World::new(seed);
    world.settle();
    world.calm();
    let storm = Duration::from_secs(20.min(seconds.div_ceil(2)));
    let (mut storms, mut compared) = (0_usize, 0);
    while world.start.elapsed() < Duration::from_secs(seconds) {
        storms += 1;
        world.storm(storms, storm);
        compared += world.settle();
        world.check_others();
    }
    world.audit.check();
    world.check_drawn();
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
    for door in &mut world.doors {
        let report = door.tell();
        println!(
            "{}, {}: {} connections, {} updates",
            door.door.server, door.title, report.connections, report.updates
        );
    }
    print!("{}{}", world.waits.table(), world.streams.waits.table());
    print!("{}", world.writers.table());
    println!("seed {seed}: {storms} storms, 0 of {compared} PVs differ from the truth");
}
