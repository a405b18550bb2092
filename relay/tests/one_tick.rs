//! Two updates of one PV in one tick, in each ordered pair of forms that its value can have: every client shows the
//! newer one, with its time stamp and alarm.
//!
//! Topology: a p4p server that posts two values at once; a relay whose ticks are so long that both come in one, alone
//! and behind another relay of a fleet; clients that are in step, packed, paced and new. Clients of Coniql and of
//! PVWS show the same pairs.

use pvwire_schema::types::{
    FrameKind, Node, NodeValue, Outcome, PutValue, RequestBody, Severity, ValueType,
};
use serde_json::{Value, json};
use testbed::{Client, FormServer, How, Kept, Network, Pv, Relay, keep_up, prefix};

use crate::coniql::client::Client as ConiqlClient;
use crate::pva_structures::Start;
use crate::pvws::client::{Pvws, flags};

/// Ticks in which two updates come together.
const FLAGS: [&str; 6] = [
    "--shortest-tick-ms",
    "60",
    "--longest-tick-ms",
    "100",
    "--enable-put",
    "--allow-put=*",
];

/// Number of forms of the server: a double, a small integer, one that no double holds, a text, a small and a large
/// array, texts, a structure, and another large integer.
const FORMS: usize = 9;

/// The forms of a 64-bit integer.
const INTEGERS: [usize; 3] = [1, 2, 8];

/// All ordered pairs of some forms.
fn pairs(forms: &[usize]) -> impl Iterator<Item = [usize; 2]> {
    let all = forms
        .iter()
        .flat_map(|first| forms.iter().map(|second| [*first, *second]));
    all.filter(|[first, second]| first != second)
}

/// Posts pairs of values.
struct Poster {
    server: FormServer,
    seconds: i64,
}

impl Poster {
    fn start(network: Network) -> Self {
        Self {
            server: FormServer::start(network, &prefix()),
            seconds: 1_700_000_000,
        }
    }

    /// Posts two values to a PV at once. Returns the time stamp of the second, in seconds.
    fn post(&mut self, client: &mut Client, pv: &str, [first, second]: [usize; 2]) -> i64 {
        let put = PutValue::Text(format!("{pv} {first} {second}"));
        let (outcome, why) = client.put(&self.server.name("pair"), put);
        assert_eq!(outcome, Outcome::Done, "{why}");
        self.seconds += 2;
        self.seconds
    }
}

fn integer(integer: i64) -> Kept {
    Kept::Array(ValueType::Int64, integer.to_le_bytes().to_vec())
}

fn doubles(numbers: impl Iterator<Item = f64>) -> Kept {
    Kept::Array(
        ValueType::Float64,
        numbers.flat_map(f64::to_le_bytes).collect(),
    )
}

/// A form as a client keeps it.
fn kept(form: usize) -> Kept {
    let field = |name: &str, number| Node {
        name: name.to_owned(),
        value: NodeValue::Number(ValueType::Float64, number),
        ..Node::default()
    };
    match form {
        0 => Kept::Number(1.5),
        1 => Kept::Number(10.0),
        2 => integer((1 << 53) + 1),
        3 => Kept::text("text"),
        4 => doubles([1.0, 2.5].into_iter()),
        5 => doubles((0..4000).map(f64::from)),
        6 => Kept::Texts(["a", "b"].map(str::to_owned).into()),
        7 => Kept::Structure(Node {
            name: String::new(),
            type_id: "point_t".to_owned(),
            value: NodeValue::Structure(vec![field("x", 8.0), field("y", 9.0)]),
        }),
        _ => integer(-(1 << 53) - 3),
    }
}

fn is_form(pv: &Pv, form: usize, seconds: i64) -> bool {
    let severity = Severity::from_number((form % 4) as u8);
    pv.now.as_ref().is_some_and(|now| {
        now.value == kept(form)
            && now.time_ns == seconds * 1_000_000_000
            && now.alarm.severity == severity
    })
}

/// Waits until all clients show a form, and a new one too.
fn wait_form(relay: &Relay, clients: &mut [Client], name: &str, form: usize, seconds: i64) {
    let mut clients: Vec<_> = clients.iter_mut().collect();
    let what = format!("form {form} of {seconds} s");
    keep_up(&what, &mut clients, |clients| {
        let mut pvs = clients.iter().map(|client| client.pv(name));
        pvs.all(|pv| is_form(pv, form, seconds))
    });
    let mut late = Client::connect(relay.address());
    assert_eq!(late.subscribe(&[name]), []);
    late.wait_pv(name, &what, |pv| is_form(pv, form, seconds));
    let (got, _) = late.get(&[name], 20_000);
    assert!(is_form(got[0].as_ref().unwrap(), form, seconds), "{what}");
}

fn check_pairs(start: Start<'_>) {
    let network = Network::new();
    let mut poster = Poster::start(network);
    let relays = start(network, &FLAGS);
    let relay = &relays[0];
    let [any, long] = ["any/value", "long"].map(|pv| poster.server.name(pv));
    let lz4 = How {
        lz4: true,
        ..How::default()
    };
    let mut paced = Client::connect(relay.address());
    paced.request(RequestBody::Pace { interval_ms: 150 });
    let mut fetching = Client::connect(relay.address());
    fetching.fetch_large();
    let mut clients = [
        Client::connect(relay.address()),
        Client::connect_as(relay.address(), lz4),
        fetching,
        paced,
    ];
    let mut putting = Client::connect(relay.address());
    for client in &mut clients {
        client.subscribe_live(&[&any, &long]);
    }
    for pair in pairs(&(0..FORMS).collect::<Vec<_>>()) {
        let seconds = poster.post(&mut putting, "any", pair);
        wait_form(relay, &mut clients, &any, pair[1], seconds);
    }
    for pair in pairs(&INTEGERS).chain(pairs(&INTEGERS)) {
        let seconds = poster.post(&mut putting, "long", pair);
        wait_form(relay, &mut clients, &long, pair[1], seconds);
    }
    let pv = clients[0].pv(&long);
    assert_eq!(pv.skipped, 0);
    let times: Vec<_> = pv.rows.iter().map(|row| row.time_ns).collect();
    assert!(times.is_sorted(), "in their order: {times:?}");
    let separate = pv.rows.iter().filter(|row| row.kind == FrameKind::CatchUp);
    assert!(separate.count() > 0, "no two of them came in one tick");
}

#[test]
fn newer_of_two_updates_in_one_tick_is_shown_whatever_their_forms() {
    check_pairs(&|network, flags| vec![Relay::start(network, flags)]);
}

#[test]
fn newer_of_two_updates_in_one_tick_is_shown_through_a_fleet() {
    let nats = testbed::NatsServer::start();
    check_pairs(&|network, flags| {
        let url = nats.url();
        let of =
            |role: &str| Relay::start(network, &[flags, &["--bus", &url, "--role", role]].concat());
        vec![of("edge"), of("ingest")]
    });
}

/// What Coniql shows of a form: a double, integers, a text or texts.
fn coniql_text(form: usize) -> &'static str {
    match form {
        0 => "1.5",
        1 => "10",
        2 => "9007199254740993",
        3 => "text",
        _ => "-9007199254740995",
    }
}

#[test]
fn clients_of_coniql_show_the_newer_of_two_updates_in_one_tick() {
    let network = Network::new();
    let mut poster = Poster::start(network);
    let relay = Relay::start(network, &[&FLAGS[..], &["--coniql"]].concat());
    let mut putting = Client::connect(relay.address());
    let mut client = ConiqlClient::begin(&relay);
    for (pv, forms) in [("any", &[0, 1, 2, 3, 8][..]), ("long", &INTEGERS)] {
        let path = if pv == "any" { "any/value" } else { pv };
        let name = poster.server.name(path);
        let fields = "value { string } time { seconds }";
        let query = format!("subscription {{ subscribeChannel(id: \"{name}\") {{ {fields} }} }}");
        client.start(pv, &query);
        client.until(pv, "its value", |data| {
            data["subscribeChannel"]["value"]["string"].is_string()
        });
        for pair in pairs(forms) {
            let seconds = poster.post(&mut putting, pv, pair);
            let what = format!("{pair:?} of {pv} at {seconds} s");
            let data = client.until(pv, &what, |data| {
                data["subscribeChannel"]["time"]["seconds"].as_f64() == Some(seconds as f64)
            });
            let shown = &data["subscribeChannel"]["value"]["string"];
            assert_eq!(shown, coniql_text(pair[1]), "{what}");
        }
    }
}

/// Whether a message of PVWS has this form of value: a double, integers, a text or an array.
fn is_pvws_form(update: &Value, form: usize) -> bool {
    match form {
        0 => update["value"] == 1.5,
        1 => update["value"] == json!(10),
        2 => update["value"] == json!(9_007_199_254_740_993_i64),
        3 => update["text"] == "text",
        4 => update["b64dbl"].is_string(),
        _ => update["value"] == json!(-9_007_199_254_740_995_i64),
    }
}

#[test]
fn clients_of_pvws_show_the_newer_of_two_updates_in_one_tick() {
    let network = Network::new();
    let mut poster = Poster::start(network);
    let relay = Relay::start(network, &flags(&FLAGS));
    let mut putting = Client::connect(relay.address());
    let mut client = Pvws::connect(&relay);
    for (pv, forms) in [("any", &[0, 1, 2, 3, 4, 8][..]), ("long", &INTEGERS)] {
        let path = if pv == "any" { "any/value" } else { pv };
        let name = poster.server.name(path);
        client.subscribe(&[&name]);
        client.update(&name, "its type", |update| update["vtype"].is_string());
        for pair in pairs(forms) {
            let seconds = poster.post(&mut putting, pv, pair);
            let what = format!("{pair:?} of {pv} at {seconds} s");
            let update = client.update(&name, &what, |update| update["seconds"] == seconds);
            assert!(is_pvws_form(&update, pair[1]), "{what}: {update}");
        }
    }
}
