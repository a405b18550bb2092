//! A table of puts to servers of several makers, with what each PV holds afterwards. The tests of each door put all
//! of it: a put that is done is what the PV holds, and a put that is refused changes nothing.
//!
//! Topology: one relay for each server; a soft IOC by both protocols, caproto, PCAS, p4p, pvAccessCPP.

use serde_json::Value;
use testbed::{
    Maker, Network, OtherServer, Relay, SoftIoc, StructureServer, eventually, get, prefix,
};

/// A PV, a value as JSON, and the text of what the PV then holds; `None` if the put is refused.
type Row = (&'static str, String, Option<String>);

const DATABASE: &str = r#"
    record(ao, "$(P)double") { field(VAL, "1") field(PREC, "2") field(PINI, "YES") }
    record(longout, "$(P)int") { field(VAL, "1") field(PINI, "YES") }
    record(int64out, "$(P)int64") { field(VAL, "1") field(PINI, "YES") }
    record(mbbo, "$(P)enum") { field(ZRST, "off") field(ONST, "on") field(PINI, "YES") }
    record(stringout, "$(P)string") { field(VAL, "old") field(PINI, "YES") }
    record(lso, "$(P)long") { field(SIZV, "256") }
    record(waveform, "$(P)chars") { field(FTVL, "CHAR") field(NELM, "256") }
    record(waveform, "$(P)doubles") { field(FTVL, "DOUBLE") field(NELM, "4") field(PREC, "1") }
    record(waveform, "$(P)ulongs") { field(FTVL, "ULONG") field(NELM, "4") }
"#;

fn done(pv: &'static str, json: &str, held: &str) -> Row {
    (pv, json.to_owned(), Some(held.to_owned()))
}

fn refused(pv: &'static str, json: &str) -> Row {
    (pv, json.to_owned(), None)
}

fn text_of(length: usize) -> String {
    "t".repeat(length)
}

fn quoted(length: usize) -> String {
    format!("{:?}", text_of(length))
}

/// An array of characters without a form, whose text begins with ten of them.
fn characters(count: usize) -> String {
    format!("[{} … {count} elements]", "116, ".repeat(10).trim_end())
}

/// Puts to a soft IOC that are alike by both protocols.
fn soft() -> Vec<Row> {
    vec![
        done("double", "2.5", "2.50"),
        done("double", r#""-3""#, "-3.00"),
        done("double", r#""NaN""#, "nan"),
        done("double", r#""Infinity""#, "inf"),
        refused("double", r#""1e400""#),
        refused("double", "1e400"),
        refused("double", r#""abc""#),
        refused("double", r#""""#),
        done("double", "1e6", "1000000.00"),
        done("int", "-2147483648", "-2147483648"),
        refused("int", "2147483648"),
        refused("int", "1.5"),
        done("enum", r#""on""#, "on"),
        done("enum", "0", "off"),
        refused("enum", r#""nosuch""#),
        refused("enum", "7"),
        done("string", &quoted(39), &text_of(39)),
        done("string", r#""""#, ""),
        done("long", &quoted(200), &text_of(200)),
        done("long", r#""short""#, "short"),
        refused("doubles", "[1, 1e400]"),
        refused("ulongs", "[4294967296]"),
        refused("ulongs", "[-1]"),
    ]
}

/// By Channel Access an integer of 64 bits is a double, and a string has 39 bytes.
fn soft_by_ca() -> Vec<Row> {
    let more = [
        refused("int64", "9007199254740993"),
        done("int64", "9007199254740992", "9007199254740992"),
        refused("string", &quoted(40)),
        done("doubles", "[1, 2.5]", "[1.0, 2.5]"),
        done("doubles", "[3]", "[3.0]"),
        done("doubles", "[]", "[]"),
        done("ulongs", "[4294967295, 0]", "[4294967295, 0]"),
        refused("doubles", "[1, 2, 3, 4, 5]"),
        done("chars", &quoted(200), &characters(201)),
        done("chars", r#""ab""#, "[97, 98, 0]"),
        refused("chars", &quoted(300)),
    ];
    soft().into_iter().chain(more).collect()
}

/// Without arrays that are written: of some 1,000 such puts QSRV sends one's update with zeros as elements
/// (docs/explanations/servers.md). Arrays by pvAccess are written to pvAccessCPP.
fn soft_by_pva() -> Vec<Row> {
    let more = [
        done("int64", "9007199254740993", "9007199254740993"),
        done("int64", "-9223372036854775808", "-9223372036854775808"),
        refused("int64", "9223372036854775808"),
    ];
    soft().into_iter().chain(more).collect()
}

fn caproto() -> Vec<Row> {
    vec![
        done("number", "2.5", "2.50"),
        refused("number", r#""1e400""#),
        done("still", "-5", "-5"),
        refused("still", "2147483648"),
        done("choice", r#""Closed""#, "Closed"),
        done("choice", "1", "Open"),
        refused("mode", r#""nosuch""#),
        done("string", &quoted(39), &text_of(39)),
        done("char_text", &quoted(200), &characters(200)),
        done("array", "[1, 2]", "[1, 2]"),
        refused("array", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]"),
    ]
}

fn pcas() -> Vec<Row> {
    vec![
        done("number", "2.5", "2.50"),
        refused("number", r#""1e400""#),
        done("still", "-5", "-5"),
        done("choice", r#""Closed""#, "Closed"),
        done("choice", "1", "Open"),
        done("text", &quoted(39), &text_of(39)),
        refused("text", &quoted(40)),
        done("char_text", &quoted(200), &characters(201)),
        done("array", "[1, 2]", "[1, 2]"),
    ]
}

fn p4p() -> Vec<Row> {
    vec![
        done("bool", "true", "true"),
        done("bool", "0", "false"),
        done("bool", r#""true""#, "true"),
        done("bool", r#"" 0 ""#, "false"),
        refused("bool", r#""yes""#),
        refused("bool", "2"),
        done("float", "2.5", "2.5"),
        refused("float", "1e39"),
        done("ulong", "18446744073709551615", "18446744073709551615"),
        refused("ulong", "-1"),
        refused("ulong", "18446744073709551616"),
        done("enum", r#""on""#, "on"),
        refused("enum", "2"),
        refused("refused", "2"),
    ]
}

fn pv_access_cpp() -> Vec<Row> {
    vec![
        done("number", "2.5", "2.5"),
        done("long", "9007199254740993", "9007199254740993"),
        done("text", &quoted(200), &text_of(200)),
        done("mode", r#""Fault""#, "Fault"),
        done("mode", "0", "Off"),
        done("array", "[1.5]", "[1.5]"),
        done("array", "[1, 2.5]", "[1, 2.5]"),
        done("array", "[3]", "[3]"),
        done("array", "[]", "[]"),
    ]
}

/// Puts all of it by a door: `put` gets the relay, the PV's name, the JSON of the value and whether it must be
/// refused. It returns when the put has ended so. A door that doesn't report a put that is done returns its client,
/// because a put of a client that has left may not be written.
pub(crate) fn put_all<R>(flags: &[&str], put: impl Fn(&Relay, &str, &str, bool) -> R) {
    let flags = [flags, &["--enable-put", "--allow-put=*"]].concat();
    let check = |network, name: &dyn Fn(&str) -> String, rows: Vec<Row>| {
        let relay = Relay::start(network, &flags);
        for (pv, json, expected) in rows {
            let name = name(pv);
            let before = held(&relay, &name);
            let _client = put(&relay, &name, &json, expected.is_none());
            let expected = expected.unwrap_or(before);
            eventually(&format!("{name} holds {expected} after {json}"), || {
                held(&relay, &name) == expected
            });
        }
    };
    let (network, p) = (Network::new(), prefix());
    let ioc = SoftIoc::with_pv_access(network, &p, DATABASE);
    check(network, &|pv| ioc.name(pv), soft_by_ca());
    check(
        network,
        &|pv| format!("pva://{}", ioc.name(pv)),
        soft_by_pva(),
    );
    drop(ioc);
    for (maker, rows) in [
        (Maker::Caproto, caproto()),
        (Maker::Pcas, pcas()),
        (Maker::PvAccessCpp, pv_access_cpp()),
    ] {
        let network = maker.network();
        let server = OtherServer::start(network, maker);
        let scheme = if maker.is_by_ca() { "ca" } else { "pva" };
        check(network, &|pv| format!("{scheme}://{}", server.pv(pv)), rows);
    }
    let network = Network::new();
    let _server = StructureServer::start(Some(network), &p);
    check(network, &|pv| format!("pva://{p}{pv}"), p4p());
}

/// The text of what a PV holds.
fn held(relay: &Relay, name: &str) -> String {
    let path = name.replace(':', "%3A").replace('/', "%2F");
    let answer = get(
        relay.address(),
        &format!("/pv/{path}?timeout_ms=20000"),
        &[],
    );
    let answer: Value = serde_json::from_str(&answer.body).unwrap();
    let text = answer["value"]["string"].as_str();
    text.unwrap_or_else(|| panic!("{name}: {answer}"))
        .to_owned()
}
