//! Writes, under the relay's rules.

use serde_json::json;
use testbed::{Network, Relay, SoftIoc, StructureServer, prefix, relay_command};

use super::client::{Pvws, flags, relay_of_users};
use crate::put_values::put_all;

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "1") field(PINI, "YES") }
record(mbbo, "$(P)enum") { field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
record(stringout, "$(P)text") { field(VAL, "old") field(PINI, "YES") }
record(waveform, "$(P)wave") { field(FTVL, "DOUBLE") field(NELM, "4") field(PINI, "YES") }
record(waveform, "$(P)chars") { field(FTVL, "CHAR") field(NELM, "16") field(PINI, "YES") }
"#;

const PUTS: [&str; 3] = ["--enable-put", "--allow-put", "*"];

#[test]
fn written_values_arrive_and_are_told() {
    let network = Network::new();
    let ioc = SoftIoc::with_pv_access(network, &prefix(), DATABASE);
    let relay = Relay::start(
        network,
        &flags(&[&PUTS[..], &["--pvws-array-throttle-ms", "0"]].concat()),
    );
    let mut client = Pvws::connect(&relay);
    for scheme in ["ca", "pva"] {
        for (record, value, key, expected) in [
            ("ao", json!(2.5), "value", json!(2.5)),
            ("ao", json!("3.5"), "value", json!(3.5)),
            ("enum", json!("on"), "text", json!("on")),
            ("enum", json!(0), "text", json!("off")),
            ("text", json!("new"), "text", json!("new")),
            ("text", json!(true), "text", json!("true")),
            ("text", json!(null), "text", json!("null")),
            ("text", json!(""), "text", json!("")),
            (
                "wave",
                json!([1.5, 2]),
                "b64dbl",
                json!("AAAAAAAA+D8AAAAAAAAAQA=="),
            ),
        ] {
            let name = format!("{scheme}://{}", ioc.name(record));
            client.subscribe(&[&name]);
            client.write(&name, value);
            client.update(&name, &format!("{expected}"), |update| {
                update[key] == expected
            });
            client.send(&json!({"type": "clear", "pvs": [name]}));
        }
    }
}

#[test]
fn text_is_written_into_an_array_of_characters() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&PUTS));
    let mut client = Pvws::connect(&relay);
    // The text may end with a zero byte.
    let chars = ioc.name("chars");
    client.subscribe(&[&chars]);
    client.write(&chars, json!("hi"));
    client.update(&chars, "the text", |update| {
        update["b64byt"]
            .as_str()
            .is_some_and(|base64| base64.starts_with("aGkA") || base64 == "aGk=")
    });
}

#[test]
fn put_that_fails_is_answered_by_an_error_that_names_the_pv() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &flags(&PUTS));
    let mut client = Pvws::connect(&relay);
    let [ao, mode] = ioc.names(["ao", "enum"]);
    client.write(&ao, json!(5));
    let unknown = json!({"type": "error", "message": format!("Cannot write unknown PV {ao}")});
    assert_eq!(client.next(), unknown);
    for (name, value) in [
        (&mode, json!("nosuch")),
        (&ao, json!("abc")),
        (&ao, json!("")),
        (&ao, json!({})),
    ] {
        client.subscribe(&[name]);
        client.write(name, value);
        let answers = client.until("an error", |message| message["type"] == "error");
        let message = answers.last().unwrap()["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert!(
            message.starts_with(&format!("Cannot write {name}: ")),
            "{message}"
        );
    }
}

#[test]
fn puts_are_refused_without_a_rule_and_where_the_door_takes_none() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let name = ioc.name("ao");
    for (more, variable, expected) in [
        (&[][..], None, "Cannot write"),
        (&PUTS, Some("false"), "PV_WRITE_SUPPORT is disabled"),
    ] {
        let mut command = relay_command(network);
        command.envs(variable.map(|value| ("PV_WRITE_SUPPORT", value)));
        let relay = Relay::spawn(command, &flags(more));
        let mut client = Pvws::connect(&relay);
        client.subscribe(&[&name]);
        client.write(&name, json!(5));
        let answers = client.until("an error", |message| message["type"] == "error");
        let message = answers.last().unwrap()["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        let seen = client.so_far();
        assert!(seen.iter().all(|update| update["value"] != 5.0), "{seen:?}");
    }
}

#[test]
fn write_before_the_first_connection_is_done_when_it_comes() {
    let (network, prefix) = (Network::new(), prefix());
    let relay = Relay::start(network, &flags(&PUTS));
    let mut client = Pvws::connect(&relay);
    let name = format!("{prefix}ao");
    client.subscribe(&[&name]);
    client.write(&name, json!(7));
    let _ioc = SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    client.update(&name, "the value", |update| update["value"] == 7.0);
}

#[test]
fn right_to_write_follows_the_rules_of_each_user() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let name = ioc.name("ao");
    let rules = |user: &str| {
        format!("enable_put = true\n[[rule]]\nuser = \"{user}\"\npv = \"*\"\nallow = \"put\"\n")
    };
    let (relay, path) = relay_of_users(network, &rules("ann"), &[]);
    let connect = |user: &str| {
        let headers = [("X-Forwarded-User", user)];
        let mut client = Pvws::try_connect(relay.address(), &headers).unwrap();
        client.subscribe(&[&name]);
        client
    };
    let (mut ann, mut bob) = (connect("ann"), connect("bob"));
    for (client, readonly) in [(&mut ann, false), (&mut bob, true)] {
        let update = client.update(&name, "its rights", |update| update["vtype"].is_string());
        assert_eq!(update["readonly"], readonly);
        client.update(&name, "its rights again", |update| {
            update["readonly"] == readonly
        });
    }
    bob.write(&name, json!(5));
    let answers = bob.until("an error", |message| message["type"] == "error");
    assert!(answers.iter().all(|message| message["value"] != 5.0));
    // The new rules swap the two users' rights.
    std::fs::write(&path, rules("bob")).unwrap();
    relay.signal("HUP");
    ann.update(&name, "no right", |update| update["readonly"] == true);
    bob.update(&name, "the right", |update| update["readonly"] == false);
    bob.write(&name, json!(6));
    ann.update(&name, "the value", |update| update["value"] == 6.0);
}

#[test]
fn put_by_pvws_is_what_the_pv_holds_or_changes_nothing() {
    put_all(&flags(&[]), |relay, name, json, is_refused| {
        let mut client = Pvws::connect(relay);
        client.subscribe(&[name]);
        client.send_text(&format!(
            r#"{{"type": "write", "pv": "{name}", "value": {json}}}"#
        ));
        if is_refused {
            let answers = client.until("an error", |message| message["type"] == "error");
            let why = answers.last().unwrap()["message"].as_str().unwrap();
            assert!(why.starts_with(&format!("Cannot write {name}: ")), "{why}");
        }
        client
    });
}

#[test]
fn integers_of_64_bits_are_written_with_all_their_digits() {
    let network = Network::new();
    let prefix = prefix();
    let _server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &flags(&PUTS));
    let mut client = Pvws::connect(&relay);
    let name = format!("pva://{prefix}ulong");
    client.subscribe(&[&name]);
    // As JavaScript writes 2^63.
    for (json, held) in [
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
        ("9223372036854776000", "9223372036854775808"),
    ] {
        client.send_text(&format!(
            r#"{{"type": "write", "pv": "{name}", "value": {json}}}"#
        ));
        let number: serde_json::Value = serde_json::from_str(held).unwrap();
        client.until(held, |message| message["value"] == number);
    }
}
