//! The relay serves no PV that p4p's gateway would not serve with the same `.pvlist`.
//!
//! Topology: no network. The relay's reader and p4p's own (`tools/pvlist_oracle.py`) read the same
//! random lists and decide about the same names.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use pvwire_relay::access::rule::{AccessSecurity, Identity, PvList, PvListError, Rules};
use pvwire_relay::config::Access;
use serde_json::{Value, json};

use testbed::python;
use testbed::random::Random;

const LISTS: usize = 1000;
const NAMES: usize = 20;
const GROUPS: [&str; 3] = ["DEFAULT", "Set", "Beam"];

/// The reader of p4p in a process that answers line by line.
struct Gateway {
    process: Child,
    asked: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Gateway {
    fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../tools/pvlist_oracle.py");
        let mut process = Command::new(python())
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asked = process.stdin.take().unwrap();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self {
            process,
            asked,
            answers,
        }
    }

    /// Group and level of each name that the list serves; `None` when the gateway doesn't read the
    /// list.
    fn judge(&mut self, text: &str, names: &[String]) -> Option<Vec<Option<(String, u8)>>> {
        let question = json!({ "text": text, "names": names });
        writeln!(self.asked, "{question}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap();
        let served = |of: &Value| {
            let group = of[0].as_str()?.to_owned();
            Some((group, of[1].as_u64().unwrap() as u8))
        };
        Some(answer.as_array()?.iter().map(served).collect())
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A list as parsed by the relay.
struct Relay {
    open: Rules,
    /// Each grants reading in one group, at level 0 and at all levels.
    groups: Vec<(&'static str, u8, Rules)>,
}

impl Relay {
    fn read(text: &str) -> Result<Self, PvListError> {
        let list = PvList::parse("random.pvlist", text)?;
        let by = |security: Option<String>| {
            let security = security.map(|text| AccessSecurity::parse("random.acf", &text).unwrap());
            let rules = Rules::new(false, &[]).unwrap();
            rules.with_gateway(Some(list.clone()), security).unwrap()
        };
        let granting = |group, level| {
            let other = GROUPS.iter().filter(|other| **other != group);
            let empty: String = other.map(|other| format!("ASG({other})\n")).collect();
            let security = format!("{empty}ASG({group}) {{ RULE({level}, READ) }}");
            (group, level, by(Some(security)))
        };
        let groups = GROUPS
            .into_iter()
            .flat_map(|group| [granting(group, 0), granting(group, 1)]);
        Ok(Self {
            open: by(None),
            groups: groups.collect(),
        })
    }

    /// Group and level of a name, if it is served.
    fn judge(&self, name: &str) -> Option<(String, u8)> {
        let reads = |rules: &Rules| {
            let anybody = Identity::default();
            rules.decide(&anybody, "pva", name, Access::Read).allowed
        };
        reads(&self.open).then(|| {
            let granting = self.groups.iter().find(|(.., rules)| reads(rules));
            let (group, level, _) = granting.unwrap();
            ((*group).to_owned(), *level)
        })
    }
}

/// Random lists of access rules, and names for them.
trait Lists {
    fn piece(&mut self, depth: usize) -> String;
    fn pattern(&mut self, depth: usize) -> String;
    fn list(&mut self) -> String;
    fn name(&mut self) -> String;
}

impl Lists for Random {
    /// A piece of a pattern; occasionally one that gateways read differently.
    fn piece(&mut self, depth: usize) -> String {
        const PLAIN: [&str; 28] = [
            "A", "B", "SR", ":", "1", "X", "_", "-", ".", ".*", ".+", ".?", "[AB]", "[^A]",
            "[A-Z0-9]", "[A-Z]+", "[-:]", "[:.]", "\\w", "\\w+", "\\d", "\\d*", "\\.", "\\:",
            "\\W", "A{1,2}", "\\b", "SET",
        ];
        const STRANGE: [&str; 34] = [
            "\\<",
            "\\>",
            "[A&&B]",
            "[A--B]",
            "[[:alpha:]]",
            "[[:upper:]]+",
            ".*+",
            ".++",
            ".*?",
            "A??",
            "[]A]",
            "[[]",
            "[A~~B]",
            "[--A]",
            "[a-z-9]",
            "\\(A\\)",
            "A\\|B",
            "{",
            "A{,2}",
            "A{x}",
            "(?i)a",
            "(?:a|A)",
            "\\x41",
            "\\101",
            "\\B",
            "\\Z",
            "\\z",
            "^",
            "$",
            "!",
            "#",
            "\\_",
            "\\p{L}",
            "[\\]A]",
        ];
        match self.below(60) {
            0 => self.pick(&STRANGE).to_owned(),
            1..7 if depth < 2 => {
                let kind = self.pick(&["(?:", "(?:", "("]);
                let (a, b) = (self.pattern(depth + 1), self.pattern(depth + 1));
                let end = self.pick(&[")", ")", ")?", "){1,2}"]);
                format!("{kind}{a}|{b}{end}")
            }
            _ => self.pick(&PLAIN).to_owned(),
        }
    }

    fn pattern(&mut self, depth: usize) -> String {
        let pieces = 1 + self.below(4);
        let mut pattern: String = (0..pieces).map(|_| self.piece(depth)).collect();
        if depth == 0 && self.one_in(10) {
            pattern.insert(0, '^');
        }
        if depth == 0 && self.one_in(10) {
            pattern.push('$');
        }
        pattern
    }

    fn list(&mut self) -> String {
        let mut text = String::new();
        if self.one_in(3) {
            text += self.pick(&[
                "EVALUATION ORDER ALLOW, DENY\n",
                "EVALUATION ORDER ALLOW, DENY\n",
                "EVALUATION  ORDER  ALLOW,  DENY \n",
                "EVALUATION ORDER DENY, ALLOW\n",
                "# DENY, ALLOW\n",
            ]);
        }
        if self.one_in(2) {
            text += ".* ALLOW\n";
        }
        for _ in 0..1 + self.below(6) {
            let pattern = self.pattern(0);
            let rest = self.pick(&[
                "ALLOW",
                "ALLOW",
                "allow Set",
                "ALLOW Set 1",
                "ALLOW Beam 0",
                "ALLOW DEFAULT 1",
                "DENY",
                "DENY",
                "Deny",
                "\tDENY\t",
            ]);
            let end = match self.below(30) {
                0 => self.pick(&["\r", "\u{b}", "\u{85}", "\u{2028}", " # x\n", "# x\n"]),
                _ => self.pick(&["\n", "\n", "\r\n", " \n\n"]),
            };
            text += &format!("{pattern} {rest}{end}");
        }
        text
    }

    /// A name without channel filters and array ranges, which patterns don't judge here.
    fn name(&mut self) -> String {
        const PIECES: [&str; 22] = [
            "A", "B", "AB", "SR", ":", "1", "X", "_", "-", ".", "SET", "a", "<", "&", "|", "*",
            "+", "(", ")", "]", "é", "\n",
        ];
        let ordinary = if self.one_in(4) { PIECES.len() } else { 12 };
        let pieces = 1 + self.below(5);
        (0..pieces)
            .map(|_| self.pick(&PIECES[..ordinary]))
            .collect()
    }
}

/// Compares one list; says whether both read it, and how many names both serve.
fn compare(gateway: &mut Gateway, text: &str, names: &[String], repeat: &str) -> (bool, usize) {
    // If the relay refuses a list, it serves nothing, because it does not start.
    let Ok(relay) = Relay::read(text) else {
        return (false, 0);
    };
    let Some(expected) = gateway.judge(text, names) else {
        return (false, 0);
    };
    let mut served = 0;
    for (name, expected) in names.iter().zip(expected) {
        let Some((group, level)) = relay.judge(name) else {
            continue;
        };
        let (text, name) = (format!("{text:?}"), format!("{name:?}"));
        let Some((their_group, their_level)) = expected else {
            panic!("{name} is served by the relay alone; {repeat}:\n{text}");
        };
        assert_eq!(group, their_group, "group of {name}; {repeat}:\n{text}");
        assert!(level >= their_level, "level of {name}; {repeat}:\n{text}");
        served += 1;
    }
    (true, served)
}

#[test]
fn relay_serves_nothing_that_p4ps_gateway_does_not_serve() {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let asked = std::env::var("PVWIRE_SEED").ok();
    let seed = asked.map_or(clock.as_nanos() as u64, |seed| seed.parse().unwrap());
    let repeat = format!("repeat it by PVWIRE_SEED={seed}");
    println!("{repeat}");
    let (mut random, mut gateway) = (Random(seed), Gateway::start());
    let (mut both, mut served) = (0, 0);
    for _ in 0..LISTS {
        let text = random.list();
        let names: Vec<_> = (0..NAMES).map(|_| random.name()).collect();
        let (read, count) = compare(&mut gateway, &text, &names, &repeat);
        both += usize::from(read);
        served += count;
    }
    println!("{both} of {LISTS} lists were read by both, {served} names served by both");
    assert!(both > LISTS / 5, "{both} lists were compared; {repeat}");
    assert!(served > LISTS, "{served} names were served; {repeat}");
}

#[test]
fn what_gateways_read_differently_is_refused_at_the_start() {
    for line in [
        "EVALUATION ORDER DENY, ALLOW",
        "\\<A.* DENY",
        "[A&&B].* DENY",
        "[[:alpha:]]+ DENY",
        "A.*+ DENY",
    ] {
        let text = format!(".* ALLOW\n{line}\n");
        let refused = Relay::read(&text).err().expect(line).to_string();
        assert!(refused.starts_with("random.pvlist:2: "), "{refused}");
    }
}
