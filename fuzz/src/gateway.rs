//! Targets of the files that a site shares with its gateways: `.pvlist` and access security.

use pvwire_relay::access::rule::{AccessSecurity, Identity, PvList, Rules};
use pvwire_relay::config::Access;

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
