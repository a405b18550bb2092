//! Requests that wait until they can be sent.

use super::*;

#[test]
fn token_given_without_a_connection_waits_for_the_next_one() {
    let mut engine = Engine::new();
    engine.authenticate("secret");
    assert_eq!(sent(&mut engine, 0.0), []);
    engine.connected(at(0.0));
    let token = "secret".to_owned();
    let expected = [(1, RequestBody::Authenticate { token })];
    assert_eq!(sent(&mut engine, 0.0), expected);
    engine.disconnected(at(1.0));
    engine.connected(at(2.0));
    assert_eq!(sent(&mut engine, 2.0), [], "a token is sent once");
}

#[test]
fn description_is_requested_as_soon_as_the_pv_has_an_id() {
    let mut engine = Engine::new();
    let pvs = engine.open(["A", "B"], Filter::ALL, at(0.0));
    engine.describe(&pvs);
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    // The relay has room for one PV.
    let error = NameError {
        index: 1,
        problem: NameProblem::TooManySubscriptions,
        message: "no room".into(),
    };
    let reply = Reply::Subscribed {
        ids: vec![PvId(1), PvId::NONE],
        errors: vec![error],
    };
    answer(&mut engine, 0.0, 1, &reply);
    let describe = |id| RequestBody::Describe {
        ids: vec![PvId(id)],
    };
    assert_eq!(sent(&mut engine, 0.0), [(0, describe(1))]);
    engine.close(&pvs[..1]);
    let unsubscribe = RequestBody::Unsubscribe { ids: vec![PvId(1)] };
    assert_eq!(sent(&mut engine, 0.0), [(2, unsubscribe)]);
    let reply = Reply::Unsubscribed { ids: vec![PvId(1)] };
    answer(&mut engine, 0.0, 2, &reply);
    assert_eq!(sent(&mut engine, 0.0), [(3, subscribe_of(&["B"]))]);
    subscribed(&mut engine, 0.0, 3, 2..3);
    assert_eq!(sent(&mut engine, 0.0)[0], (0, describe(2)));
    assert_eq!(sent(&mut engine, 0.0), [], "once");
}
