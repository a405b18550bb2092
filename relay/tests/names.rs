//! Names with brackets outside of filters, as at NSLS-II, are names like any other.
//!
//! Topology: one relay that takes puts, a client, a soft IOC.

use pvwire_schema::types::{Outcome, PutValue, ValueType};

use testbed::{Client, Kept, Network, Relay, SoftIoc, get, prefix};

const DATABASE: &str = r#"
    record(lso, "$(P){L}lso") { field(SIZV, "200") field(DESC, "what it says") }
    record(lsi, "$(P)[1]lsi") { field(SIZV, "200") }
    record(lso, "$(P)end{L}") { field(SIZV, "200") }
    record(lso, "$(P)end[2]") { field(SIZV, "200") }
    record(waveform, "$(P)MG{PS:1}Text-I") {
        field(FTVL, "CHAR") field(NELM, "100") field(DESC, "a text") info(Q:form, "String")
    }
    record(int64out, "$(P){PS}Count-SP") {}
    record(ai, "$(P)MG{PS:1}I-I") { field(DESC, "the current") field(VAL, "1") field(PINI, "YES") }
"#;

#[test]
fn names_with_brackets_have_long_texts_forms_descriptions_and_puts() {
    let network = Network::new();
    let prefix = prefix();
    let mut ioc = SoftIoc::with_pv_access(network, &prefix, DATABASE);
    let relay = Relay::start(network, &["--enable-put", "--allow-put=*"]);
    let mut client = Client::connect(relay.address());
    let names = ioc.names([
        "{L}lso",
        "[1]lsi",
        "end{L}",
        "end[2]",
        "MG{PS:1}Text-I",
        "MG{PS:1}I-I",
        "{PS}Count-SP",
    ]);
    let [lso, lsi, end, bracket, chars, number, count] = names.each_ref().map(String::as_str);
    client.subscribe_live(&names);
    client.describe(&names);
    let long = "an IOC would cut this text at its thirty-ninth byte, as it is longer";
    for name in [lso, end, bracket] {
        let done = client.put(name, PutValue::Text(long.to_owned()));
        assert_eq!(done, (Outcome::Done, String::new()), "{name}");
        client.wait_pv(name, "the whole text", |pv| pv.is(&Kept::text(long)));
    }
    ioc.put("[1]lsi.VAL$", long);
    client.wait_pv(lsi, "the whole text", |pv| pv.is(&Kept::text(long)));
    for (name, description) in [
        (lso, "what it says"),
        (chars, "a text"),
        (number, "the current"),
    ] {
        client.wait_pv(name, description, |pv| {
            pv.metadata
                .as_ref()
                .is_some_and(|known| known.description == description)
        });
    }
    client.wait_pv(chars, "the form", |pv| {
        pv.metadata
            .as_ref()
            .is_some_and(|known| known.form == "String")
    });
    assert_eq!(
        client.pv(chars).metadata.as_ref().unwrap().value_type,
        ValueType::UInt8
    );
    // What a 64-bit integer can't hold is known from its record.
    let (outcome, why) = client.put(count, PutValue::Number(1.5));
    assert_eq!(outcome, Outcome::BadValue, "{why}");
    // In a path brackets may be percent-encoded or not.
    let encoded = number.replace('{', "%7B").replace('}', "%7D");
    for path in [number, &encoded] {
        let answer = get(relay.address(), &format!("/pv/{path}"), &[]);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    }
    // A filter is still one.
    let filtered = format!("{number}.VAL{{\"dec\":{{\"n\":2}}}}");
    client.subscribe_live(&[&filtered]);
    client.wait_number(&filtered, 1.0);
}
