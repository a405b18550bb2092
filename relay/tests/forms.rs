//! A character array that is a text is marked as such, which Channel Access itself doesn't tell.
//!
//! Topology: one relay, one client, a soft IOC with pvAccess beside Channel Access, or without.

use pvwire_schema::types::ValueType;

use testbed::{
    Client, Kept, LyingServer, Network, Relay, SoftIoc, StructureServer, prefix, relay_command,
};

const RECORDS: &str = r#"
    record(waveform, "$(P)text") {
        field(FTVL, "CHAR") field(NELM, "100") field(DESC, "what it says") info(Q:form, "String")
    }
    record(waveform, "$(P)bytes") { field(FTVL, "CHAR") field(NELM, "100") }
    record(waveform, "$(P)one") { field(FTVL, "CHAR") field(NELM, "1") info(Q:form, "String") }
"#;

/// The form of a PV that a client receives.
fn form(client: &Client, name: &str) -> String {
    let metadata = client.pv(name).metadata.as_ref();
    metadata.map_or_else(String::new, |metadata| metadata.form.clone())
}

#[test]
fn character_array_with_form_string_is_shown_as_a_text() {
    let network = Network::new();
    let prefix = prefix();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix, RECORDS);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    let names = ioc.names(["text", "bytes", "one"]);
    let [text, bytes, one] = names.each_ref().map(String::as_str);
    client.subscribe_live(&names);
    client.describe(&[text]);
    for _ in 0..2 {
        client.wait("the form", |client| form(client, text) == "String");
        client.wait_pv(text, "its description beside the form", |pv| {
            let metadata = pv.metadata.as_ref();
            metadata.is_some_and(|it| it.description == "what it says" && it.form == "String")
        });
        client.put(
            text,
            pvwire_schema::types::PutValue::Text("whole".to_owned()),
        );
        client.wait_pv(text, "all of it", |pv| {
            pv.now.as_ref().is_some_and(|now| matches!(&now.value,
                Kept::Array(ValueType::UInt8 | ValueType::Int8, bytes) if bytes.starts_with(b"whole")))
        });
        assert_eq!(form(&client, bytes), "");
        assert_eq!(form(&client, one), "");
        ioc.kill();
        client.wait_state(text, pvwire_schema::types::ConnectionState::Disconnected);
        ioc = SoftIoc::with_pv_access(network, &prefix, RECORDS);
        client.wait_state(text, pvwire_schema::types::ConnectionState::Connected);
    }
}

#[test]
fn form_that_is_found_late_leaves_the_value_that_came_after_one_that_could_not_be_sent() {
    let network = Network::new();
    let server = LyingServer::start(&["text"]);
    let name = &server.names[0];
    let prefix = name.strip_suffix("text").unwrap();
    let structures = StructureServer::start(Some(network), prefix);
    structures.hang();
    let mut command = relay_command(network);
    server.apply(&mut command);
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    client.subscribe(&[name]);
    let shown = Kept::Array(ValueType::UInt8, b"b".to_vec());
    client.wait_pv(name, "the second value", |pv| pv.is(&shown));
    structures.resume();
    client.wait("the form", |client| form(client, name) == "String");
    assert!(client.pv(name).is(&shown), "the value is still shown");
}

#[test]
fn character_array_of_an_ioc_without_pva_stays_bytes() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, RECORDS);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let text = ioc.name("text");
    client.subscribe_live(&[&text]);
    assert_eq!(form(&client, &text), "");
    assert!(matches!(
        client.pv(&text).now.as_ref().unwrap().value,
        Kept::Array(..)
    ));
}
