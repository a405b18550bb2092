//! Are the bytes of each interesting frame still the ones that every client reads?
//!
//! `PVWIRE_WRITE_GOLDEN=1 cargo test -p pvwire-schema` writes the files again; a changed `.bin` is a
//! changed protocol.

use std::fs;
use std::path::PathBuf;

use pvwire_schema::encode::{self, FrameEncoder, RowMarks};
use pvwire_schema::types::{
    Alarm, BlobValue, Channel, ConnectionState, FrameKind, Hello, Limits, Metadata, NameError,
    NameProblem, PvId, Reply, Request, RequestBody, RequestProblem, Severity, ValueType,
};
use pvwire_schema::{decode, types};
use serde_json::{Value, json};

const T0: i64 = 1_753_000_000_123_456_789;

fn marks(sequence: u32) -> RowMarks {
    RowMarks {
        sequence,
        ..Default::default()
    }
}

fn alarm(severity: Severity, status: u16) -> Option<Alarm> {
    Some(Alarm { severity, status })
}

fn connected(read: bool, write: bool) -> Channel {
    Channel {
        state: ConnectionState::Connected,
        since_ns: T0,
        read,
        write,
    }
}

fn metadata_of_a_temperature() -> Metadata {
    Metadata {
        value_type: ValueType::Float64,
        element_count: 1,
        units: "°C".into(),
        precision: Some(2),
        display: Limits {
            low: 0.0,
            high: 100.0,
        },
        control: Limits {
            low: 10.0,
            high: 90.0,
        },
        warning: Limits {
            low: f64::NAN,
            high: 60.0,
        },
        alarm: Limits {
            low: f64::NAN,
            high: 80.0,
        },
        description: "Magnet 1 temperature".into(),
        epoch: 5,
        ..Default::default()
    }
}

fn sixteen_choices() -> Metadata {
    Metadata {
        value_type: ValueType::Enum,
        element_count: 1,
        choices: (0..16).map(|n| format!("State {n}")).collect(),
        ..Default::default()
    }
}

/// Every frame that is pinned, by name.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = Vec::new();
    let mut encoder = FrameEncoder::new();
    let mut frame = |name, kind, tick, prev_tick, fill: &dyn Fn(&mut FrameEncoder)| {
        encoder.begin(kind, tick, prev_tick);
        fill(&mut encoder);
        all.push((name, encoder.finish().to_vec()));
    };

    frame("hello", FrameKind::Answer, 7, 0, &|e| {
        e.reply(
            0,
            &Reply::Hello(Hello {
                relay_version: "0.1.0".into(),
                relay_instance: 0x0123_4567_89ab_cdef,
                max_request_bytes: 1 << 20,
                max_subscriptions: 20_000,
                ack_interval_ms: 250,
                not_found_after_ms: 5_000,
            }),
        );
    });
    frame("snapshot", FrameKind::Snapshot, 10, 0, &|e| {
        let ids = vec![PvId(3), PvId(4), PvId(5), PvId(6), PvId::NONE];
        let errors = vec![NameError {
            index: 4,
            problem: NameProblem::BadName,
            message: "a PV name can't be empty".into(),
        }];
        e.reply(1, &Reply::Subscribed { ids, errors });
        e.metadata(PvId(3), &metadata_of_a_temperature());
        e.metadata(PvId(4), &sixteen_choices());
        let text = Metadata {
            value_type: ValueType::String,
            element_count: 1,
            ..Default::default()
        };
        e.metadata(PvId(5), &text);
        e.channel(PvId(3), connected(true, true));
        e.channel(PvId(4), connected(true, false));
        e.channel(PvId(5), connected(true, true));
        let connecting = Channel {
            state: ConnectionState::Connecting,
            since_ns: T0,
            read: false,
            write: false,
        };
        e.channel(PvId(6), connecting);
        let number_3 = RowMarks {
            alarm: alarm(Severity::NoAlarm, 0),
            sequence: 100,
            skipped: 0,
        };
        e.number(PvId(3), T0, 21.5, number_3);
        let number_4 = RowMarks {
            alarm: alarm(Severity::Minor, 7),
            sequence: 1,
            skipped: 0,
        };
        e.number(PvId(4), T0 - 5_000_000_000, 2.0, number_4);
        let blob = RowMarks {
            alarm: alarm(Severity::Invalid, 17),
            sequence: 9,
            skipped: 0,
        };
        e.blob(
            PvId(5),
            T0 + 1,
            &BlobValue::Text("Träger läuft".into()),
            blob,
        );
    });
    frame("update", FrameKind::Update, 11, 10, &|e| {
        e.number(
            PvId(3),
            T0 + 100_000_000,
            61.25,
            RowMarks {
                alarm: alarm(Severity::Minor, 4),
                ..Default::default()
            },
        );
        e.number(PvId(4), T0 + 100_000_900, 15.0, RowMarks::default());
        e.number(
            PvId(3),
            T0 + 100_050_000,
            81.0,
            RowMarks {
                alarm: alarm(Severity::Major, 3),
                skipped: 2,
                ..Default::default()
            },
        );
        e.blob(
            PvId(5),
            T0 + 100_060_000,
            &BlobValue::Text(String::new()),
            RowMarks {
                alarm: alarm(Severity::NoAlarm, 0),
                ..Default::default()
            },
        );
    });
    frame("catch_up", FrameKind::CatchUp, 40, 11, &|e| {
        let number = RowMarks {
            alarm: alarm(Severity::Major, 3),
            sequence: 150,
            skipped: 0,
        };
        e.number(PvId(3), T0 + 3_000_000_000, 99.0, number);
        e.number(PvId(4), T0 + 3_000_000_001, 0.0, marks(2));
    });
    frame("special_numbers", FrameKind::Update, 12, 11, &|e| {
        let values = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -0.0,
            f64::MIN_POSITIVE,
            f64::MAX,
            9_007_199_254_740_992.0,
            f64::from(i32::MIN),
            f64::from(u32::MAX),
        ];
        for (index, value) in values.into_iter().enumerate() {
            let id = PvId([3, 70_000, 4, u32::MAX - 1][index % 4]);
            let time = [T0, 0, i64::MIN, i64::MAX][index % 4];
            e.number(id, time, value, RowMarks::default());
        }
    });
    frame("disconnected", FrameKind::Update, 13, 12, &|e| {
        let gone = Channel {
            state: ConnectionState::Disconnected,
            since_ns: T0 + 77,
            read: false,
            write: false,
        };
        e.channel(PvId(3), gone);
        e.channel(
            PvId(6),
            Channel {
                state: ConnectionState::NotFound,
                ..gone
            },
        );
    });
    frame("metadata_change", FrameKind::Update, 14, 13, &|e| {
        let mut changed = metadata_of_a_temperature();
        changed.units = "K".into();
        changed.precision = Some(0);
        changed.alarm = Limits::NONE;
        e.metadata(PvId(3), &changed);
        e.channel(PvId(3), connected(true, false));
    });
    frame("arrays", FrameKind::Update, 15, 14, &|e| {
        let doubles: Vec<u8> = [1.5_f64, -2.5, f64::NAN]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let shorts: Vec<u8> = [1_i16, -2, 3, 4, 5]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let arrays = [
            BlobValue::array(ValueType::Float64, 3, &doubles),
            BlobValue::array(ValueType::Int16, 5, &shorts),
            BlobValue::array(ValueType::UInt8, 1, &[255]),
            BlobValue::array(ValueType::Float32, 0, &[]),
            BlobValue::TextArray(vec!["one".into(), String::new(), "drei".into()]),
        ];
        for (index, array) in arrays.iter().enumerate() {
            e.blob(
                PvId(20 + index as u32),
                T0 + index as i64,
                array,
                RowMarks::default(),
            );
        }
    });
    frame("got", FrameKind::Answer, 16, 0, &|e| {
        let errors = vec![NameError {
            index: 1,
            problem: NameProblem::TimedOut,
            message: "no value within 1000 ms".into(),
        }];
        e.reply(
            8,
            &Reply::Got {
                ids: vec![PvId(3), PvId::NONE],
                errors,
            },
        );
        e.metadata(PvId(3), &metadata_of_a_temperature());
        e.channel(PvId(3), connected(true, true));
        e.number(PvId(3), T0, 21.5, marks(7));
    });
    frame("unsubscribed", FrameKind::Answer, 17, 0, &|e| {
        e.reply(9, &Reply::Unsubscribed { ids: vec![PvId(3)] });
    });
    frame("pong", FrameKind::Answer, 17, 0, &|e| {
        e.reply(
            10,
            &Reply::Pong {
                client_time_ns: T0,
                relay_time_ns: T0 + 250_000,
            },
        );
    });
    frame("error", FrameKind::Answer, 17, 0, &|e| {
        let message = "this relay doesn't know the request".into();
        e.reply(
            11,
            &Reply::Error {
                problem: RequestProblem::NotSupported,
                message,
            },
        );
    });
    all
}

fn requests() -> Vec<(&'static str, Request)> {
    let request = |id, body| Request { id, body };
    vec![
        (
            "request_subscribe",
            request(
                1,
                RequestBody::Subscribe {
                    names: vec!["TEMP".into(), "ca://MODE".into()],
                },
            ),
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
            "request_get",
            request(
                3,
                RequestBody::Get {
                    names: vec!["TEMP".into()],
                    timeout_ms: 1_000,
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
    ]
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn same_as_file(name: &str, bytes: &[u8]) {
    let path = golden(name);
    if std::env::var_os("PVWIRE_WRITE_GOLDEN").is_some() {
        fs::write(&path, bytes).expect("golden folder");
    }
    let expected = fs::read(&path).unwrap_or_default();
    assert!(
        expected == bytes,
        "{} differs from what is encoded now",
        path.display()
    );
}

fn number(value: f64) -> Value {
    if value.is_finite() {
        json!(value)
    } else {
        json!(value.to_string())
    }
}

fn limits(limits: Limits) -> Value {
    json!([number(limits.low), number(limits.high)])
}

fn channel(id: PvId, channel: types::Channel) -> Value {
    json!({ "id": id.0, "state": format!("{:?}", channel.state), "sinceNs": channel.since_ns.to_string(),
            "read": channel.read, "write": channel.write })
}

fn metadata(id: PvId, metadata: &Metadata) -> Value {
    json!({ "id": id.0, "type": format!("{:?}", metadata.value_type),
            "elementCount": metadata.element_count, "units": metadata.units,
            "precision": metadata.precision, "choices": metadata.choices,
            "display": limits(metadata.display), "control": limits(metadata.control),
            "warning": limits(metadata.warning), "alarm": limits(metadata.alarm),
            "description": metadata.description, "epoch": metadata.epoch })
}

fn reply(reply: &Reply) -> Value {
    let ids = |ids: &[PvId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let errors = |errors: &[NameError]| -> Vec<Value> {
        let error = |e: &NameError| json!({ "index": e.index, "problem": format!("{:?}", e.problem), "message": e.message });
        errors.iter().map(error).collect()
    };
    match reply {
        Reply::Hello(hello) => json!({ "Hello": {
            "relayVersion": hello.relay_version, "relayInstance": hello.relay_instance.to_string(),
            "maxRequestBytes": hello.max_request_bytes, "maxSubscriptions": hello.max_subscriptions,
            "ackIntervalMs": hello.ack_interval_ms, "notFoundAfterMs": hello.not_found_after_ms } }),
        Reply::Subscribed {
            ids: list,
            errors: bad,
        } => {
            json!({ "Subscribed": { "ids": ids(list), "errors": errors(bad) } })
        }
        Reply::Unsubscribed { ids: list } => json!({ "Unsubscribed": { "ids": ids(list) } }),
        Reply::Got {
            ids: list,
            errors: bad,
        } => {
            json!({ "Got": { "ids": ids(list), "errors": errors(bad) } })
        }
        Reply::Pong {
            client_time_ns,
            relay_time_ns,
        } => json!({ "Pong": {
            "clientTimeNs": client_time_ns.to_string(), "relayTimeNs": relay_time_ns.to_string() } }),
        Reply::Error { problem, message } => {
            json!({ "Error": { "problem": format!("{problem:?}"), "message": message } })
        }
    }
}

/// What a reader must find in the frame, in a form that every language can compare.
fn described(bytes: &[u8]) -> Value {
    let view = decode::frame(bytes).expect("our own frame");
    let blob = |blob: decode::BlobView<'_>| {
        json!({ "id": blob.id.0, "timeNs": blob.time_ns.to_string(),
                "type": format!("{:?}", blob.value_type), "array": blob.array, "count": blob.count,
                "dataOffset": blob.data_offset, "data": blob.data,
                "text": blob.text().collect::<Vec<_>>() })
    };
    let row = |row: decode::NumberRow| json!({ "id": row.id.0, "timeNs": row.time_ns.to_string(), "value": number(row.value) });
    let alarm = |row: decode::AlarmRow| json!({ "row": row.row, "severity": row.alarm.severity.number(), "status": row.alarm.status });
    json!({
        "kind": format!("{:?}", view.kind()),
        "tick": view.tick(),
        "prevTick": view.prev_tick(),
        "metadata": view.metadata().map(|(id, m)| metadata(id, &m)).collect::<Vec<_>>(),
        "channels": view.channels().map(|(id, c)| channel(id, c)).collect::<Vec<_>>(),
        "numbers": view.numbers().map(row).collect::<Vec<_>>(),
        "blobs": view.blobs().map(blob).collect::<Vec<_>>(),
        "alarms": view.alarms().map(alarm).collect::<Vec<_>>(),
        "skips": view.skips().map(|s| json!({ "row": s.row, "count": s.count })).collect::<Vec<_>>(),
        "sequences": view.sequences().map(|list| list.collect::<Vec<_>>()),
        "replyTo": view.reply_to(),
        "reply": view.reply().map(|r| reply(&r)),
    })
}

#[test]
fn frames_are_pinned_byte_for_byte() {
    for (name, bytes) in frames() {
        same_as_file(&format!("{name}.bin"), &bytes);
    }
}

#[test]
fn frames_say_what_their_description_says() {
    for (name, bytes) in frames() {
        let text = serde_json::to_string_pretty(&described(&bytes)).unwrap() + "\n";
        same_as_file(&format!("{name}.json"), text.as_bytes());
    }
}

#[test]
fn requests_are_pinned_and_come_back_as_they_were() {
    for (name, request) in requests() {
        let bytes = encode::request(&request);
        same_as_file(&format!("{name}.bin"), &bytes);
        assert_eq!(decode::request(&bytes), Ok(request));
    }
}

#[test]
fn arrays_can_be_viewed_in_place() {
    let (_, bytes) = frames()
        .into_iter()
        .find(|(name, _)| *name == "arrays")
        .unwrap();
    for blob in decode::frame(&bytes).unwrap().blobs() {
        assert_eq!(blob.data_offset % 8, 0, "array of {:?}", blob.value_type);
    }
}
