//! Target `names`: no spelling of a PV's name may escape the rules for that PV.

use std::cell::OnceCell;

use pvwire_relay::access::rule::{AccessSecurity, Identity, PvList, Rules};
use pvwire_relay::config::{Access, Config};

pub(crate) const SEEDS: &[&str] = &[
    "SR:SET",
    "SR:SET.VAL",
    "SR:SET.DRVH",
    "SR:SECRET.DESC$",
    "SR:SECRET.VAL{\"ts\":{}/*:SET*/}",
    "SR:SECRET[0:9]",
    "SR:SECRET/value/a",
    "SR:SECRET.VAL[0:-1]/alarm",
    "SR:LOCKED.VAL{\"arr\":{\"s\":2}}",
];

pub(crate) const WORDS: &[&str] = &[
    "SR:",
    "SECRET",
    "LOCKED",
    "SET",
    ".",
    ".VAL",
    ".DESC",
    "$",
    "{",
    "}",
    "[",
    "]",
    "0:9",
    "\"ts\":{}",
    "/*",
    "*/",
    "/",
    "//",
    "://",
    "ca://",
    "pva://",
    ":",
    "*",
    "?",
    " ",
    "\t",
    "\n",
    "\0",
    "é",
    "\u{301}",
];

thread_local! {
    static RULES: OnceCell<[Rules; 2]> = const { OnceCell::new() };
}

/// Rules that deny a record and let others be written, as tables and as a site's files.
fn rules() -> [Rules; 2] {
    let file = "enable_put = true\nallow_put = ['*:SET*']\n[[rule]]\npv = 'SR:SECRET'\ndeny = ['read', \
                'put']\n[[rule]]\npv = 'SR:LOCKED'\ndeny = 'put'\n";
    let arguments = ["pvwire-relay", "--config", "names.toml"].map(str::to_owned);
    let asked = Config::read(&arguments, &Default::default(), |_| Ok(file.to_owned()));
    let Ok(pvwire_relay::config::Invocation::Run(config)) = asked else {
        panic!("the rules are good: {asked:?}");
    };
    let tables = Rules::new(true, &config.all_rules());
    let list = PvList::parse(
        "names.pvlist",
        ".* ALLOW\nSR:SECRET DENY\nSR:LOCKED ALLOW Locked\n",
    );
    let security = AccessSecurity::parse(
        "names.acf",
        "ASG(DEFAULT) { RULE(1, WRITE) }\nASG(Locked) { RULE(1, READ) }\n",
    );
    let files =
        Rules::new(true, &[]).and_then(|rules| rules.with_gateway(Some(list?), Some(security?)));
    [tables, files].map(|rules| rules.unwrap_or_else(|why| panic!("the rules are good: {why}")))
}

/// The record that an IOC finds for a name: what stands before the first dot, range or filter.
fn record(name: &str) -> &str {
    name.split(['.', '/', '{', '[']).next().unwrap_or(name)
}

pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let (scheme, name) = text.split_once("://").unwrap_or(("ca", &text));
    let identity = Identity {
        user: Some("anna".into()),
        groups: Vec::new(),
    };
    RULES.with(|kept| {
        let [tables, files] = kept.get_or_init(rules);
        for scheme in [scheme, "ca", "pva"] {
            for rules in [tables, files] {
                let may = |access| rules.decide(&identity, scheme, name, access);
                let (read, put) = (may(Access::Read), may(Access::Put));
                assert!(!read.because.is_empty() && !put.because.is_empty());
                assert!(!put.allowed || rules.takes_puts(scheme, name));
                let is_channel = scheme == "ca" || !name.contains('/');
                if is_channel && record(name) == "SR:SECRET" && is_field(name, "SR:SECRET") {
                    assert!(!read.allowed, "{scheme} {name:?} is read: {}", read.because);
                    assert!(
                        !put.allowed,
                        "{scheme} {name:?} is written: {}",
                        put.because
                    );
                }
            }
            let locked = tables.decide(&identity, scheme, name, Access::Put);
            if is_field(name, "SR:LOCKED") {
                assert!(
                    !locked.allowed,
                    "{scheme} {name:?} is written: {}",
                    locked.because
                );
            }
            // A filter or a range behind the field is never written.
            let plain = name.contains('.') && (name.contains('{') || name.contains('['));
            if plain && is_field(name, record(name)) {
                assert!(
                    !files.decide(&identity, "ca", name, Access::Put).allowed,
                    "{name:?}"
                );
            }
        }
    });
}

/// Whether a name is this record, or one of its fields with or without something behind it, to an
/// IOC.
fn is_field(name: &str, record: &str) -> bool {
    let Some(rest) = name.strip_prefix(record) else {
        return false;
    };
    let Some(field) = rest.strip_prefix('.') else {
        return rest.is_empty();
    };
    let rest = field.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let rest = rest.strip_prefix('$').unwrap_or(rest);
    rest.is_empty() || rest.starts_with(['[', '{'])
}
