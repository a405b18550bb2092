//! Two updates of one PV in one tick, in each ordered pair of forms: clients of PVWS show the newer one.

use serde_json::{Value, json};
use testbed::{Client, Network, Relay};

use super::client::{Pvws, flags};
use crate::one_tick::{FLAGS, INTEGERS, Poster, pairs};

/// Whether a message has this form of value: a double, integers, a text or an array.
fn is_form(update: &Value, form: usize) -> bool {
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
fn newer_of_two_updates_in_one_tick_is_shown_whatever_their_forms() {
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
            assert!(is_form(&update, pair[1]), "{what}: {update}");
        }
    }
}
