//! Files of operators: the relay's configuration, its rules of access, and those that a site shares with its gateways,
//! `.pvlist` and access security.

use std::collections::BTreeMap;

use pvwire_relay::access::rule::{AccessSecurity, Identity, PvList, Rules};
use pvwire_relay::config::{Access, Config, Invocation};

pub(crate) const SEEDS: &[&str] = &[
    "listen = \"127.0.0.1:0\"\nallow_origin = [\"https://a.example\", \"http://b.example:8080\"]\n\
     shards = 2\n",
    "enable_put = true\n[[rule]]\nuser = \"a\"\ngroup = [\"g\", \"h\"]\npv = [\"SR:*:SET\", \"*\"]\n\
     allow = \"put\"\ndeny = [\"read\"]\n[[rule]]\npv_regex = \"SR:[A-Z]{1,8}(\\.|:)(\\\\d+|.*)\"\nallow = \
     [\"read\", \"put\"]\n",
    "# comment\nenable_put = true\nallow_put = [\"SR:*:SET\", \"pva://BL7:*\"]\nlinger_ms = 100\n",
    "default_source = \"pva\"\nallow_host = \"pvwire.example.org\"\nshortest_tick_ms = 5\n\
     longest_tick_ms = 50\n\0PVWIRE_MAX_CLIENTS=12\0--evict-after-ms\x001000",
];

pub(crate) const WORDS: &[&str] = &[
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
pub(crate) fn run(bytes: &[u8]) {
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
        Ok(Invocation::Run(config)) => {
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

pub(crate) const PVLIST: &[&str] = &[
    "# all but the secret\nEVALUATION ORDER ALLOW, DENY\n.* ALLOW\nSR:SECRET:.* DENY\n",
    "SR:[A-Z]+:SET  ALLOW Set 1 # set points\nSR:(A|B)\\.DRV[HL] ALLOW Set 0\nS.* allow\n",
    "EVALUATION ORDER ALLOW, DENY\nSR:.{1,8} ALLOW\n\\w+ DENY\nS PATTERN Set\n",
];

pub(crate) const PVLIST_WORDS: &[&str] = &[
    " ALLOW",
    " DENY",
    " DENY FROM host",
    " ALIAS X",
    "EVALUATION ORDER ",
    "ALLOW, DENY",
    "DENY, ALLOW",
    " Set",
    " DEFAULT",
    " 0",
    " 1",
    "\n",
    "#",
    ".*",
    "SR:",
    "(",
    ")",
    "[",
    "]",
    "{1,8}",
    "|",
    "\\",
    "\\w",
    "!",
    "^",
    "$",
];

/// A gateway's list of PVs: it says something of every PV, and in one line what is wrong with it.
pub(crate) fn pvlist(bytes: &[u8]) {
    match PvList::parse("fuzz.pvlist", &String::from_utf8_lossy(bytes)) {
        Ok(list) => {
            let groups = "ASG(DEFAULT) { RULE(1, WRITE) } ASG(Set) { RULE(0, WRITE) }";
            let security = AccessSecurity::parse("fuzz.acf", groups).ok();
            check_gateway(Some(list.clone()), None);
            check_gateway(Some(list), security);
        }
        Err(error) => {
            let said = error.to_string();
            assert!(said.starts_with("fuzz.pvlist:") && said.lines().count() == 1);
        }
    }
}

pub(crate) const SECURITY: &[&str] = &[
    "UAG(ops) { anna, \"jane doe\", role/experts }\nASG(DEFAULT) {\n RULE(1, READ)\n RULE(1, \
     WRITE, TRAPWRITE) { UAG(ops) }\n}\nASG(Set) { RULE(0, WRITE) }\n",
    "HAG(control) { cr1, cr2 } # hosts\nUAG(nobody)\nASG(DEFAULT) { INPA(SR:CURRENT) RULE(1, WRITE, \
     NOTRAPWRITE) { HAG(control) CALC(\"A<1\") } }\n",
    "ASG(DEFAULT) { RULE(0, NONE) RULE(1, UNCACHED) RULE(1, PUT) { METHOD(x509) } }\nASG(Locked)",
];

pub(crate) const SECURITY_WORDS: &[&str] = &[
    "UAG",
    "HAG",
    "ASG",
    "RULE",
    "CALC",
    "INPA",
    "(",
    ")",
    "{",
    "}",
    ",",
    "\"",
    "#",
    "\n",
    "0",
    "1",
    "NONE",
    "READ",
    "WRITE",
    "TRAPWRITE",
    "(DEFAULT)",
    "ops",
    "role/",
];

/// An access security file, as well.
pub(crate) fn security(bytes: &[u8]) {
    match AccessSecurity::parse("fuzz.acf", &String::from_utf8_lossy(bytes)) {
        Ok(security) => check_gateway(None, Some(security)),
        Err(error) => {
            let said = error.to_string();
            let is_one = said.starts_with("fuzz.acf:") && said.lines().count() == 1;
            assert!(is_one, "{said:?}");
        }
    }
}

/// Valid files decide about every PV, or are refused in one line.
fn check_gateway(pvlist: Option<PvList>, security: Option<AccessSecurity>) {
    let rules = Rules::new(true, &[]).and_then(|rules| rules.with_gateway(pvlist, security));
    let rules = match rules {
        Ok(rules) => rules,
        Err(said) => {
            assert!(!said.to_string().is_empty());
            return;
        }
    };
    let identity = Identity {
        user: Some("anna".into()),
        groups: vec!["experts".into()],
    };
    for name in ["SR:A:SET", "SR:A.DRVH", "SR:SECRET:X/value", "", "é"] {
        for who in [&identity, &Identity::default()] {
            let put = rules.decide(who, "ca", name, Access::Put);
            assert!(!put.because.is_empty());
            // A client that may write is told so beforehand, and may read.
            assert!(!put.allowed || rules.takes_puts("ca", name));
            assert!(!put.allowed || rules.decide(who, "ca", name, Access::Read).allowed);
            let _ = rules.decide(who, "pva", name, Access::Read);
        }
    }
}
