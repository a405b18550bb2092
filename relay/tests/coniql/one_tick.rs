//! Two updates of one PV in one tick, in each ordered pair of forms: clients of Coniql show the newer one.

use testbed::{Client as PlainClient, Network, Relay};

use super::client::Client;
use crate::one_tick::{FLAGS, INTEGERS, Poster, pairs};

/// The text of a form: a double, integers, a text or texts.
fn text(form: usize) -> &'static str {
    match form {
        0 => "1.5",
        1 => "10",
        2 => "9007199254740993",
        3 => "text",
        _ => "-9007199254740995",
    }
}

#[test]
fn newer_of_two_updates_in_one_tick_is_shown_whatever_their_forms() {
    let network = Network::new();
    let mut poster = Poster::start(network);
    let relay = Relay::start(network, &[&FLAGS[..], &["--coniql"]].concat());
    let mut putting = PlainClient::connect(relay.address());
    let mut client = Client::begin(&relay);
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
            assert_eq!(shown, text(pair[1]), "{what}");
        }
    }
}
