//! A client gets a record's description by Channel Access when it asks for it.
//!
//! Topology: one relay, clients that ask and one that doesn't, a soft IOC that restarts.

use std::time::{Duration, Instant};

use pvwire_schema::types::RequestBody;

use testbed::{Client, Kept, Network, Pv, Relay, SoftIoc, eventually, prefix};

const DATABASE: &str = r#"
    record(ai, "$(P)ai") { field(DESC, "Gap of the undulator") field(VAL, "1") field(PINI, "YES") }
    record(lso, "$(P)lso") { field(DESC, "Where the beam goes") field(SIZV, "80") }
    record(mbbo, "$(P)mode") { field(DESC, "What it does") field(ZRST, "off") }
    record(ai, "$(P)full") { field(DESC, "exactly 40 bytes of text are what it has") }
    record(ai, "$(P)none") {}
"#;

fn wait_description(client: &mut Client, name: &str, description: &str) {
    client.wait_pv(name, description, |pv| {
        pv.metadata.as_ref().unwrap().description == description
    });
}

#[test]
fn description_by_channel_access_comes_on_request_and_again() {
    let (network, prefix) = (Network::new(), prefix());
    let mut ioc = SoftIoc::with_prefix(network, &prefix, DATABASE, "");
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let fields = ["ai", "ai.HIHI", "lso.VAL$", "lso", "mode", "full", "none"];
    let names = ioc.names(fields);
    client.subscribe_live(&names);
    for name in &names {
        assert_eq!(client.pv(name).metadata.as_ref().unwrap().description, "");
    }
    client.describe(&names);
    let expected = [
        "Gap of the undulator",
        "Gap of the undulator",
        "Where the beam goes",
        "Where the beam goes",
        "What it does",
        "exactly 40 bytes of text are what it has",
    ];
    for (name, description) in names.iter().zip(expected) {
        wait_description(&mut client, name, description);
    }
    let ai = client.pv(&names[0]).metadata.clone().unwrap();
    // It is kept when other metadata changes, and the other metadata is kept when it arrives.
    ioc.put("ai.EGU", "mm");
    client.wait_pv(&names[0], "the unit", |pv| {
        let metadata = pv.metadata.as_ref().unwrap();
        metadata.units == "mm" && metadata.description == ai.description
    });

    ioc.kill();
    client.wait_state(
        &names[0],
        pvwire_schema::types::ConnectionState::Disconnected,
    );
    let other = DATABASE.replace("Gap of the undulator", "Gap of the wiggler");
    let _ioc = SoftIoc::with_prefix(network, &prefix, &other, "");
    wait_description(&mut client, &names[0], "Gap of the wiggler");
    wait_description(&mut client, &names[1], "Gap of the wiggler");
    wait_description(&mut client, &names[4], "What it does");
}

#[test]
fn description_is_read_once_for_all_clients() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let ai = ioc.name("ai");
    let mut first = Client::connect(relay.address());
    first.subscribe_live(&[&ai]);
    first.describe(&[&ai]);
    wait_description(&mut first, &ai, "Gap of the undulator");
    // The IOC can't be asked any more.
    ioc.hang();
    let mut second = Client::connect(relay.address());
    second.subscribe_live(&[&ai]);
    second.describe(&[&ai]);
    wait_description(&mut second, &ai, "Gap of the undulator");
    ioc.resume();
}

#[test]
fn description_and_long_string_follow_the_right_to_read() {
    let network = Network::new();
    let database = r#"
        record(lso, "$(P)lso") { field(DESC, "Where the beam goes") field(SIZV, "80") }
    "#;
    let rules = "ASG(DEFAULT) { RULE(1, READ) RULE(1, WRITE) }\nASG(secret) { RULE(1, NONE) }\n";
    let mut ioc = SoftIoc::with_prefix(network, &prefix(), database, rules);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let lso = ioc.name("lso");
    client.subscribe_live(&[&lso]);
    client.describe(&[&lso]);
    wait_description(&mut client, &lso, "Where the beam goes");
    let long = "a text of more than thirty-nine bytes, to be whole";
    ioc.put("lso", long);
    client.wait_pv(&lso, "the whole text", |pv| pv.is(&Kept::text(long)));

    ioc.put("lso.ASG", "secret");
    client.wait_pv(&lso, "no right to read", |pv| {
        let description = &pv.metadata.as_ref().unwrap().description;
        !pv.connection.unwrap().read && pv.now.is_none() && description.is_empty()
    });
    ioc.put("lso.ASG", "DEFAULT");
    client.wait_pv(&lso, "the whole text again", |pv| pv.is(&Kept::text(long)));
    wait_description(&mut client, &lso, "Where the beam goes");
}

#[test]
fn description_that_no_server_has_leaves_the_pv_as_it_is() {
    let network = Network::new();
    let database = r#"record(ai, "$(P)ai") { field(VAL, "2") field(PINI, "YES") }"#;
    let mut ioc = SoftIoc::start(network, database);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let ai = ioc.name("ai");
    client.subscribe_live(&[&ai]);
    // Ids that are not open are ignored.
    let ids = vec![client.id(&ai), pvwire_schema::types::PvId(999_999)];
    client.request(RequestBody::Describe { ids });
    ioc.put("ai", "3");
    client.wait_number(&ai, 3.0);
    assert_eq!(client.pv(&ai).metadata.as_ref().unwrap().description, "");
}

#[test]
fn get_with_description_has_it_though_no_client_asked_before() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let description = |pv: &Option<Pv>| {
        let metadata = pv.as_ref().unwrap().metadata.clone();
        metadata.unwrap().description.clone()
    };
    let names = ioc.names(["ai", "full", "none"]);
    let (pvs, errors) = client.get_with(&names, 0, true);
    assert_eq!(errors, []);
    assert_eq!(
        pvs.iter().map(description).collect::<Vec<_>>(),
        [
            "Gap of the undulator",
            "exactly 40 bytes of text are what it has",
            ""
        ]
    );
    // Another client's monitor is open already, without a description.
    let mode = ioc.name("mode");
    client.subscribe_live(&[&mode]);
    let (pvs, _) = Client::connect(relay.address()).get_with(&[&mode], 0, true);
    assert_eq!(description(&pvs[0]), "What it does");
    // Simulated PVs send it with the metadata: there is nothing to wait for.
    let (pvs, _) = client.get_with(&["sim://sine"], 0, true);
    assert_ne!(description(&pvs[0]), "");
}

#[test]
fn get_that_does_not_ask_for_the_description_does_not_read_it() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let (pvs, _) = client.get(&[ioc.name("lso")], 0);
    let metadata = pvs[0].as_ref().unwrap().metadata.clone();
    assert_eq!(metadata.unwrap().description, "");
}

#[test]
fn description_from_a_hanging_ioc_comes_when_it_goes_on() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let ai = ioc.name("ai");
    client.subscribe_live(&[&ai]);
    ioc.hang();
    // A get waits for it, less long than for a value, until the relay gives up the request.
    eventually("a get that doesn't wait", || {
        let asked = Instant::now();
        let (pvs, errors) = client.get_with(&[&ai], 60_000, true);
        assert_eq!(errors, []);
        assert!(pvs[0].as_ref().unwrap().is_number(1.0));
        asked.elapsed() < Duration::from_secs(1)
    });
    ioc.resume();
    wait_description(&mut client, &ai, "Gap of the undulator");
}
