//! Servers of other makers beside the IOC: caproto, PCAS and CAJ by Channel Access, pvAccessCPP and core-pva by pvAccess.
//! They die, hang, and come back at other addresses.

use std::collections::{BTreeMap, HashMap};
use std::process::Command;
use std::thread;

use pvwire_schema::types::ValueType;

use super::World;
use super::watcher::{Address, Watcher};
use testbed::random::Random;
use testbed::{How, Kept, Maker, Network, OtherServer, Pv, Truth, prefix};

const MAKERS: [Maker; 5] = [
    Maker::Caproto,
    Maker::Pcas,
    Maker::Caj,
    Maker::PvAccessCpp,
    Maker::CorePva,
];

/// The PVs of the servers by Channel Access, those that CAJ has too first. The PV that counts reads, and the one whose reads it counts, are left out:
/// the truth's own reads change them.
const BY_CA: [&str; 10] = [
    "number",
    "still",
    "text",
    "choice",
    "empty",
    "array",
    "one",
    "integers",
    "refused",
    "char_text",
];

const OF_CAJ: usize = 5;

/// The PVs of the servers by pvAccess, which are compared with what was posted.
const BY_PVA: [&str; 3] = ["number", "long", "text"];

/// Their first values.
const FIRST: [(&str, &str); 5] = [
    ("choice", "1"),
    ("array", "[1,2,3]"),
    ("number", "1.5"),
    ("long", "9007199254740993"),
    ("text", "\"abc\""),
];

/// On both sides of 2^53, beyond which a double doesn't hold every integer.
const INTEGERS: [&str; 5] = [
    "9007199254740993",
    "10",
    "-9007199254740995",
    "9223372036854775807",
    "0",
];

/// The faults of a server.
pub(super) const FAULTS: [&str; 3] = [
    "a server of another maker dies and comes back",
    "a server of another maker hangs for a while",
    "a server of another maker hangs, and its PVs come back elsewhere",
];

/// Integers of at least this magnitude have no exact double.
const EXACT: u64 = 1 << 53;

/// One server, which runs in one of two networks.
struct Server {
    maker: Maker,
    prefix: String,
    networks: [Network; 2],
    /// Index of the network in which it runs.
    network: usize,
    /// `None` only while it restarts.
    running: Option<OtherServer>,
    /// The process that hung when its PVs moved. It is killed when they move again.
    hung: Option<OtherServer>,
    /// What was posted last, by PV.
    posted: BTreeMap<&'static str, String>,
}

impl Server {
    fn start(maker: Maker) -> Self {
        let networks = [maker.network(), maker.network()];
        let prefix = prefix();
        Self {
            maker,
            networks,
            network: 0,
            running: Some(OtherServer::with_prefix(networks[0], maker, &prefix)),
            prefix,
            hung: None,
            posted: BTreeMap::from(FIRST.map(|(name, value)| (name, value.to_owned()))),
        }
    }

    fn running(&mut self) -> &mut OtherServer {
        self.running.as_mut().unwrap()
    }

    fn names(&self) -> Vec<String> {
        let (scheme, names) = match self.maker {
            Maker::PvAccessCpp | Maker::CorePva => ("pva://", &BY_PVA[..]),
            Maker::PvAccessCppRpc => ("pva://", &BY_PVA[..0]),
            Maker::Caproto | Maker::Pcas => ("", &BY_CA[..]),
            Maker::Caj => ("", &BY_CA[..OF_CAJ]),
        };
        let prefix = &self.prefix;
        names
            .iter()
            .map(|name| format!("{scheme}{prefix}{name}"))
            .collect()
    }

    /// Starts a process in one of the networks, which has none.
    fn run_in(&mut self, network: usize) {
        let server = OtherServer::with_prefix(self.networks[network], self.maker, &self.prefix);
        self.running = Some(server);
        self.network = network;
        self.posted = BTreeMap::from(FIRST.map(|(name, value)| (name, value.to_owned())));
    }

    fn restart(&mut self) {
        self.running = None;
        self.run_in(self.network);
    }

    /// The process hangs for good, and another serves its PVs at another address.
    fn move_away(&mut self) {
        self.hung = None;
        self.running().hang();
        self.hung = self.running.take();
        self.run_in(1 - self.network);
    }

    fn post(&mut self, random: &mut Random) {
        let (name, value) = match random.below(6) {
            0 => ("text", format!("\"text {}\"", random.below(100))),
            1 if self.maker.is_by_ca() => ("choice", format!("{}", random.below(2))),
            2 if matches!(self.maker, Maker::Caproto | Maker::Pcas) => {
                let elements = (0..random.below(5)).map(|element| element.to_string());
                let elements = elements.collect::<Vec<_>>().join(",");
                ("array", format!("[{elements}]"))
            }
            3 if !self.maker.is_by_ca() => ("long", random.pick(&INTEGERS).to_owned()),
            _ => ("number", format!("{}.5", random.below(1_000))),
        };
        // A server sends no event when a value is posted again, but may change its time stamp.
        if self.posted.get(name) == Some(&value) {
            return;
        }
        self.running().post(name, &value);
        self.posted.insert(name, value);
    }

    /// Whether a double holds the 64-bit PV's value.
    fn is_exact(&self) -> bool {
        let long = self.posted["long"].parse::<i64>();
        long.is_ok_and(|long| long.unsigned_abs() < EXACT)
    }

    /// In what a client differs from the server's PVs.
    fn differences(&self, pvs: &HashMap<String, Pv>) -> Vec<String> {
        let mut found = Vec::new();
        if self.maker.is_by_ca() {
            let truth = Truth::ask(self.networks[self.network], &self.names());
            for (name, fields) in truth.differences(|name| pvs.get(name)) {
                found.push(format!("{:?}: {name}: {}", self.maker, fields.join("; ")));
            }
        }
        for name in self.names() {
            let Some(pv) = pvs.get(&name) else {
                found.push(format!("{:?}: {name} isn't held", self.maker));
                continue;
            };
            let posted = self.posted.get(name.rsplit(':').next().unwrap_or_default());
            let seen = pv.now.as_ref().map(|row| shown(&row.value));
            if !self.maker.is_by_ca() && seen.as_ref() != posted {
                found.push(format!(
                    "{:?}: {name}: {seen:?}, posted {posted:?}",
                    self.maker
                ));
            }
        }
        found
    }
}

/// A value in the form in which it is posted.
fn shown(value: &Kept) -> String {
    match value {
        Kept::Number(number) => number.to_string(),
        Kept::Array(ValueType::Int64, bytes) => {
            let bytes = bytes.as_slice().try_into().unwrap();
            i64::from_le_bytes(bytes).to_string()
        }
        Kept::Text(text) => format!("{text:?}"),
        other => format!("{other:?}"),
    }
}

/// All of them, and the client of their PVs.
pub(super) struct Makers {
    servers: [Server; MAKERS.len()],
    watcher: Watcher,
}

impl Makers {
    pub(super) fn start(address: &Address) -> Self {
        let servers = MAKERS.map(Server::start);
        let wanted = servers.iter().flat_map(Server::names).collect();
        let title = "client of other makers' servers";
        Self {
            servers,
            watcher: Watcher::start(title, How::default(), wanted, address),
        }
    }

    /// Has a relay search in all their networks; `ca` is where else it searches.
    pub(super) fn apply(&self, command: &mut Command, ca: &str) {
        let (mut by_ca, mut by_pva) = (ca.to_owned(), String::new());
        for server in &self.servers {
            for network in server.networks {
                if server.maker.is_by_ca() {
                    by_ca += &format!(" 127.0.0.1:{}", network.server_port());
                } else {
                    by_pva += &format!("127.0.0.1:{} ", network.pva_broadcast_port());
                }
            }
        }
        command.env("EPICS_CA_ADDR_LIST", by_ca);
        command.env("EPICS_PVA_ADDR_LIST", by_pva);
    }

    /// Posts values; returns how often a 64-bit PV crossed 2^53.
    pub(super) fn post(&mut self, random: &mut Random) -> u64 {
        let mut crossed = 0;
        for server in &mut self.servers {
            for _ in 0..random.below(20) {
                let before = server.is_exact();
                server.post(random);
                crossed += u64::from(server.is_exact() != before);
            }
        }
        crossed
    }

    /// Posts each PV of pvAccessCPP once more. Of a burst that overruns a monitor's queue this server may not send the
    /// last value before the next one, to any client.
    pub(super) fn last_words(&mut self, random: &mut Random) {
        for server in &mut self.servers {
            if server.maker == Maker::PvAccessCpp {
                let number = random.below(1_000);
                for (name, value) in [
                    ("number", format!("{number}.25")),
                    ("long", format!("{}", 9_007_199_254_740_993 + number as i64)),
                    ("text", format!("\"the last, {number}\"")),
                ] {
                    server.running().post(name, &value);
                    server.posted.insert(name, value);
                }
            }
        }
    }

    /// In what their client differs from the truth, and how many PVs it has.
    pub(super) fn differences(&mut self) -> (Vec<String>, usize) {
        let report = self.watcher.tell();
        let servers = self.servers.iter();
        let found = servers.flat_map(|server| server.differences(&report.pvs));
        (found.collect(), self.watcher.wanted.len())
    }
}

impl World {
    /// One of the servers fails.
    pub(super) fn break_maker(&mut self, fault: usize) {
        let number = self.random.below(MAKERS.len());
        let pause = self.random.millis(50, 1_500);
        if self.makers.is_some() {
            self.say(FAULTS[fault]);
        }
        let Some(makers) = &mut self.makers else {
            return;
        };
        let server = &mut makers.servers[number];
        match fault {
            0 => server.restart(),
            1 => {
                server.running().hang();
                thread::sleep(pause);
                server.running().resume();
            }
            _ => server.move_away(),
        }
    }
}
