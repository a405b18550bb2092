//! A file that is damaged while the relay runs changes nothing: the relay refuses it and keeps the
//! last good one.
//!
//! Topology: three relays with TLS, tokens and rules, one for each kind of file with rules;
//! simulated PVs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use pvwire_schema::types::{NameProblem, RequestBody};

use crate::tokens::{Issuer, claims, flags, key_set};
use testbed::{Client, How, Network, Pair, Relay, Trust, eventually, file, prefix};

const OPEN: &str = "sim://counter(rate_hz=50)";
const HIDDEN: &str = "sim://noise(rate_hz=50)";

type Damage = (&'static str, fn(&Path));

/// The ways in which a file can be damaged.
const DAMAGES: [Damage; 6] = [
    ("emptied", |path| fs::write(path, "").unwrap()),
    ("blank", |path| fs::write(path, "\n\n").unwrap()),
    ("cut off", |path| {
        let whole = fs::read(path).unwrap();
        replace(path, &whole[..whole.len() / 2]);
    }),
    ("removed", |path| fs::remove_file(path).unwrap()),
    ("a directory", |path| {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }),
    // Tests may run as root, who can read any file; even root can't read a link to itself.
    ("unreadable", |path| {
        fs::remove_file(path).unwrap();
        symlink(path, path).unwrap();
    }),
];

/// Writes a file at once: the relay never reads a part of it.
fn replace(path: &Path, bytes: &[u8]) {
    let new = path.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(&new, path).unwrap();
}

/// A file in its valid state.
struct Watched {
    path: PathBuf,
    text: Vec<u8>,
}

impl Watched {
    fn new(path: PathBuf) -> Self {
        let text = fs::read(&path).unwrap();
        Self { path, text }
    }

    fn mend(&self) {
        if self.path.is_dir() {
            fs::remove_dir(&self.path).unwrap();
        }
        replace(&self.path, &self.text);
    }
}

/// A relay and its files that are damaged, each with its metric.
struct Place {
    relay: Relay,
    trust: Trust,
    files: [(Watched, &'static str); 3],
    /// Its files are gone when it is.
    _pair: Pair,
    /// A client from before all damage.
    client: Client,
}

impl Place {
    /// `rules` are the names and texts of files with rules, the first of which is damaged; of TLS
    /// the certificate or the key.
    fn new(issuer: &Issuer, rules: &[(&str, &str)], damages_key: bool) -> Self {
        let name = prefix().replace(':', "");
        let file = |end: &str, text: &str| file(&format!("{name}.{end}"), text);
        let (pair, trust) = Pair::new();
        let keys = file("keys.json", &key_set(&[issuer]));
        let rules: Vec<_> = (rules.iter())
            .map(|(flag, text)| (*flag, file(flag, text)))
            .collect();
        let mut flags = flags(keys.to_str().unwrap());
        flags.extend(pair.flags());
        flags.extend(
            rules
                .iter()
                .map(|(flag, path)| format!("--{flag}={}", path.display())),
        );
        let flags: Vec<_> = flags.iter().map(String::as_str).collect();
        let relay = Relay::start(Network::new(), &flags);
        let tls = if damages_key { pair.key() } else { pair.cert() };
        let files = [
            (rules[0].1.clone(), "pvwire_rules_stale"),
            (keys, "pvwire_keys_stale"),
            (tls, "pvwire_tls_stale"),
        ];
        let mut client = log_in(&relay, trust, issuer);
        client.subscribe_live(&[OPEN]);
        Self {
            relay,
            trust,
            files: files.map(|(path, metric)| (Watched::new(path), metric)),
            _pair: pair,
            client,
        }
    }

    fn wait_stale(&self, value: f64, damage: &str) {
        for (file, metric) in &self.files {
            let what = format!("{metric} is {value}: {} is {damage}", file.path.display());
            eventually(&what, || {
                self.relay.metric_by(Some(self.trust), metric) == value
            });
        }
    }

    /// Checks that the former rules, keys and certificate are in effect.
    fn check(&mut self, issuer: &Issuer, damage: &str) {
        self.client.ask(RequestBody::Ping { client_time_ns: 1 });
        assert!(self.client.closed.is_none(), "{damage}");
        let mut client = log_in(&self.relay, self.trust, issuer);
        client.subscribe_live(&[OPEN]);
        let errors = client.subscribe(&[HIDDEN]);
        assert_eq!(errors.len(), 1, "{damage}");
        assert_eq!(errors[0].problem, NameProblem::NotAllowed, "{damage}");
    }
}

fn log_in(relay: &Relay, trust: Trust, issuer: &Issuer) -> Client {
    let trust = Some(trust);
    let how = How {
        trust,
        ..How::default()
    };
    let mut client = Client::connect_as(relay.address(), how);
    assert!(client.log_in(&issuer.token(&claims("jane"))));
    client
}

#[test]
fn damaged_file_changes_nothing_and_is_reported_once() {
    let issuer = Issuer::es256("one");
    let config = "linger_ms = 7\n[[rule]]\npv = '*noise*'\ndeny = ['read']\n";
    let pvlist = ".* ALLOW\nnoise.* DENY\n";
    let groups = "counter.* ALLOW\nnoise.* ALLOW Hidden\n";
    let security = "ASG(DEFAULT) {\n RULE(1, READ)\n}\nASG(Hidden) {\n RULE(1, NONE)\n}\n";
    let mut places = [
        Place::new(&issuer, &[("config", config)], false),
        Place::new(&issuer, &[("pvlist", pvlist)], true),
        Place::new(
            &issuer,
            &[("access-security", security), ("pvlist", groups)],
            false,
        ),
    ];
    for (damage, make) in DAMAGES {
        let files = places.iter().flat_map(|place| &place.files);
        files.for_each(|(file, _)| make(&file.path));
        for place in &mut places {
            place.wait_stale(1.0, damage);
            place.check(&issuer, damage);
        }
        let files = places.iter().flat_map(|place| &place.files);
        files.for_each(|(file, _)| file.mend());
        for place in &mut places {
            place.wait_stale(0.0, "mended");
            place.check(&issuer, "mended");
        }
    }
    for place in &places {
        for (file, metric) in &place.files {
            let path = file.path.to_str().unwrap();
            let is_said = |line: &&str| line.contains(path) && line.contains("; the previous ");
            let said = || place.relay.output().lines().filter(is_said).count();
            eventually("each damage is reported", || said() >= DAMAGES.len());
            let output = place.relay.output();
            assert_eq!(said(), DAMAGES.len(), "{metric} {path}:\n{output}");
        }
    }
}
