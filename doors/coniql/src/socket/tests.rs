//! Tests of a socket's protocol state.

use pvwire_core::graphql::Dialect;

use super::*;
use crate::documents::Documents;

fn socket(protocol: Protocol) -> Socket {
    Socket::new(Settings {
        protocol,
        documents: Arc::new(Documents::new(Dialect::Pvwire)),
        max_names: 4,
    })
}

fn begun(protocol: Protocol) -> Socket {
    let mut socket = socket(protocol);
    socket.take(r#"{"type":"connection_init"}"#);
    socket
}

fn transport() -> Socket {
    begun(Protocol::Transport)
}

fn texts(reply: Option<Reply>) -> Vec<String> {
    match reply {
        Some(Reply::Texts(texts)) => all(texts),
        other => panic!("{other:?}"),
    }
}

fn all(texts: Vec<Vec<u8>>) -> Vec<String> {
    let text = |text| String::from_utf8(text).unwrap();
    texts.into_iter().map(text).collect()
}

fn closed(reply: Option<Reply>) -> (u16, String) {
    match reply {
        Some(Reply::Close(code, reason)) => (code, reason),
        other => panic!("{other:?}"),
    }
}

fn message(kind: &str, id: &str, query: &str) -> String {
    let payload = serde_json::json!({ "query": query });
    serde_json::json!({"type": kind, "id": id, "payload": payload}).to_string()
}

fn subscribe(id: &str, pv: &str) -> String {
    let query = format!("subscription {{ subscribeChannel(id: \"{pv}\") {{ id }} }}");
    message("subscribe", id, &query)
}

fn complete_of(id: &str) -> String {
    format!(r#"{{"type":"complete","id":"{id}"}}"#)
}

fn one(socket: &mut Socket) -> Wanted {
    let mut wanted = socket.wanted(10);
    assert_eq!(wanted.len(), 1);
    wanted.remove(0)
}

#[test]
fn connection_is_acknowledged_once_in_the_newer_protocol() {
    let mut newer = socket(Protocol::Transport);
    let init = r#"{"type":"connection_init"}"#;
    assert_eq!(texts(newer.take(init)), [r#"{"type":"connection_ack"}"#]);
    let twice = (4429, "Too many initialisation requests".to_owned());
    assert_eq!(closed(newer.take(init)), twice);
    let mut legacy = socket(Protocol::Legacy);
    let acknowledged = [r#"{"type":"connection_ack"}"#, r#"{"type":"ka"}"#];
    assert_eq!(texts(legacy.take(init)), acknowledged);
}

#[test]
fn client_that_breaks_the_protocol_is_closed_with_its_code() {
    let mut unknown = socket(Protocol::Transport);
    assert_eq!(closed(unknown.take(&subscribe("1", "X"))).0, 4401);
    assert_eq!(closed(transport().take("x")).0, 4400);
    assert_eq!(closed(transport().take(r#"{"type":"start"}"#)).0, 4400);
    let mut socket = transport();
    assert!(socket.take(&subscribe("1", "X")).is_none());
    let reason = "Subscriber for 1 already exists".to_owned();
    assert_eq!(closed(socket.take(&subscribe("1", "Y"))), (4409, reason));
    let long = "ü".repeat(100);
    let (_, reason) = closed(transport().take(&format!(r#"{{"type":"{long}"}}"#)));
    assert!(reason.len() <= MAX_REASON_BYTES, "{reason}");
}

#[test]
fn client_without_init_is_closed_after_a_minute() {
    let mut silent = socket(Protocol::Transport);
    assert!(silent.passing(Duration::from_secs(59)).is_none());
    let (code, _) = closed(silent.passing(INIT_WITHIN));
    assert_eq!(code, 4408);
    assert!(transport().passing(INIT_WITHIN).is_none());
}

#[test]
fn legacy_connection_is_kept_alive_every_second() {
    let mut legacy = begun(Protocol::Legacy);
    let at = |legacy: &mut Socket, ms| legacy.passing(Duration::from_millis(ms));
    assert!(at(&mut legacy, 900).is_none());
    assert_eq!(texts(at(&mut legacy, 1_000)), [r#"{"type":"ka"}"#]);
    assert!(at(&mut legacy, 1_500).is_none());
    assert_eq!(texts(at(&mut legacy, 2_100)), [r#"{"type":"ka"}"#]);
}

#[test]
fn ping_is_answered_with_its_payload() {
    let ping = r#"{"type":"ping","payload":{"a":1}}"#;
    let pong = r#"{"type":"pong","payload":{"a":1}}"#;
    assert_eq!(texts(transport().take(ping)), [pong]);
}

#[test]
fn subscription_gets_its_results_until_it_is_completed() {
    let mut socket = transport();
    assert!(socket.take(&subscribe("a", "X")).is_none());
    let wanted = one(&mut socket);
    assert_eq!((wanted.name.as_str(), wanted.ordinal), ("X", 0));
    assert_eq!(socket.result(PvId(3), b"{}"), None);
    socket.accepted(&wanted, PvId(3));
    let result = socket.result(PvId(3), br#"{"id":"ca://X"}"#).unwrap();
    let expected =
        r#"{"id":"a","type":"next","payload":{"data":{"subscribeChannel":{"id":"ca://X"}}}}"#;
    assert_eq!(all(vec![result]), [expected]);
    assert!(!socket.has_changes());
    assert!(socket.take(&complete_of("a")).is_none());
    assert_eq!(socket.ended(), [PvId(3)]);
    assert_eq!(socket.result(PvId(3), b"{}"), None);
    assert!(
        socket.take(&subscribe("a", "X")).is_none(),
        "the id is free"
    );
}

#[test]
fn equal_subscriptions_of_one_socket_are_told_apart() {
    let mut socket = transport();
    socket.take(&subscribe("a", "X"));
    socket.take(&subscribe("b", "X"));
    let wanted = socket.wanted(10);
    let ordinals: Vec<_> = wanted.iter().map(|wanted| wanted.ordinal).collect();
    assert_eq!(ordinals, [0, 1]);
    socket.accepted(&wanted[0], PvId(3));
    socket.accepted(&wanted[1], PvId(4));
    socket.take(&complete_of("a"));
    assert_eq!(socket.ended(), [PvId(3)]);
    socket.take(&subscribe("c", "X"));
    assert_eq!(one(&mut socket).ordinal, 0);
    let text = all(vec![socket.result(PvId(4), b"{}").unwrap()]);
    assert!(text[0].contains(r#""id":"b""#), "{text:?}");
}

#[test]
fn operation_completed_before_its_turn_is_not_subscribed() {
    let mut socket = transport();
    socket.take(&subscribe("a", "X"));
    socket.take(&complete_of("a"));
    assert_eq!(socket.wanted(10), []);
    assert_eq!(socket.ended(), []);
}

#[test]
fn refused_pv_ends_its_operation_with_an_error() {
    let mut socket = transport();
    socket.take(&subscribe("a", "nosuch://X"));
    let wanted = one(&mut socket);
    let told = all(vec![socket.refused(&wanted, "no such source").unwrap()]);
    let expected =
        r#"{"id":"a","type":"error","payload":[{"message":"nosuch://X: no such source"}]}"#;
    assert_eq!(told, [expected]);
    assert!(socket.refused(&wanted, "again").is_none());
    assert!(
        socket.take(&subscribe("a", "X")).is_none(),
        "the id is free"
    );
}

#[test]
fn invalid_document_is_answered_by_its_errors() {
    let mut socket = transport();
    let told = texts(socket.take(&message("subscribe", "a", "{ nosuch }")));
    assert!(told[0].starts_with(r#"{"id":"a","type":"error","payload":[{"message":"#));
    assert!(
        socket.take(&subscribe("a", "X")).is_none(),
        "the id is free"
    );
}

#[test]
fn query_without_pvs_is_answered_at_once() {
    let told = texts(transport().take(&message("subscribe", "a", "{ __typename }")));
    let expected = [
        r#"{"id":"a","type":"next","payload":{"data":{"__typename":"Query"}}}"#,
        r#"{"id":"a","type":"complete"}"#,
    ];
    assert_eq!(told, expected);
}

#[test]
fn query_ends_with_its_response_unless_it_was_completed() {
    let mut socket = transport();
    let query = message("subscribe", "a", "{ getChannel(id: \"X\") { id } }");
    let run = |socket: &mut Socket| match socket.take(&query) {
        Some(Reply::Run(number, _)) => number,
        other => panic!("{other:?}"),
    };
    let number = run(&mut socket);
    let told = all(socket.finish(number, b"{}"));
    let expected = [
        r#"{"id":"a","type":"next","payload":{}}"#,
        r#"{"id":"a","type":"complete"}"#,
    ];
    assert_eq!(told, expected);
    let number = run(&mut socket);
    socket.take(&complete_of("a"));
    assert!(socket.finish(number, b"{}").is_empty());
}

#[test]
fn operations_beyond_the_limits_are_refused() {
    let mut socket = transport();
    for n in 0..4 {
        assert!(socket.take(&subscribe(&n.to_string(), "X")).is_none());
    }
    let told = texts(socket.take(&subscribe("4", "X")));
    assert!(told[0].contains("max_subscriptions"), "{told:?}");
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    let told = texts(transport().take(&subscribe("a", &long)));
    assert!(told[0].contains("longer than"), "{told:?}");
}

#[test]
fn legacy_operation_is_replaced_by_one_with_its_id() {
    let mut legacy = begun(Protocol::Legacy);
    let start = |pv: &str| subscribe("1", pv).replace("\"subscribe\"", "\"start\"");
    legacy.take(&start("X"));
    let first = one(&mut legacy);
    legacy.accepted(&first, PvId(3));
    assert!(legacy.take(&start("Y")).is_none());
    assert_eq!(legacy.ended(), [PvId(3)]);
    let second = one(&mut legacy);
    legacy.accepted(&second, PvId(4));
    let text = all(vec![legacy.result(PvId(4), b"{}").unwrap()]);
    assert!(text[0].contains(r#""type":"data""#), "{text:?}");
    legacy.take(r#"{"type":"stop","id":"1"}"#);
    assert_eq!(legacy.ended(), [PvId(4)]);
    assert_eq!(
        closed(legacy.take(r#"{"type":"connection_terminate"}"#)).0,
        1000
    );
}

#[test]
fn subscription_of_many_fields_is_refused_because_each_update_writes_them() {
    let subscribe = |id: &str, fields: usize| {
        let fields: String = (0..fields).map(|n| format!("a{n}: id ")).collect();
        let query = format!("subscription {{ subscribeChannel(id: \"X\") {{ {fields} }} }}");
        message("subscribe", id, &query)
    };
    let mut socket = transport();
    let refused = texts(socket.take(&subscribe("1", 257))).concat();
    assert!(
        refused.contains("may select 256 fields, not 257"),
        "{refused}"
    );
    assert!(socket.take(&subscribe("1", 200)).is_none());
    let refused = texts(socket.take(&subscribe("2", 200))).concat();
    assert!(
        refused.contains("may select 256 fields together"),
        "{refused}"
    );
    assert!(socket.take(&subscribe("3", 50)).is_none());
    socket.take(&complete_of("1"));
    assert!(socket.take(&subscribe("2", 200)).is_none());
    // A query is written once.
    let fields: String = (0..1_000).map(|n| format!("a{n}: id ")).collect();
    let query = format!("{{ getChannel(id: \"X\") {{ {fields} }} }}");
    let reply = socket.take(&message("subscribe", "4", &query));
    assert!(matches!(reply, Some(Reply::Run(..))), "{reply:?}");
}
