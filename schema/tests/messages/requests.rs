//! The requests whose bytes are pinned.

use pvwire_schema::types::{
    Array, Expected, Filter, PutRequest, PutValue, PvId, Request, RequestBody, ValueType,
};

use crate::frames::T0;

pub(crate) fn requests() -> Vec<(&'static str, Request)> {
    let request = |id, body| Request { id, body };
    vec![
        (
            "request_subscribe",
            request(
                1,
                RequestBody::Subscribe {
                    names: vec!["TEMP".into(), "ca://MODE".into()],
                    filter: Filter::default(),
                },
            ),
        ),
        (
            "request_subscribe_filter",
            request(
                1,
                RequestBody::Subscribe {
                    names: vec!["TEMP".into()],
                    filter: Filter {
                        min_interval_ms: 100,
                        deadband: 0.5,
                        every: 10,
                        stride: 2,
                        max_length: 10_000,
                        points: 1_000,
                        float32: true,
                        average: false,
                    },
                },
            ),
        ),
        (
            "request_subscribe_average",
            request(
                1,
                RequestBody::Subscribe {
                    names: vec!["TEMP".into()],
                    filter: Filter {
                        min_interval_ms: 1_000,
                        average: true,
                        ..Filter::ALL
                    },
                },
            ),
        ),
        (
            "request_put_within",
            request(
                5,
                RequestBody::PutWithin {
                    puts: vec![PutRequest {
                        name: "TEMP:SET".into(),
                        value: PutValue::Number(25.0),
                        wait: true,
                        timeout_ms: 1_000,
                        expected: None,
                    }],
                    all_permitted: false,
                },
            ),
        ),
        (
            "request_authenticate",
            request(
                10,
                RequestBody::Authenticate {
                    token: "header.claims.signature".into(),
                },
            ),
        ),
        (
            "request_pace",
            request(0, RequestBody::Pace { interval_ms: 1_000 }),
        ),
        (
            "request_unsubscribe",
            request(
                2,
                RequestBody::Unsubscribe {
                    ids: vec![PvId(3), PvId(4)],
                },
            ),
        ),
        (
            "request_describe",
            request(
                0,
                RequestBody::Describe {
                    ids: vec![PvId(3), PvId(4)],
                },
            ),
        ),
        (
            "request_get",
            request(
                3,
                RequestBody::Get {
                    names: vec!["TEMP".into()],
                    timeout_ms: 1_000,
                    description: false,
                },
            ),
        ),
        (
            "request_get_description",
            request(
                3,
                RequestBody::Get {
                    names: vec!["TEMP".into()],
                    timeout_ms: 1_000,
                    description: true,
                },
            ),
        ),
        (
            "request_ack",
            request(
                0,
                RequestBody::Ack {
                    tick: u64::from(u32::MAX) + 7,
                },
            ),
        ),
        (
            "request_ping",
            request(4, RequestBody::Ping { client_time_ns: T0 }),
        ),
        (
            "request_put",
            request(
                5,
                RequestBody::Put(PutRequest {
                    name: "TEMP:SET".into(),
                    value: PutValue::Number(21.5),
                    wait: true,
                    timeout_ms: 30_000,
                    expected: Some(Expected {
                        sequence: 100,
                        epoch: 5,
                    }),
                }),
            ),
        ),
        (
            "request_put_array",
            request(
                6,
                RequestBody::Put(PutRequest {
                    name: "WAVE".into(),
                    value: PutValue::Array(Array {
                        value_type: ValueType::Int16,
                        count: 3,
                        data: vec![1, 0, 2, 0, 3, 0].into(),
                    }),
                    wait: false,
                    timeout_ms: 0,
                    expected: None,
                }),
            ),
        ),
        (
            "request_put_many",
            request(
                8,
                RequestBody::PutMany {
                    puts: vec![
                        PutRequest {
                            name: "TEMP:SET".into(),
                            value: PutValue::Number(21.5),
                            wait: true,
                            timeout_ms: 30_000,
                            expected: None,
                        },
                        PutRequest {
                            name: "MODE".into(),
                            value: PutValue::Text("Auto".into()),
                            wait: true,
                            timeout_ms: 30_000,
                            expected: Some(Expected {
                                sequence: 7,
                                epoch: 1,
                            }),
                        },
                    ],
                    all_permitted: true,
                },
            ),
        ),
        (
            "request_ask",
            request(
                11,
                RequestBody::Ask {
                    service: "names".into(),
                    body: br#"{"text":"temp","limit":20}"#.to_vec(),
                },
            ),
        ),
        (
            "request_cancel",
            request(0, RequestBody::Cancel { request: 11 }),
        ),
        (
            "request_rpc",
            request(
                7,
                RequestBody::Rpc {
                    name: "pva://SERVICE".into(),
                    arguments: vec![
                        ("a".into(), PutValue::Int64(-1)),
                        ("b".into(), PutValue::UInt64(u64::MAX)),
                        ("c".into(), PutValue::Text("[x] y".into())),
                        (
                            "d".into(),
                            PutValue::TextArray(vec!["x".into(), String::new()]),
                        ),
                    ],
                    timeout_ms: 1_000,
                },
            ),
        ),
    ]
}
