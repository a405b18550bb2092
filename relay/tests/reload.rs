//! What happens to clients and their puts when the operator changes the rules.
//!
//! Topology: a relay with a file of rules, or with a site's gateway files, that changes while it
//! runs; a soft IOC and two clients.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pvwire_schema::close::CloseCode;
use pvwire_schema::types::{
    Filter, NameProblem, Outcome, PutRequest, PutValue, Reply, RequestBody,
};

use testbed::{Client, Network, Relay, SoftIoc, eventually, get, prefix, python};

const RECORDS: &str = r#"
    record(ao, "$(P)set") { field(VAL, "1") }
    record(ao, "$(P)secret") { field(VAL, "1") }
"#;

fn file(ioc: &SoftIoc, end: &str, text: &str) -> PathBuf {
    let name = format!("{}.reload.{end}", ioc.prefix().trim_end_matches(':'));
    testbed::file(&name, text)
}

/// A regular file that can't be opened until this is dropped, at most for 45 s: another process
/// holds a lease on it, as fcntl(2) describes under F_SETLEASE.
pub(crate) struct HeldFile(Child);

impl HeldFile {
    pub(crate) fn new(path: &Path) -> Self {
        let script = "import fcntl, os, signal, sys\n\
            signal.signal(signal.SIGIO, signal.SIG_IGN)\n\
            held = os.open(sys.argv[1], os.O_RDWR)\n\
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)\n\
            print('held', flush=True)\n\
            sys.stdin.read()\n";
        let mut holder = Command::new(python())
            .args(["-c", script])
            .arg(path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(holder.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(holder)
    }
}

impl Drop for HeldFile {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until changed files have taken effect this number of times.
fn wait_changes(relay: &Relay, count: f64) {
    relay.wait_metric("pvwire_rules_changed_total", count);
}

#[test]
fn client_that_may_no_longer_read_a_pv_loses_it_and_learns_why() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set", "secret"]);
    let [set, secret] = names.each_ref().map(String::as_str);
    let open = "[[rule]]\npv = '*'\nallow = 'read'\n";
    let rules = file(&ioc, "toml", open);
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    let mut holder = Client::connect(relay.address());
    holder.subscribe_live(&names);
    let mut filtering = Client::connect(relay.address());
    let filter = Filter {
        every: 2,
        ..Filter::default()
    };
    assert_eq!(filtering.subscribe_with(&[secret], filter), []);
    let mut other = Client::connect(relay.address());
    other.subscribe_live(&[set]);

    let closed = format!("[[rule]]\npv = '{secret}'\ndeny = 'read'\n{open}");
    std::fs::write(&rules, &closed).unwrap();
    for client in [&mut holder, &mut filtering] {
        assert_eq!(client.wait_closed(), CloseCode::RightsChanged.number());
    }
    let mut again = Client::connect(relay.address());
    let errors = again.subscribe(&names);
    assert_eq!(errors.len(), 1);
    assert_eq!(errors[0].problem, NameProblem::NotAllowed);
    assert!(
        errors[0].message.contains("rule 1"),
        "{}",
        errors[0].message
    );
    again.wait_number(set, 1.0);
    other.ask(RequestBody::Ping { client_time_ns: 1 });
    assert!(
        other.closed.is_none(),
        "it holds nothing that it may not read"
    );

    std::fs::write(&rules, open).unwrap();
    wait_changes(&relay, 2.0);
    assert_eq!(again.subscribe(&[secret]), []);
    again.wait_number(secret, 1.0);
}

#[test]
fn puts_obey_the_new_rules_and_pages_see_whether_they_are_taken() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set"]);
    let set = names[0].as_str();
    let rules = file(&ioc, "toml", "allow_put = ['*']\n");
    let flags = ["--enable-put", "--config", rules.to_str().unwrap()];
    let relay = Relay::start(network, &flags);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    assert!(client.pv(set).connection.unwrap().puts);
    assert_eq!(client.put_number(set, 2.0).0, Outcome::Done);

    // The file can't change whether puts are permitted at all while the relay runs.
    let none = "allow_put = []\nenable_put = false\n";
    std::fs::write(&rules, none).unwrap();
    client.wait_pv(set, "it takes no puts", |pv| !pv.connection.unwrap().puts);
    let (outcome, message) = client.put_number(set, 3.0);
    assert_eq!(outcome, Outcome::NotAllowed, "{message}");

    std::fs::write(&rules, "allow_put = ['*']\nlinger_ms = 7\n").unwrap();
    client.wait_pv(set, "it takes puts again", |pv| pv.connection.unwrap().puts);
    assert_eq!(client.put_number(set, 4.0).0, Outcome::Done);
    client.wait_number(set, 4.0);
    let later = "changed, but takes effect only at the next start: linger_ms";
    relay.says(later);
    assert!(client.closed.is_none());
}

#[test]
fn file_with_an_error_changes_nothing_and_is_reported() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set", "secret"]);
    let [set, secret] = names.each_ref().map(String::as_str);
    let pvlist = file(&ioc, "pvlist", ".* ALLOW\n");
    let acf = file(
        &ioc,
        "acf",
        "ASG(DEFAULT) { RULE(1, READ) RULE(1, WRITE) }\n",
    );
    let flags = [
        "--enable-put".to_owned(),
        format!("--pvlist={}", pvlist.display()),
        format!("--access-security={}", acf.display()),
    ];
    let relay = Relay::start(network, &flags.each_ref().map(String::as_str));
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    assert_eq!(client.put_number(set, 2.0).0, Outcome::Done);

    std::fs::write(&acf, "ASG(DEFAULT) { RULE(1, READ)\n").unwrap();
    eventually("it is complained of", || {
        relay.metric("pvwire_rules_stale") == 1.0
    });
    let stays = "the previous rules stay in effect";
    eventually("the log says which file", || {
        let output = relay.output();
        let mut lines = output.lines();
        lines.any(|line| line.contains(stays) && line.contains("reload.acf:"))
    });
    assert_eq!(client.put_number(set, 3.0).0, Outcome::Done);
    assert!(client.closed.is_none());

    std::fs::write(&acf, "ASG(DEFAULT) { RULE(1, READ) }\n").unwrap();
    wait_changes(&relay, 1.0);
    relay.wait_metric("pvwire_rules_stale", 0.0);
    assert_eq!(client.put_number(set, 4.0).0, Outcome::NotAllowed);
    assert!(client.closed.is_none(), "it may read as before");

    let denies = format!(".* ALLOW\n{secret} DENY\n");
    std::fs::write(&pvlist, denies).unwrap();
    assert_eq!(client.wait_closed(), CloseCode::RightsChanged.number());
}

#[test]
fn signal_has_the_rules_read_at_once_and_does_not_end_the_relay() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let rules = file(&ioc, "toml", "allow_put = []\n");
    let flags = ["--enable-put", "--config", rules.to_str().unwrap()];
    let mut relay = Relay::start(network, &flags);
    relay.signal("HUP");
    wait_changes(&relay, 1.0);
    assert!(relay.runs());
    Client::connect(relay.address()).subscribe_live(&[ioc.name("set")]);
}

#[test]
fn waiting_put_is_not_sent_after_its_right_was_taken_away() {
    let network = Network::new();
    let prefix = prefix();
    let names = ["set", "secret"].map(|record| format!("{prefix}{record}"));
    let [set, secret] = names.each_ref().map(String::as_str);
    let rules = testbed::file(
        &format!("{}.waits.toml", prefix.trim_end_matches(':')),
        "allow_put = ['*']\n",
    );
    let audit = rules.with_extension("audit.jsonl");
    let flags = ["--enable-put", "--config", rules.to_str().unwrap()];
    let audited = format!("--audit-file={}", audit.display());
    let relays = [
        Relay::start(network, &flags),
        Relay::start(network, &[&flags[..], &[&audited]].concat()),
    ];
    let mut clients = relays
        .each_ref()
        .map(|relay| Client::connect(relay.address()));
    let mut waiting = Vec::new();
    for client in &mut clients {
        // No PV has these names yet, so both puts wait.
        waiting.push([set, secret].map(|name| {
            client.request(RequestBody::Put(PutRequest {
                name: name.to_owned(),
                value: PutValue::Number(7.0),
                wait: false,
                timeout_ms: 3_600_000,
                expected: None,
            }))
        }));
        client.ask(RequestBody::Ping { client_time_ns: 1 });
    }
    std::fs::write(&rules, format!("allow_put = ['{set}']\n")).unwrap();
    for (client, [_, denied]) in clients.iter_mut().zip(&waiting) {
        match client.wait_answer(*denied).0 {
            Reply::PutDone { outcome, message } => {
                assert_eq!(outcome, Outcome::NotAllowed, "{message}");
                assert!(message.starts_with("nothing was written"), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
    let _ioc = SoftIoc::with_prefix(network, &prefix, RECORDS, "");
    for (client, [allowed, _]) in clients.iter_mut().zip(&waiting) {
        let (reply, _) = client.wait_answer(*allowed);
        let done = matches!(
            reply,
            Reply::PutDone {
                outcome: Outcome::Done,
                ..
            }
        );
        assert!(done, "{reply:?}");
        client.subscribe_live(&names);
        client.wait_number(set, 7.0);
        assert!(client.pv(secret).is_number(1.0));
    }
}

#[test]
fn emptied_or_cut_configuration_changes_nothing() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set", "secret"]);
    let [set, secret] = names.each_ref().map(String::as_str);
    let rule = format!("[[rule]]\npv = '{secret}'\ndeny = 'read'\n");
    let pvlist = file(&ioc, "cut.pvlist", &format!(".* ALLOW\n{secret} DENY\n"));
    let acf = file(&ioc, "cut.acf", "ASG(DEFAULT) { RULE(1, READ) }\n");
    let pvlist = format!("pvlist = '{}'\n", pvlist.display());
    let acf = format!("access_security = '{}'\n", acf.display());
    let acf_denies = format!("{pvlist}{acf}{rule}");
    for (whole, cut, lost) in [
        (rule.clone(), "# x\n".into(), "[[rule]]"),
        (
            format!("linger_ms = 5\n{rule}"),
            "linger_ms = 5\n".into(),
            "[[rule]]",
        ),
        (format!("{pvlist}{rule}"), rule.clone(), "pvlist"),
        (acf_denies, format!("{pvlist}{rule}"), "access_security"),
    ] {
        let config = file(&ioc, "cut.toml", &whole);
        let relay = Relay::start(network, &["--config", config.to_str().unwrap()]);
        let mut client = Client::connect(relay.address());
        client.subscribe_live(&[set]);
        std::fs::write(&config, cut).unwrap();
        eventually("it is complained of", || {
            relay.metric("pvwire_rules_stale") == 1.0
        });
        let said = format!("no longer has {lost}");
        relay.says(&said);
        assert_eq!(
            client.subscribe(&[secret])[0].problem,
            NameProblem::NotAllowed
        );
        // Also on the operator's request: opening read access needs a restart.
        relay.signal("HUP");
        std::fs::write(&config, &whole).unwrap();
        eventually("it is mended", || relay.metric("pvwire_rules_stale") == 0.0);
        assert_eq!(
            client.subscribe(&[secret])[0].problem,
            NameProblem::NotAllowed
        );
        assert!(client.closed.is_none());
    }
}

#[test]
fn rules_whose_disk_hangs_hold_up_no_probe_and_no_client() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set"]);
    let list = |text: &str| file(&ioc, "pvlist", text);
    let path = list("EVALUATION ORDER ALLOW, DENY\n.* ALLOW\n");
    let relay = Relay::start(network, &["--pvlist", path.to_str().unwrap()]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    let held = HeldFile::new(&path);
    eventually("it is told", || relay.metric("pvwire_rules_stale") == 1.0);
    relay.says("no answer from its disk");
    assert_eq!(get(relay.address(), "/live", &[]).status, 200);
    Client::connect(relay.address()).subscribe_live(&names);

    // The disk answers again, and the file was replaced meanwhile.
    std::fs::rename(&path, path.with_extension("hung")).unwrap();
    list("EVALUATION ORDER ALLOW, DENY\n.* DENY\n");
    drop(held);
    assert_eq!(client.wait_closed(), CloseCode::RightsChanged.number());
    relay.wait_metric("pvwire_rules_stale", 0.0);
}

#[test]
fn pipe_in_place_of_a_file_is_refused_and_hangs_nothing() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set", "secret"]);
    let secret = &names[1];
    let pvlist = file(&ioc, "pipe.pvlist", &format!(".* ALLOW\n{secret} DENY\n"));
    let text = format!("pvlist = '{}'\n", pvlist.display());
    let config = file(&ioc, "pipe.toml", &text);
    let relay = Relay::start(network, &["--config", config.to_str().unwrap()]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names[..1]);
    for path in [&pvlist, &config] {
        let (pipe, whole) = (path.with_extension("fifo"), path.with_extension("whole"));
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        std::fs::rename(path, &whole).unwrap();
        std::fs::rename(&pipe, path).unwrap();
        let said = format!("{}: not a regular file", path.display());
        relay.says(&said);
        relay.wait_metric("pvwire_rules_stale", 1.0);
        let refused = client.subscribe(&[secret])[0].problem;
        assert_eq!(refused, NameProblem::NotAllowed);
        std::fs::rename(&whole, path).unwrap();
        eventually("it is mended", || relay.metric("pvwire_rules_stale") == 0.0);
    }
    assert!(!relay.output().contains("no answer from its disk"));
    assert!(client.closed.is_none());
}

#[test]
fn file_cut_at_a_line_end_counts_as_edited() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set", "secret"]);
    let [set, secret] = names.each_ref().map(String::as_str);
    // The remaining file is complete, as an operator could have written it.
    let list = format!(".* ALLOW\n{secret} DENY\n");
    let pvlist = file(&ioc, "edited.pvlist", &list);
    let relay = Relay::start(network, &["--pvlist", pvlist.to_str().unwrap()]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&[set]);
    let refused = client.subscribe(&[secret])[0].problem;
    assert_eq!(refused, NameProblem::NotAllowed);
    std::fs::write(&pvlist, ".* ALLOW\n").unwrap();
    wait_changes(&relay, 1.0);
    client.subscribe_live(&[secret]);
    // A cut within a line is detected.
    std::fs::write(&pvlist, ".* ALLOW").unwrap();
    eventually("it is refused", || {
        relay.metric("pvwire_rules_stale") == 1.0
    });
    relay.says("it may be cut off");
}

#[test]
fn changed_rules_take_effect_within_a_second() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let rules = file(&ioc, "second.toml", "[[rule]]\npv = 'A'\ndeny = 'read'\n");
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    // A busy machine delays some of these; a relay that is slow by itself delays all of them.
    let waits = (1..=4).map(|number| {
        let text = format!("[[rule]]\npv = 'B{number}'\ndeny = 'read'\n");
        let changed = Instant::now();
        std::fs::write(&rules, text).unwrap();
        wait_changes(&relay, f64::from(number));
        changed.elapsed()
    });
    let fastest = waits.min().unwrap();
    assert!(fastest < Duration::from_secs(1), "{fastest:?}");
}
