//! What PVs, local PVs and formulas show while the relay does not answer.

use super::*;

const NAMES: [&str; 5] = ["A", "=`A` + 1", "=1+1", "loc://x(1)", "=`loc://x` * 2"];

/// An engine that has subscribed these PVs at 0 s.
fn opened() -> (Engine, Vec<Pv>) {
    let mut engine = Engine::new();
    let pvs = engine.open(NAMES, Filter::ALL, at(0.0));
    connect(&mut engine, 0.0);
    let requests = sent(&mut engine, 0.0);
    // The PV itself, and as an input.
    assert_eq!(requests, [(1, subscribe_of(&["A", "A"]))]);
    let bytes = snapshot(1, &[PvId(1), PvId(1)], 1..2);
    engine.receive(bytes, at(0.0)).unwrap();
    engine.changes();
    (engine, pvs)
}

fn states<'a>(engine: &'a Engine, pvs: &[Pv]) -> Vec<State<'a>> {
    let state = |pv: &Pv| engine.read(*pv).unwrap().state();
    pvs.iter().map(state).collect()
}

fn changed(engine: &mut Engine) -> Vec<Pv> {
    let mut pvs: Vec<_> = engine.changes().iter().map(|change| change.pv).collect();
    pvs.sort_unstable();
    pvs
}

#[test]
fn pvs_of_a_silent_relay_are_unresponsive_until_it_answers() {
    let (mut engine, pvs) = opened();
    assert_eq!(states(&engine, &pvs), [State::Connected; 5]);
    sent(&mut engine, 2.0);
    sent(&mut engine, 3.0);
    assert_eq!(engine.silent_since(), Some(at(0.0)));
    let of_relay = State::Unresponsive;
    let of_client = State::Connected;
    assert_eq!(
        states(&engine, &pvs),
        [of_relay, of_relay, of_client, of_client, of_client]
    );
    let view = engine.read(pvs[0]).unwrap();
    assert_eq!(view.last_heard(), Some(at(0.0)));
    assert_eq!(view.value(), Some(Value::Number(1.0)), "the last one");
    assert_eq!(engine.read(pvs[2]).unwrap().last_heard(), None);
    let reported = changed(&mut engine);
    assert!(reported.contains(&pvs[0]) && reported.contains(&pvs[1]));
    assert!(!reported.iter().any(|pv| pvs[2..].contains(pv)));

    let pong = Reply::Pong {
        client_time_ns: 1,
        relay_time_ns: 2,
    };
    answer(&mut engine, 4.0, 0, &pong);
    assert_eq!(engine.silent_since(), None);
    assert_eq!(states(&engine, &pvs), [State::Connected; 5]);
    let reported = changed(&mut engine);
    assert!(reported.contains(&pvs[0]) && reported.contains(&pvs[1]));
    assert_eq!(changed(&mut engine), []);
}

#[test]
fn selections_show_silence_as_browsers_do() {
    let (mut engine, pvs) = opened();
    sent(&mut engine, 2.0);
    sent(&mut engine, 3.0);
    let selection = select::program("{ connection { state unresponsive } }").unwrap();
    let shown = |pv: Pv| engine.read(pv).unwrap().select(&selection).to_json();
    let silent = r#"{"connection":{"state":"connected","unresponsive":true}}"#;
    let current = r#"{"connection":{"state":"connected","unresponsive":false}}"#;
    let expected = [silent, silent, current, current, current];
    for (pv, expected) in pvs.iter().zip(expected) {
        assert_eq!(shown(*pv), expected);
    }
}

#[test]
fn silent_server_makes_its_pv_and_formulas_unresponsive() {
    let (mut engine, pvs) = opened();
    let silent = pvwire_schema::types::Connection {
        heard_ns: 1_800_000_000_000_000_000,
        ..connected()
    };
    let bytes = frame(FrameKind::Update, 11, 10, |e| e.connection(PvId(1), silent));
    engine.receive(bytes, at(1.0)).unwrap();
    assert!(changed(&mut engine).contains(&pvs[1]));
    assert_eq!(states(&engine, &pvs[..2]), [State::Unresponsive; 2]);
    assert_eq!(engine.read(pvs[1]).unwrap().last_heard(), Some(at(0.0)));
    assert_eq!(value(&engine, pvs[1]), Some(Value::Number(2.0)));
}

#[test]
fn formula_has_no_value_while_its_connected_input_has_none() {
    let (mut engine, pvs) = opened();
    // Read access was taken, or the server can't send the value: an epoch without one.
    for epoch in [1, 2] {
        let metadata = Metadata {
            epoch,
            value_type: ValueType::Float64,
            ..Metadata::default()
        };
        let tick = 10 + u64::from(epoch);
        let bytes = frame(FrameKind::Update, tick, tick - 1, |e| {
            e.metadata(PvId(1), &metadata);
        });
        engine.receive(bytes, at(1.0)).unwrap();
    }
    assert!(changed(&mut engine).contains(&pvs[1]));
    assert_eq!(states(&engine, &pvs[..2]), [State::Connected; 2]);
    assert_eq!(value(&engine, pvs[1]), None);
    assert_eq!(engine.read(pvs[1]).unwrap().alarm(), None);
}
