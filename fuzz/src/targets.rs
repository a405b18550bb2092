//! The fuzz targets, their initial inputs and the properties that must hold.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use pvwire_core::select::{self, Documents};
use pvwire_epics::ca::message;
use pvwire_relay::access::rule::{Identity, Rules};
use pvwire_relay::config::{Access, Asked, Config};
use pvwire_relay::ingest::sim;
use pvwire_schema::{decode, encode};

use crate::cpu::MOST_BYTES;
use crate::{
    bus, coniql, execution, filters, formulas, gateway, http, ingest, names, pvws, sockets, tokens,
};

/// One reader.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Valid inputs that are changed.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Words that its texts are made of; none for bytes.
    pub words: &'static [&'static str],
    /// Reads an input; a panic is a finding.
    pub run: fn(&[u8]),
    /// How often it reads an input, in different ways.
    pub readings: u32,
    /// Who writes what it reads.
    pub author: Author,
}

/// Who writes an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Author {
    /// A client, a server of PVs, or another relay: anyone who can reach the relay.
    Anyone,
    /// The operator. Their files are read at the start and when they change, and may hold hundreds of regular
    /// expressions, whose compilation takes time on purpose: matching names is fast then.
    Operator,
}

impl Author {
    /// Bytes of the generated shapes.
    #[must_use]
    pub fn room(self) -> usize {
        match self {
            Self::Anyone => MOST_BYTES,
            Self::Operator => MOST_BYTES / 16,
        }
    }

    /// How many times longer reading may take.
    #[must_use]
    pub fn patience(self) -> u32 {
        match self {
            Self::Anyone => 1,
            Self::Operator => 50,
        }
    }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    Target {
        name: "requests",
        seeds: || golden("PVWR"),
        words: &[],
        run: requests,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "frames",
        seeds: || golden("PVWF"),
        words: &[],
        run: frames,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "ingest",
        seeds: sequences,
        words: &[],
        run: ingest::run,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "graphql",
        seeds: || texts(GRAPHQL),
        words: GRAPHQL_WORDS,
        run: graphql,
        readings: 4,
        author: Author::Anyone,
    },
    Target {
        name: "execution",
        seeds: || texts(execution::SEEDS),
        words: execution::WORDS,
        run: execution::run,
        readings: 2,
        author: Author::Anyone,
    },
    Target {
        name: "formulas",
        seeds: || texts(formulas::FORMULAS),
        words: formulas::FORMULA_WORDS,
        run: formulas::formula,
        readings: 16,
        author: Author::Anyone,
    },
    Target {
        name: "locals",
        seeds: || texts(formulas::LOCALS),
        words: formulas::LOCAL_WORDS,
        run: formulas::local,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "config",
        seeds: || texts(CONFIG),
        words: CONFIG_WORDS,
        run: config,
        readings: 1,
        author: Author::Operator,
    },
    Target {
        name: "tokens",
        seeds: tokens::seeds,
        words: tokens::WORDS,
        run: tokens::run,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "pvlist",
        seeds: || texts(gateway::PVLIST),
        words: gateway::PVLIST_WORDS,
        run: gateway::pvlist,
        readings: 3,
        author: Author::Operator,
    },
    Target {
        name: "security",
        seeds: || texts(gateway::SECURITY),
        words: gateway::SECURITY_WORDS,
        run: gateway::security,
        readings: 1,
        author: Author::Operator,
    },
    Target {
        name: "simulated",
        seeds: || texts(SIMULATED),
        words: SIMULATED_WORDS,
        run: simulated,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "circuit",
        seeds: circuits,
        words: &[],
        run: circuit,
        readings: 5,
        author: Author::Anyone,
    },
    Target {
        name: "names",
        seeds: || texts(names::SEEDS),
        words: names::WORDS,
        run: names::run,
        readings: 6,
        author: Author::Anyone,
    },
    Target {
        name: "filters",
        seeds: filters::seeds,
        words: &[],
        run: filters::run,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "coniql",
        seeds: || texts(coniql::SEEDS),
        words: coniql::WORDS,
        run: coniql::run,
        readings: 2,
        author: Author::Anyone,
    },
    Target {
        name: "http",
        seeds: || texts(http::SEEDS),
        words: http::WORDS,
        run: http::run,
        readings: 2,
        author: Author::Anyone,
    },
    Target {
        name: "pvws",
        seeds: || texts(pvws::SEEDS),
        words: pvws::WORDS,
        run: pvws::run,
        readings: 1,
        author: Author::Anyone,
    },
    Target {
        name: "sockets",
        seeds: sockets::seeds,
        words: &[],
        run: sockets::run,
        readings: 2,
        author: Author::Anyone,
    },
    Target {
        name: "bus",
        seeds: || texts(bus::SEEDS),
        words: bus::WORDS,
        run: bus::run,
        readings: 1,
        author: Author::Anyone,
    },
];

/// What a server sends to who created the channel 1, subscribed as 2 and 3 and reads as 4.
fn circuits() -> Vec<Vec<u8>> {
    let mut update = message(1, 20, 1, 1, 2, &[0; 24]);
    let error = message(11, 0, 0, 0, 192, &message(4, 6, 1, 1, 1, b"why\0....")).repeat(2);
    let whole = [
        message(0, 0, 13, 0, 0, &[]),
        message(22, 0, 0, 1, 3, &[]),
        message(18, 6, 1, 1, 7, &[]),
        update.repeat(3),
        message(15, 0, 1, 1, 4, &[0; 40]),
        message(12, 0, 0, 7, 1, &[]),
    ];
    update[2..4].copy_from_slice(&[0xff, 0xff]);
    update.splice(16..16, [0, 0, 0, 24, 0, 0, 0, 1]);
    vec![whole.concat(), error, update]
}

fn circuit(bytes: &[u8]) {
    let asked = [
        message(18, 0, 0, 1, 13, b"a name\0\0"),
        message(1, 20, 0, 7, 2, &[0; 16]),
        message(1, 34, 0, 7, 3, &[0; 16]),
        message(15, 0, 1, 7, 4, &[]),
    ]
    .concat();
    let whole = pvwire_epics::ca::seen(&asked, bytes, bytes.len());
    for piece in [1, 7, 16, 100] {
        let in_pieces = pvwire_epics::ca::seen(&asked, bytes, piece);
        assert_eq!(in_pieces, whole, "in pieces of {piece}");
    }
    // Nor may what libca sends confuse it, of which names and values are a client's.
    let _ = pvwire_epics::ca::seen(bytes, &asked, 16);
}

/// Golden messages with this file identifier.
fn golden(identifier: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schema/tests/golden");
    let mut files: Vec<_> = fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "bin"))
        .collect();
    files.sort();
    let messages = files.iter().filter_map(|path| fs::read(path).ok());
    messages
        .filter(|bytes| bytes.get(4..8) == Some(identifier.as_bytes()))
        .collect()
}

fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// What a client sends to the relay.
fn requests(bytes: &[u8]) {
    let _ = decode::request_id(bytes);
    let Ok(request) = decode::request(bytes) else {
        return;
    };
    let again = encode::request(&request);
    let read = decode::request(&again).map(|again| format!("{again:?}"));
    assert_eq!(
        read,
        Ok(format!("{request:?}")),
        "a request that was understood doesn't come through a second time as it was"
    );
}

/// What the relay sends, read as a client would: every column to its end.
fn frames(bytes: &[u8]) {
    let Ok(view) = decode::frame(bytes) else {
        return;
    };
    let rows = view.numbers_len() + view.blobs_len();
    assert_eq!(view.numbers().count(), view.numbers_len());
    for blob in view.blobs() {
        assert!(blob.data_offset + blob.data.len() <= bytes.len());
        let _ = blob.text().map(str::len).sum::<usize>();
    }
    assert!(view.alarms().all(|alarm| (alarm.row as usize) < rows));
    assert!(view.details().all(|detail| (detail.row as usize) < rows));
    assert!(view.skips().all(|skip| (skip.row as usize) < rows));
    let _ = view.metadata().count() + view.connections().count();
    if let Some(sequences) = view.sequences() {
        assert_eq!(sequences.count(), rows);
    }
    let _ = (view.reply(), view.reply_to(), view.tick(), view.prev_tick());
    let mut open: Vec<_> = (view.rpc_result().into_iter())
        .chain(view.put_readback())
        .collect();
    while let Some(node) = open.pop() {
        assert!(node.data_offset() + node.data().len() <= bytes.len());
        let _ = node.text().map(str::len).sum::<usize>() + node.name().len();
        open.extend(node.fields());
    }
}

/// Several frames after each other: each golden one alone, and some of them in a row.
fn sequences() -> Vec<Vec<u8>> {
    let frames = golden("PVWF");
    let pairs = frames
        .iter()
        .zip(frames.iter().skip(1))
        .map(|(a, b)| [framed(a), framed(b)].concat());
    let alone = frames.iter().map(|frame| framed(frame));
    alone.chain(pairs).collect()
}

/// A frame behind its length, so that the next one can follow.
fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_le_bytes(), frame].concat()
}

const GRAPHQL: &[&str] = &[
    "{ value { float string(units: true) } status { severity } time { datetime } }",
    "query Screen($pv: ID! = \"X\", $units: Boolean = true, $skip: Boolean! = false) {\n  a: \
     getChannel(id: $pv) { ...channel @skip(if: $skip) }\n  b: getChannel(id: \"\"\"Y\"\"\", \
     timeout: 0.5) { id value { s: string(units: $units) } }\n}\nfragment channel on Channel { id \
     status { ...status } ... @include(if: true) { time { seconds } } }\nfragment status on \
     ChannelStatus { quality __typename }\0Screen\0{\"pv\":\"Z\",\"units\":false}",
    "mutation Put($values: [String!]!) { putChannels(ids: [\"A\", 5], values: $values) { id } \
     }\0Put\0{\"values\":[\"1\",\"\\u0041\"]}",
    "subscription { subscribeChannel(id: \"ca://TEMP\") { value { float } display { controlRange { \
     min max } choices } } }",
    "query { __schema { types { name fields { name type { kind ofType { name } } } } } }",
];

const GRAPHQL_WORDS: &[&str] = &[
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ":",
    "!",
    "$",
    "@",
    "...",
    "=",
    "|",
    "&",
    "#",
    "\"",
    "\"\"\"",
    "\\",
    "\\u",
    "\\u{",
    "\\uD800",
    "-",
    "0",
    "1e",
    "1e309",
    ".5",
    "null",
    "true",
    "query",
    "mutation",
    "subscription",
    "fragment",
    "on",
    "a",
    "a:",
    "__typename",
    "@skip(if: ",
    "...a",
    "\0",
    "{\"a\":",
    "é",
    "\u{feff}",
    "\r\n",
    "\u{10ffff}",
];

/// A selection, or a document with the name of an operation and variables behind zero bytes.
fn graphql(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.splitn(3, '\0');
    let (document, operation) = (parts.next().unwrap_or_default(), parts.next());
    let variables = parts.next().unwrap_or_default();
    let first = Documents::new().plan(document, operation, variables);
    let mut documents = Documents::new();
    let kept = [(); 2].map(|()| documents.plan(document, operation, variables));
    assert_eq!(kept, [first.clone(), first], "a kept document is another");
    let _ = select::selection(document);
}

const CONFIG: &[&str] = &[
    "listen = \"127.0.0.1:0\"\nallow_origin = [\"https://a.example\", \"http://b.example:8080\"]\n\
     shards = 2\n",
    "enable_put = true\n[[rule]]\nuser = \"a\"\ngroup = [\"g\", \"h\"]\npv = [\"SR:*:SET\", \"*\"]\n\
     allow = \"put\"\ndeny = [\"read\"]\n[[rule]]\npv_regex = \"SR:[A-Z]{1,8}(\\.|:)(\\\\d+|.*)\"\nallow = \
     [\"read\", \"put\"]\n",
    "# comment\nenable_put = true\nallow_put = [\"SR:*:SET\", \"pva://BL7:*\"]\nlinger_ms = 100\n",
    "default_source = \"pva\"\nallow_host = \"pvwire.example.org\"\nshortest_tick_ms = 5\n\
     longest_tick_ms = 50\n\0PVWIRE_MAX_CLIENTS=12\0--evict-after-ms\x001000",
];

const CONFIG_WORDS: &[&str] = &[
    "=",
    "[",
    "]",
    "[[rule]]\n",
    "{",
    "}",
    "\"",
    "\"\"\"",
    "'",
    "\\",
    "\n",
    "\0",
    "\0PVWIRE_",
    "\0PVWIRE_LISTN=",
    "\0PVWIRE_LOG=",
    "\0--",
    "listen",
    "allow_put",
    "linger_ms",
    "rule",
    "user = ",
    "group = ",
    "pv = ",
    "pv_regex = ",
    "allow = ",
    "deny = ",
    "\"put\"",
    "(",
    ")",
    "+",
    "{9999}",
    "(?i)",
    "\\\\p{L}",
    "|",
    "shards",
    "-1",
    "0x10",
    "1e3",
    "inf",
    "true",
    "*",
    "18446744073709551616",
    "é",
    "\u{0}",
    "1979-05-27",
    "[::1]:80",
];

/// A file, and behind zero bytes variables (`NAME=…`) and flags.
fn config(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\0');
    let file = parts.next().unwrap_or_default().to_owned();
    let (variables, flags): (Vec<_>, Vec<_>) = parts.partition(|part| part.starts_with("PVWIRE_"));
    let variables = variables.iter().filter_map(|each| each.split_once('='));
    let environment: BTreeMap<_, _> = variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let program = ["pvwire-relay", "--config", "fuzz.toml"];
    let arguments: Vec<_> = program
        .iter()
        .chain(&flags)
        .map(|&word| word.to_owned())
        .collect();
    match Config::read(&arguments, &environment, |_| Ok(file.clone())) {
        Ok(Asked::Run(config)) => {
            assert!(!config.show().is_empty());
            check_rules(&config);
        }
        Ok(_) => {}
        Err(error) => {
            let said = error.to_string();
            let lines = said.lines().count();
            assert!(lines <= 1 && !said.is_empty(), "not one line: {said:?}");
        }
    }
}

/// Valid rules decide about every PV, and never allow puts that are switched off.
fn check_rules(config: &Config) {
    let rules = match Rules::new(config.enable_put, &config.all_rules()) {
        Ok(rules) => rules,
        Err(said) => {
            let said = said.to_string();
            assert_eq!(said.lines().count(), 1, "not one line: {said:?}");
            return;
        }
    };
    let identity = Identity {
        user: Some("a".into()),
        groups: vec!["g".into()],
    };
    for name in ["SR:A:SET", "SR:A.DRVH", "", "*", "é"] {
        for who in [&identity, &Identity::default()] {
            let verdict = rules.decide(who, "ca", name, Access::Put);
            assert!(config.enable_put || !verdict.allowed);
            assert!(!verdict.because.is_empty());
            let _ = rules.decide(who, "pva", name, Access::Read);
        }
    }
}

const SIMULATED: &[&str] = &[
    "sim://sine(10,amplitude=1,offset=0,rate_hz=10)",
    "sim://ramp(period_s=10,low=0,high=100)",
    "sim://noise(0,1,10,seed=7)",
    "sim://counter(rate_hz=1,start=0,step=1)",
    "sim://waveform(size=100,waves=2)",
    "sim://image(width=64,height=48)",
    "sim://enum(Off|On,rate_hz=1)",
    "sim://string(texts=red|green)",
    "ssim://sine(-5,5,10,1,80,90)",
    "ssim://sinewave(1,10,50,1,-5,5)",
    "ssim://rampwave(10,1,0,100,1)",
    "psim://sine(-5, 5, 10, 1)",
    "psim://ramp(0,10,-1,0.1)",
    "psim://intermittent(1,7)",
    "psim://sawtooth(1,10,50,0.1,-1,1)",
    "psim://gaussianWave(1,100,100,0.1)",
    "psim://noisewave(-5,5,100,1)",
    "psim://strings(10,0.1)",
    "psim://flipflop(29.929)",
    "sys://time",
    "psim://const<VEnum>(1,\"A\",\"B\")",
];

const SIMULATED_WORDS: &[&str] = &[
    "(",
    ")",
    ",",
    "=",
    "|",
    "-",
    ".",
    "0",
    "1",
    "9",
    "e",
    "e-320",
    "e15",
    "1e-9",
    "0.001",
    "1e6",
    "inf",
    "nan",
    "step=",
    "size=",
    "min_value=",
    "max_value=",
    "period_s=",
    "rate_hz=",
    "width=",
    "é",
];

/// A name of a simulated PV: what can be read makes values at any time.
fn simulated(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Some((scheme, name)) = text.split_once("://") else {
        return;
    };
    let moments = [
        (0, 0),
        (-1, 1),
        (1_700_000_000_000_000_000, 12_345),
        (i64::MIN, u64::MAX),
    ];
    match sim::try_name(scheme, name, &moments, 10_000) {
        Ok(made) => assert!(made == 0 || made == moments.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_reads_its_own_seeds() {
        for target in TARGETS {
            let seeds = (target.seeds)();
            assert!(seeds.len() > 2, "{} has too few seeds", target.name);
            for seed in seeds {
                (target.run)(&seed);
            }
        }
        assert!(
            golden("PVWR")
                .iter()
                .all(|seed| decode::request(seed).is_ok())
        );
        assert!(
            golden("PVWF")
                .iter()
                .all(|seed| decode::frame(seed).is_ok())
        );
    }
}
