//! Names of PVs: no spelling may escape the rules for a PV; and names of simulated PVs with their arguments.

use std::cell::OnceCell;

use pvwire_relay::access::rule::{AccessSecurity, Identity, PvList, Rules};
use pvwire_relay::config::{Access, Config};
use pvwire_relay::ingest::sim;

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

pub(crate) const SIMULATED: &[&str] = &[
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

pub(crate) const SIMULATED_WORDS: &[&str] = &[
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
pub(crate) fn simulated(bytes: &[u8]) {
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
