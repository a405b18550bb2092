//! A configuration is read from flags, environment and file; errors name their place.

use super::*;

fn read(
    flags: &[&str],
    environment: &[(&str, &str)],
    file: Option<&str>,
) -> Result<Config, ConfigError> {
    let mut arguments = vec!["pvwire-relay".to_owned()];
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    if file.is_some() {
        arguments.extend(["--config".to_owned(), "pvwire.toml".to_owned()]);
    }
    let variables = environment.iter();
    let variables = variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let environment: BTreeMap<_, _> = variables.collect();
    let content = |_: &str| {
        file.map(str::to_owned)
            .ok_or_else(|| io::Error::other("no such file"))
    };
    match Config::read(&arguments, &environment, content)? {
        Invocation::Run(config) => Ok(*config),
        _ => panic!("{arguments:?} don't start the relay"),
    }
}

#[test]
fn variables_of_pvws_set_its_keys_unless_the_relays_own_do() {
    let environment = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    let of_pvws = [
        ("PV_DEFAULT_TYPE", "pva"),
        ("PV_WRITE_SUPPORT", "false"),
        ("PV_THROTTLE_MS", "1000"),
        ("PV_ARRAY_THROTTLE_MS", "10000"),
        ("PVWIRE_PVWS_THROTTLE_MS", "20"),
    ];
    let read = |environment| {
        let arguments = ["pvwire-relay".to_owned(), "--pvws".to_owned()];
        match Config::read(&arguments, &environment, |_| unreachable!()) {
            Ok(Invocation::Run(config)) => Ok(*config),
            Ok(other) => panic!("{other:?}"),
            Err(error) => Err(error.to_string()),
        }
    };
    let config = read(environment(&of_pvws)).unwrap();
    assert_eq!(config.pvws_default_type, "pva");
    assert!(config.pvws && !config.pvws_write);
    assert_eq!(config.pvws_throttle.as_millis(), 20);
    assert_eq!(config.pvws_array_throttle.as_millis(), 10_000);
    let wrong = read(environment(&[("PV_THROTTLE_MS", "soon")])).unwrap_err();
    assert!(
        wrong.contains("environment variable PV_THROTTLE_MS"),
        "{wrong}"
    );
    let keys = [
        ("PVWIRE_AUTH", "jwt"),
        ("PVWIRE_JWT_KEYS", "keys.json"),
        ("PVWIRE_JWT_AUDIENCE", "pvwire"),
    ];
    let with_tokens = read(environment(&keys)).unwrap();
    assert!(with_tokens.pvws, "clients without a token are anonymous");
}

#[test]
fn flag_wins_over_environment_over_file_over_default() {
    let file = "linger_ms = 1\nget_timeout_ms = 2\nmax_clients = 3\n";
    let environment = [
        ("PVWIRE_GET_TIMEOUT_MS", "20"),
        ("PVWIRE_MAX_CLIENTS", "30"),
    ];
    let config = read(&["--max-clients", "300"], &environment, Some(file)).unwrap();
    assert_eq!(config.linger, Duration::from_millis(1));
    assert_eq!(config.get_timeout, Duration::from_millis(20));
    assert_eq!(config.max_clients, 300);
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
}

#[test]
fn lists_come_from_repeated_flags_words_and_arrays() {
    let flags = [
        "--allow-origin",
        "http://a",
        "--allow-origin",
        "http://b:81",
    ];
    assert_eq!(
        read(&flags, &[], None).unwrap().allow_origin,
        ["http://a", "http://b:81"]
    );
    let environment = [("PVWIRE_ALLOW_ORIGIN", "http://a http://b:81")];
    assert_eq!(read(&[], &environment, None).unwrap().allow_origin.len(), 2);
    let file = "allow_origin = [\"http://a\"]";
    assert_eq!(
        read(&[], &[], Some(file)).unwrap().allow_origin,
        ["http://a"]
    );
}

#[test]
fn errors_name_place_key_value_and_what_was_expected() {
    for (flags, environment, file, message) in [
        (
            vec!["--listen", "here"],
            vec![],
            None,
            "flag --listen: listen is \"here\", expected an IP address and a port, as 127.0.0.1:8080",
        ),
        (
            vec![],
            vec![("PVWIRE_SHARDS", "0")],
            None,
            "environment variable PVWIRE_SHARDS: shards is \"0\", expected a whole number from 1 to 256",
        ),
        (
            vec![],
            vec![],
            Some("linger_ms = \"soon\""),
            "pvwire.toml:1: linger_ms is \"soon\", expected milliseconds from 0 to 86400000",
        ),
        (
            vec!["--shortest-tick-ms", "200"],
            vec![],
            None,
            "configuration: shortest_tick_ms is \"200\", expected at most longest_tick_ms (100)",
        ),
    ] {
        assert_eq!(
            read(&flags, &environment, file).unwrap_err().to_string(),
            message
        );
    }
    let unknown = read(&[], &[], Some("colour = 1")).unwrap_err().to_string();
    assert!(unknown.starts_with("pvwire.toml:1: unknown key \"colour\", expected one of: listen"));
    assert!(
        read(&["--listn", "x"], &[], None)
            .unwrap_err()
            .to_string()
            .contains("--listn")
    );
    assert!(
        read(&[], &[("PVWIRE_CONFIG", "x")], None)
            .unwrap_err()
            .to_string()
            .starts_with("x: no such file")
    );
    assert!(
        read(&["--allow-origin", "*.example.org"], &[], None)
            .unwrap_err()
            .to_string()
            .contains("expected an origin")
    );
}

#[test]
fn error_in_the_file_names_its_line() {
    for (file, message) in [
        (
            "# relay\n\nlinger_ms = -1\n",
            "pvwire.toml:3: linger_ms is \"-1\", expected milliseconds",
        ),
        ("max_pvs = 1\nlisten =\n", "pvwire.toml:2: "),
        ("max_pvs = 1\nmax_pvs = 2\n", "pvwire.toml:2: "),
        (
            "\n[[rule]]\npv = 'X'\nallow = 'put'\n\n[[rule]]\npv = 'X'\nallow = 'write'\n",
            "pvwire.toml:8: rule 2: allow is \"write\", expected read, put or both",
        ),
        (
            "[[rule]]\npv = 'X'\n",
            "pvwire.toml:1: rule 1: rule is \"pv X\", expected allow or deny in it",
        ),
    ] {
        let error = read(&[], &[], Some(file)).unwrap_err().to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn unknown_setting_is_refused_and_a_similar_one_is_named() {
    let no_variables: &[(&str, &str)] = &[];
    for (flags, environment, file, message) in [
        (
            &["--listn", "127.0.0.1:1"][..],
            no_variables,
            None,
            "unexpected argument '--listn' found; a similar argument exists: '--listen'",
        ),
        (
            &[],
            &[("PVWIRE_LISTN", "127.0.0.1:1")],
            None,
            "environment variable PVWIRE_LISTN: no such setting; did you mean PVWIRE_LISTEN?",
        ),
        (
            &[],
            &[("PVWIRE_COLOUR", "red")],
            None,
            "environment variable PVWIRE_COLOUR: no such setting; pvwire-relay --help lists all settings",
        ),
        (
            &[],
            no_variables,
            Some("\nlistn = 1"),
            "pvwire.toml:2: unknown key \"listn\"; did you mean \"listen\"?",
        ),
        (
            &[],
            no_variables,
            Some("[[rule]]\nusers = 'jane'\npv = 'X'\nallow = 'put'"),
            "pvwire.toml:2: rule 1: unknown key \"users\"; did you mean \"user\"?",
        ),
        (
            &["check", "--user=jane"],
            no_variables,
            None,
            "the following required arguments were not provided: --pv <P>",
        ),
    ] {
        assert_eq!(
            read(flags, environment, file).unwrap_err().to_string(),
            message
        );
    }
}

#[test]
fn key_of_the_relay_below_a_rule_is_told_where_it_belongs() {
    let file = "[[rule]]\npv = 'X'\nallow = 'put'\n\nenable_put = true\n";
    assert_eq!(
        read(&[], &[], Some(file)).unwrap_err().to_string(),
        "pvwire.toml:5: rule 1: unknown key \"enable_put\"; it is a key of the relay: move it above \
         the first [[rule]]"
    );
}

#[test]
fn text_without_quotes_is_told_how_it_is_written() {
    for (file, message) in [
        (
            "linger_ms = 5\nlisten = 127.0.0.1:8080 # here\nauth = \"jwt\"\n",
            "pvwire.toml:2: a text needs quotes: listen = \"127.0.0.1:8080\"",
        ),
        (
            "listen = [::1]:8080",
            "pvwire.toml:1: a text needs quotes: listen = \"[::1]:8080\"",
        ),
        (
            "default_source = pva\n",
            "pvwire.toml:1: a text needs quotes: default_source = \"pva\"",
        ),
        (
            "trusted_proxy = [10.0.0.0/8, 127.0.0.1]\n",
            "pvwire.toml:1: a text needs quotes: trusted_proxy = [\"10.0.0.0/8\", \"127.0.0.1\"]",
        ),
        (
            "pvlist = /etc/site.pvlist\n",
            "pvwire.toml:1: a text needs quotes: pvlist = \"/etc/site.pvlist\"",
        ),
        (
            "[[rule]]\npv = SR:*\n",
            "pvwire.toml:2: a text needs quotes: pv = \"SR:*\"",
        ),
        (
            "[[rule]]\npv_regex = SR:\\d+\n",
            "pvwire.toml:2: a text needs quotes: pv_regex = 'SR:\\d+'",
        ),
        (
            "enable_put = yes\n",
            "pvwire.toml:1: enable_put is \"yes\", expected true or false",
        ),
        (
            "linger_ms = 5s\n",
            "pvwire.toml:1: linger_ms is \"5s\", expected milliseconds from 0 to 86400000",
        ),
    ] {
        let error = read(&[], &[], Some(file)).unwrap_err().to_string();
        assert_eq!(error, message);
    }
    for other in [
        "listen = \n",
        "listen = \"127.0.0.1\n",
        "listen 7\n",
        "= 7\n",
        "a = {\n",
    ] {
        let error = read(&[], &[], Some(other)).unwrap_err().to_string();
        assert!(error.starts_with("pvwire.toml:1: "), "{error}");
        assert!(!error.contains("quotes:"), "{error}");
    }
}

#[test]
fn variables_of_kubernetes_and_of_the_tools_are_ignored() {
    let environment = [
        ("PVWIRE_SERVICE_HOST", "10.0.0.1"),
        ("PVWIRE_SERVICE_PORT_HTTP", "80"),
        ("PVWIRE_PORT", "tcp://10.0.0.1:80"),
        ("PVWIRE_PORT_80_TCP_ADDR", "10.0.0.1"),
        ("PVWIRE_CHROMIUM", "/usr/bin/chromium"),
    ];
    assert!(read(&[], &environment, None).is_ok());
}

#[test]
fn unknown_log_level_is_refused() {
    for level in [
        "debug",
        "",
        "info,pvwire_relay::session::shard=trace",
        "OFF",
    ] {
        assert!(read(&[], &[("PVWIRE_LOG", level)], None).is_ok(), "{level}");
    }
    for level in ["loud", "info,loud", "pvwire_relay=loud"] {
        let error = read(&[], &[("PVWIRE_LOG", level)], None)
            .unwrap_err()
            .to_string();
        let begin =
            format!("environment variable PVWIRE_LOG: log is {level:?}, expected error, warn");
        assert!(error.starts_with(&begin), "{error}");
    }
}

#[test]
fn settings_without_effect_are_refused() {
    for (flags, message) in [
        (
            &["--allow-put=SR:*:SET"][..],
            "allow_put is \"SR:*:SET\", expected enable_put as well",
        ),
        (
            &["--jwt-keys=keys.json"],
            "jwt_keys is \"keys.json\", expected auth = jwt as well",
        ),
        (
            &["--user-header=x-user"],
            "user_header is \"x-user\", expected auth = trusted-header as well",
        ),
        (
            &["--groups-header=x-groups"],
            "groups_header is \"x-groups\", expected auth = trusted-header as well",
        ),
        (
            &["--pages=login"],
            "pages is \"login\", expected auth = jwt or trusted-header as well",
        ),
        (
            &["--pages=off", "--admin-listen=127.0.0.1:8081"],
            "pages is \"off\", expected no value together with admin_listen",
        ),
        (
            &["--channelfinder-property=area"],
            "channelfinder_property is \"area\", expected channelfinder as well",
        ),
        (
            &["--history-disk=2GB"],
            "history_disk is \"2GB\", expected history_dir as well",
        ),
        (
            &["--history-dir=/h", "--history-disk=999KB"],
            "history_disk is \"999KB\", expected at least 1MB",
        ),
        (
            &["--history-dir=/h", "--no-history"],
            "history_dir is \"/h\", expected no folder together with history_memory = 0",
        ),
        (&["--role=edge"], "role is \"edge\", expected bus as well"),
        (&["--site=SR"], "site is \"SR\", expected bus as well"),
        (
            &["--member-url=ws://a/ws"],
            "member_url is \"ws://a/ws\", expected bus as well",
        ),
        (
            &["--member-hosts=*.example.org"],
            "member_hosts is \"*.example.org\", expected bus as well",
        ),
        (
            &["--bus-key=/key"],
            "bus_key is \"/key\", expected bus as well",
        ),
        (
            &[
                "--bus=nats://h:4222",
                "--member-hosts=*.example.org",
                "--member-url=ws://a/ws",
            ],
            "member_url is \"ws://a/ws\", expected a host of member_hosts",
        ),
    ] {
        let error = read(flags, &[], None).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("configuration: {message}")),
            "{error}"
        );
    }
    for (flag, expected) in [
        ("--trusted-proxy=10.0.0.0/33", "a network, as 10.1.0.0/16"),
        ("--trusted-proxy=proxy", "a network, as 10.1.0.0/16"),
        ("--user-header=x user", "the name of a header"),
        ("--groups-header=", "the name of a header"),
        ("--pages=closed", "open, login or off"),
        (
            "--bus=host:4222",
            "nats://HOST:PORT or tls://HOST:PORT, several separated by commas",
        ),
        ("--role=owner", "both, ingest or edge"),
        (
            "--site=a.b",
            "a name of 1 to 64 letters, digits, '-' and '_'",
        ),
        (
            "--member-url=https://host/ws",
            "as wss://relay1.example.org/ws",
        ),
        (
            "--member-url=wss://jane:secret@host/ws",
            "as wss://relay1.example.org/ws",
        ),
        ("--member-url=host", "as wss://relay1.example.org/ws"),
        ("--admin-listen=8081", "as 127.0.0.1:8081"),
        (
            "--max-connections-per-address=-1",
            "a whole number from 0 (no limit) to 1000000",
        ),
    ] {
        let error = read(&["--auth=trusted-header", flag], &[], None)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("flag --") && error.ends_with(expected),
            "{error}"
        );
    }
}

#[test]
fn any_origin_may_be_allowed_but_not_with_puts() {
    let any = ["--allow-origin", "*"];
    assert_eq!(read(&any, &[], None).unwrap().allow_origin, ["*"]);
    for (flags, environment, file) in [
        (vec!["--allow-origin=*", "--enable-put"], vec![], None),
        (
            vec!["--enable-put"],
            vec![("PVWIRE_ALLOW_ORIGIN", "https://a *")],
            None,
        ),
        (
            vec![],
            vec![],
            Some("enable_put = true\nallow_origin = [\"*\"]"),
        ),
    ] {
        let error = read(&flags, &environment, file).unwrap_err().to_string();
        let begin = "configuration: allow_origin is \"*\", expected the origins of your own pages";
        assert!(error.starts_with(begin), "{error}");
    }
}

#[test]
fn rules_are_read_in_order_and_invalid_ones_are_refused() {
    let file = r#"
            enable_put = true
            allow_put = ["LAST"]
            [[rule]]
            user = "jane"
            group = ["operators", "experts"]
            pv = "SR:*"
            allow = ["read", "put"]
            [[rule]]
            pv_regex = "X.*"
            deny = "put"
        "#;
    let rules = read(&[], &[], Some(file)).unwrap().all_rules();
    let shown: Vec<_> = (rules.iter())
        .map(|rule| format!("{} ({rule})", rule.origin))
        .collect();
    assert_eq!(
        shown,
        [
            "pvwire.toml: rule 1 (user jane, group operators experts, pv SR:*, allow read put)",
            "pvwire.toml: rule 2 (pv_regex X.*, deny put)",
            "allow_put (pv LAST, allow put)",
        ]
    );
    for (rule, message) in [
        ("allow = 'put'", "pv or pv_regex in it"),
        ("pv = 'X'", "allow or deny in it"),
        (
            "pv = 'X'\nallow = 'put'\ndeny = ['put']",
            "both in allow and in deny",
        ),
        ("pv = 'X'\nallow = 'write'", "read, put or both"),
        ("pv = 7\nallow = 'put'", "a text, or a list of texts"),
        ("pv = ''\nallow = 'put'", "a text, or a list of texts"),
        (
            "users = 'X'\npv = 'X'\nallow = 'put'",
            "unknown key \"users\"",
        ),
    ] {
        let error = read(&[], &[], Some(&format!("[[rule]]\n{rule}")))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("pvwire.toml:"), "{error}");
        assert!(error.contains(": rule 1: "), "{error}");
        assert!(error.contains(message), "{error}");
    }
}
