//! A client reads and writes what the operator's rules allow and nothing else, and learns the rule
//! that decided.
//!
//! Topology: one relay with a file of rules, one client, a soft IOC; or the command `check` alone.

use std::path::Path;

use pvwire_schema::types::{Filter, NameProblem, Outcome};

use testbed::{Client, Network, Relay, SoftIoc, file, prefix, relay_command};

const RECORDS: &str = r#"
    record(ao, "$(P)set") { field(VAL, "1") }
    record(ao, "$(P)locked") { field(VAL, "1") }
    record(ao, "$(P)secret") { field(VAL, "1") field(DESC, "hidden") }
"#;

#[test]
fn put_that_no_rule_allows_never_reaches_the_ioc() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set", "locked", "secret"]);
    let [set, locked, secret] = names.each_ref().map(String::as_str);
    let rules = file(
        "puts.toml",
        &format!(
            r#"
            enable_put = true
            [[rule]]
            pv = "{locked}"
            deny = "put"
            [[rule]]
            user = "jane"
            pv = "*"
            allow = "put"
            [[rule]]
            pv_regex = ".*:(set|locked)(\\.VAL)?"
            allow = "put"
            "#
        ),
    );
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    let mut client = Client::connect(relay.address());
    client.subscribe_live(&names);
    assert!(client.pv(set).connection.unwrap().puts);
    assert!(!client.pv(locked).connection.unwrap().puts);
    assert!(client.pv(secret).connection.unwrap().puts, "by jane");

    let denied = "rule 1";
    for (name, rule) in [
        (locked.to_owned(), denied),
        (format!("ca://{locked}"), denied),
        (format!("pva://{locked}"), denied),
        (format!("{locked}.VAL"), denied),
        (format!("{locked}.DISP"), denied),
        (
            format!("{locked}.VAL{{\"ts\":{{}}/*:set*/}}"),
            "no channel filter",
        ),
        (format!("{set}.VAL{{\"ts\":{{}}}}"), "no channel filter"),
        (secret.to_owned(), "no rule of this relay allows it"),
        (format!("{set}.DISP"), "no rule of this relay allows it"),
    ] {
        let (outcome, message) = client.put_number(&name, 7.0);
        assert_eq!(outcome, Outcome::NotAllowed, "{name}: {message}");
        assert!(message.contains(rule), "{name}: {message}");
        assert!(
            message.starts_with("an anonymous client may not put"),
            "{message}"
        );
    }
    // Nothing was even searched for that.
    assert_eq!(relay.metric("pvwire_monitors_active"), 3.0);

    assert_eq!(client.put_number(set, 2.0).0, Outcome::Done);
    client.wait_number(set, 2.0);
    assert!(client.pv(locked).is_number(1.0));
    let refused: Vec<_> = (client.pv(locked).rows.iter())
        .map(|row| row.value.clone())
        .collect();
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(client.pv(secret).is_number(1.0));
}

#[test]
fn pv_that_a_client_may_not_read_is_never_searched_for() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set", "secret"]);
    let [set, secret] = names.each_ref().map(String::as_str);
    let rules = file(
        "reads.toml",
        &format!(
            "[[rule]]\nuser = 'jane'\npv = '*'\nallow = 'read'\n[[rule]]\npv = '{secret}'\ndeny = 'read'"
        ),
    );
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    let mut client = Client::connect(relay.address());

    let hidden = [
        secret.to_owned(),
        format!("{secret}.DESC"),
        format!("{secret}.VAL"),
        format!("pva://{secret}"),
    ];
    let errors = client.subscribe(&hidden);
    assert_eq!(errors.len(), hidden.len());
    for error in &errors {
        assert_eq!(error.problem, NameProblem::NotAllowed);
        assert!(error.message.contains("rule 2"), "{}", error.message);
    }
    let filter = Filter {
        every: 2,
        ..Filter::default()
    };
    assert_eq!(client.subscribe_with(&hidden[..1], filter).len(), 1);
    let (pvs, errors) = client.get(&[secret, set], 0);
    assert!(pvs[0].is_none());
    assert_eq!(errors[0].problem, NameProblem::NotAllowed);
    assert!(pvs[1].as_ref().unwrap().is_number(1.0));
    assert_eq!(relay.metric("pvwire_monitors_active"), 1.0);
}

#[test]
fn check_says_what_would_happen_and_which_rule_says_so() {
    let rules = file(
        "check.toml",
        r#"
        enable_put = true
        allow_put = ["*:DEMO"]
        [[rule]]
        group = "operators"
        pv = "SR:*"
        allow = ["put"]
        [[rule]]
        pv = "SR:SECRET"
        deny = ["read"]
        "#,
    );
    let check = |arguments: &[&str]| {
        let mut command = relay_command(Network::new());
        let output = command
            .args(["check", "--config", rules.to_str().unwrap()])
            .args(arguments)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let code = i32::from(text.contains(" may not "));
        assert_eq!(
            output.status.code(),
            Some(code),
            "{text}{:?}",
            output.stderr
        );
        text
    };
    let path = rules.display();
    assert_eq!(
        check(&[
            "--user",
            "jane",
            "--group",
            "operators",
            "--pv",
            "SR:SECRET"
        ]),
        format!(
            "user \"jane\" may not read ca://SR:SECRET: {path}: rule 2 (pv SR:SECRET, deny read)\n\
             user \"jane\" may put ca://SR:SECRET: {path}: rule 1 (group operators, pv SR:*, allow put)\n"
        )
    );
    assert_eq!(
        check(&["--pv", "pva://X", "--pv=X:DEMO"]),
        "an anonymous client may read pva://X: no rule fits, so reading is allowed\n\
         an anonymous client may not put pva://X: no rule of this relay allows it (allow_put or [[rule]])\n\
         an anonymous client may read ca://X:DEMO: no rule fits, so reading is allowed\n\
         an anonymous client may put ca://X:DEMO: allow_put (pv *:DEMO, allow put)\n"
    );
}

#[test]
fn check_fails_when_what_it_was_asked_for_is_denied() {
    let rules = file("denied.toml", "[[rule]]\npv = 'SECRET'\ndeny = 'read'\n");
    let check = |arguments: &[&str]| {
        let mut command = relay_command(Network::new());
        let output = command
            .args(["check", "--config", rules.to_str().unwrap()])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        (output.status.code(), said.lines().count(), said)
    };
    let (code, lines, _) = check(&["--pv=X", "--access=read"]);
    assert_eq!((code, lines), (Some(0), 1));
    let (code, lines, said) = check(&["--pv=X"]);
    assert_eq!((code, lines), (Some(1), 2));
    assert!(said.contains("enable_put is off"), "{said}");
    let (code, lines, _) = check(&["--pv=X", "--pv=SECRET", "--access=read"]);
    assert_eq!((code, lines), (Some(1), 2));
    let (code, ..) = check(&["--pv=X", "--access=write"]);
    assert_eq!(code, Some(64));
}

#[test]
fn relay_does_not_start_with_a_rule_that_makes_no_sense() {
    let name = format!("{}.toml", prefix().replace(':', ""));
    for (rule, part) in [
        ("pv_regex = '('\nallow = 'put'", "pv_regex"),
        ("pv = 'X'\nallow = 'everything'", "read, put or both"),
        ("user = 'jane'\nallow = 'put'", "pv or pv_regex"),
        ("pv = 'X'\nallow = ['read', 'put']", "without enable_put"),
    ] {
        let rules = file(&name, &format!("[[rule]]\n{rule}"));
        let mut command = relay_command(Network::new());
        let output = command
            .args(["--listen=127.0.0.1:0", "--config", rules.to_str().unwrap()])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("rule 1") && said.contains(part), "{said}");
    }
}

const PVLIST: &str = "\
    EVALUATION ORDER ALLOW, DENY\n\
    .*         ALLOW\n\
    .*:set     ALLOW Set\n\
    .*:secret  DENY\n";

const ACF: &str = "\
    UAG(operators) { jane, role/operators }\n\
    ASG(DEFAULT) { RULE(1, READ) }\n\
    ASG(Set) {\n\
      RULE(1, READ)\n\
      RULE(1, WRITE) { UAG(operators) }\n\
    }\n";

#[test]
fn check_says_which_line_of_a_gateways_files_decides() {
    let pvlist = file("check.pvlist", PVLIST);
    let acf = file("check.acf", ACF);
    let check = |arguments: &[&str]| {
        let mut command = relay_command(Network::new());
        let output = command
            .args(["check", "--enable-put"])
            .arg(format!("--pvlist={}", pvlist.display()))
            .arg(format!("--access-security={}", acf.display()))
            .args(arguments)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let (list, acf) = (pvlist.display(), acf.display());
    let by = format!("in which {list}:3 (.*:set ALLOW Set) puts it");
    assert_eq!(
        check(&["--user", "jane", "--pv", "SR:set"]),
        format!(
            "user \"jane\" may read ca://SR:set: {acf}:4 (RULE(1, READ) of ASG(Set)), {by}\n\
             user \"jane\" may put ca://SR:set: {acf}:5 (RULE(1, WRITE) for UAG(operators) of ASG(Set)), {by}\n"
        )
    );
    let joe = check(&[
        "--user",
        "joe",
        "--pv",
        "pva://SR:set",
        "--pv",
        "SR:secret.DESC",
    ]);
    let no = "no RULE of ASG(Set) gives WRITE to user \"joe\" at level 1";
    assert!(
        joe.contains(&format!("may not put pva://SR:set: {acf}:3: {no}, {by}")),
        "{joe}"
    );
    let denied = format!("may not read ca://SR:secret.DESC: {list}:4 (.*:secret DENY)");
    assert!(joe.contains(&denied), "{joe}");
    let operator = check(&["--user", "joe", "--group", "operators", "--pv", "SR:set"]);
    assert!(operator.contains("may put"), "{operator}");
}

#[test]
fn what_a_gateways_files_deny_never_reaches_the_ioc() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let names = ioc.names(["set", "locked", "secret"]);
    let [set, locked, secret] = names.each_ref().map(String::as_str);
    let pvlist = file("gateway.pvlist", PVLIST);
    let acf = file(
        "gateway.acf",
        "ASG(DEFAULT) { RULE(1, READ) }\nASG(Set) { RULE(1, WRITE) }\n",
    );
    let relay = Relay::start(
        network,
        &[
            "--enable-put",
            &format!("--pvlist={}", pvlist.display()),
            &format!("--access-security={}", acf.display()),
        ],
    );
    let mut client = Client::connect(relay.address());

    let errors = client.subscribe(&[secret, &format!("pva://{secret}/value")]);
    assert_eq!(errors.len(), 2);
    for error in &errors {
        assert_eq!(error.problem, NameProblem::NotAllowed);
        assert!(
            error.message.contains("gateway.pvlist:4"),
            "{}",
            error.message
        );
    }
    assert!(client.subscribe(&[set, locked]).is_empty());
    client.wait_number(set, 1.0);
    client.wait_number(locked, 1.0);
    assert!(client.pv(set).connection.unwrap().puts);
    assert!(!client.pv(locked).connection.unwrap().puts);
    for (name, line) in [(locked, "gateway.acf:1"), (secret, "gateway.pvlist:4")] {
        let (outcome, message) = client.put_number(name, 7.0);
        assert_eq!(outcome, Outcome::NotAllowed, "{name}: {message}");
        assert!(message.contains(line), "{name}: {message}");
    }
    assert_eq!(relay.metric("pvwire_monitors_active"), 2.0);
    assert_eq!(client.put_number(set, 2.0).0, Outcome::Done);
    client.wait_number(set, 2.0);
}

#[test]
fn relay_refuses_gateway_files_that_it_does_not_support() {
    let refused = |arguments: &[String]| {
        let mut command = relay_command(Network::new());
        let output = command
            .args(["--listen=127.0.0.1:0"])
            .args(arguments)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(64), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let name = |end: &str| format!("{}.{end}", prefix().replace(':', ""));
    let pvlist = |text: &[u8]| {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name("pvlist"));
        std::fs::write(&path, text).unwrap();
        format!("--pvlist={}", path.display())
    };
    let acf = |text: &str| format!("--access-security={}", file(&name("acf"), text).display());
    for (arguments, part) in [
        (
            vec![pvlist(b".* ALLOW\n.* DENY FROM gateway1\n")],
            "pvlist:2: DENY FROM names hosts",
        ),
        (
            vec![pvlist(b"A(.*) ALIAS B\\1\n")],
            "pvlist:1: ALIAS: the relay can't rename PVs",
        ),
        (
            vec![pvlist(b"A ALLOW\n\xff ALLOW\n")],
            "pvlist: line 2 is not UTF-8",
        ),
        (
            vec![pvlist(&b"A ALLOW\n".repeat(140_000))],
            "longer than 1048576 bytes",
        ),
        (
            vec!["--pvlist=/nowhere/x".into()],
            "/nowhere/x: No such file",
        ),
        (
            vec![acf(
                "HAG(h) { x }\nASG(DEFAULT) {\nRULE(1, WRITE) { HAG(h) } }",
            )],
            "acf:3: HAG(h): the relay doesn't know its users' hosts",
        ),
        (
            vec![pvlist(b".* ALLOW Beam"), acf("ASG(DEFAULT)")],
            "there is no ASG(Beam), but ",
        ),
        (
            vec![acf("ASG(DEFAULT)"), "--allow-put=X".into()],
            "allow_put is \"X\", expected no value together with access_security",
        ),
    ] {
        let said = refused(&arguments);
        assert!(said.contains(part), "{said}");
        assert_eq!(
            said.lines()
                .filter(|line| line.contains("pvwire-relay: "))
                .count(),
            1,
            "{said}"
        );
    }
}
