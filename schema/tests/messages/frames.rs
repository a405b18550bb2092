//! The frames whose bytes are pinned: one for each kind of message and each special case.

use pvwire_schema::encode::{FrameEncoder, RowMarks};
use pvwire_schema::types::{
    Alarm, Array, BlobValue, Connection, ConnectionState, Detail, FrameKind, Hello, Limits,
    Metadata, NameError, NameProblem, Node, NodeValue, Outcome, Page, PvId, Reply, RequestProblem,
    Severity, SkipCause, Skips, ValueType,
};

pub(crate) const T0: i64 = 1_753_000_000_123_456_789;

fn marks(sequence: u32) -> RowMarks<'static> {
    RowMarks {
        sequence,
        ..Default::default()
    }
}

fn alarm(severity: Severity, status: u16) -> Option<Alarm> {
    Some(Alarm { severity, status })
}

fn connected(read: bool, write: bool) -> Connection {
    Connection {
        state: ConnectionState::Connected,
        since_ns: T0,
        read,
        write,
        puts: write,
        heard_ns: 0,
        write_unknown: false,
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

fn node(name: &str, value: NodeValue) -> Node {
    Node {
        name: name.to_owned(),
        type_id: String::new(),
        value,
    }
}

pub(crate) fn every_kind_of_field() -> Node {
    let point = |x: f64| {
        let field = node("x", NodeValue::Number(ValueType::Float32, x));
        node("", NodeValue::Structure(vec![field]))
    };
    let held = |name: &str, value| Some(Box::new(node(name, value)));
    let shorts: Vec<u8> = [1_i16, -2, 3]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect();
    let array = Array {
        value_type: ValueType::Int16,
        count: 3,
        data: shorts.into(),
    };
    let fields = vec![
        node("bool", NodeValue::Number(ValueType::Boolean, 1.0)),
        node("byte", NodeValue::Number(ValueType::Int8, -128.0)),
        node(
            "uint",
            NodeValue::Number(ValueType::UInt32, 4_294_967_295.0),
        ),
        node("double", NodeValue::Number(ValueType::Float64, 0.1)),
        node("long", NodeValue::Int64(i64::MIN)),
        node("ulong", NodeValue::UInt64(u64::MAX)),
        node("text", NodeValue::Text("Träger".into())),
        node("labels", NodeValue::TextArray(vec!["a".into(), "b".into()])),
        node("array", NodeValue::Array(array)),
        node(
            "points",
            NodeValue::StructureArray(vec![point(0.5), Node::default()]),
        ),
        node(
            "union",
            NodeValue::Union(held("choice", NodeValue::Int64(7))),
        ),
        node("unset", NodeValue::Union(None)),
        node("any", NodeValue::Any(held("", NodeValue::Text("x".into())))),
        node(
            "anys",
            NodeValue::AnyArray(vec![node("", NodeValue::Any(None))]),
        ),
        node("unions", NodeValue::UnionArray(Vec::new())),
    ];
    Node {
        type_id: "epics:nt/NTTable:1.0".into(),
        ..node("", NodeValue::Structure(fields))
    }
}

/// Every frame that is pinned, by name.
pub(crate) fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let mut all = Vec::new();
    let mut encoder = FrameEncoder::new();
    let mut frame = |name, kind, tick, prev_tick, fill: &dyn Fn(&mut FrameEncoder)| {
        encoder.packing(name == "packed");
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
                authenticate: false,
                user: "jane".into(),
                expires_in_ms: 3_600_000,
                relays: Vec::new(),
                crowded: false,
            }),
        );
    });
    frame("hello_fleet", FrameKind::Answer, 7, 0, &|e| {
        e.reply(
            0,
            &Reply::Hello(Hello {
                relay_version: "0.1.0".into(),
                relay_instance: 0x0123_4567_89ab_cdef,
                max_request_bytes: 1 << 20,
                max_subscriptions: 20_000,
                ack_interval_ms: 250,
                not_found_after_ms: 5_000,
                authenticate: false,
                user: String::new(),
                expires_in_ms: 0,
                relays: vec!["wss://one/ws".into(), "wss://two/ws".into()],
                crowded: true,
            }),
        );
    });
    frame("relays", FrameKind::Answer, 7, 0, &|e| {
        let relays = vec!["wss://two/ws".into(), "wss://three/ws".into()];
        e.reply(0, &Reply::Relays { relays });
    });
    frame("hello_stranger", FrameKind::Answer, 0, 0, &|e| {
        e.reply(
            0,
            &Reply::Hello(Hello {
                relay_version: "0.1.0".into(),
                relay_instance: 0x0123_4567_89ab_cdef,
                max_request_bytes: 1 << 20,
                max_subscriptions: 20_000,
                ack_interval_ms: 250,
                not_found_after_ms: 5_000,
                authenticate: true,
                user: String::new(),
                expires_in_ms: 0,
                relays: Vec::new(),
                crowded: false,
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
        e.connection(PvId(3), connected(true, true));
        e.connection(PvId(4), connected(true, false));
        e.connection(PvId(5), connected(true, true));
        let connecting = Connection {
            state: ConnectionState::Connecting,
            since_ns: T0,
            read: false,
            write: false,
            puts: false,
            heard_ns: 0,
            write_unknown: false,
        };
        e.connection(PvId(6), connecting);
        let number_3 = RowMarks {
            alarm: alarm(Severity::NoAlarm, 0),
            sequence: 100,
            ..Default::default()
        };
        e.number(PvId(3), T0, 21.5, number_3);
        let number_4 = RowMarks {
            alarm: alarm(Severity::Minor, 7),
            sequence: 1,
            ..Default::default()
        };
        e.number(PvId(4), T0 - 5_000_000_000, 2.0, number_4);
        let blob = RowMarks {
            alarm: alarm(Severity::Invalid, 17),
            sequence: 9,
            ..Default::default()
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
                skips: Skips {
                    relay: 2,
                    ..Skips::NONE
                },
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
    frame("skips", FrameKind::Update, 12, 11, &|e| {
        let all = Skips {
            relay: 1,
            source: 20,
            filter: 300,
            ..Skips::NONE
        };
        let skips = |skips| RowMarks {
            skips,
            ..Default::default()
        };
        e.number(PvId(3), T0, 1.0, skips(all));
        e.number(PvId(4), T0, 2.0, RowMarks::default());
        let text = BlobValue::Text("third".into());
        e.blob(PvId(5), T0, &text, skips(Skips { relay: 0, ..all }));
    });
    frame("paced", FrameKind::CatchUp, 40, 11, &|e| {
        e.skip_cause(SkipCause::Paced);
        e.number(PvId(3), T0 + 3_000_000_000, 99.0, marks(150));
    });
    frame("catch_up", FrameKind::CatchUp, 40, 11, &|e| {
        e.skip_cause(SkipCause::Behind);
        let number = RowMarks {
            alarm: alarm(Severity::Major, 3),
            sequence: 150,
            ..Default::default()
        };
        e.number(PvId(3), T0 + 3_000_000_000, 99.0, number);
        e.number(PvId(4), T0 + 3_000_000_001, 0.0, marks(2));
    });
    frame("packed", FrameKind::Update, 12, 11, &|e| {
        for row in 0..40_u32 {
            let value = if row % 9 == 0 {
                f64::NAN
            } else {
                f64::from(row) / 8.0 - 2.0
            };
            let time = T0 + i64::from(row * row) * 1_317;
            e.number(PvId(3 + row % 30 * 200), time, value, RowMarks::default());
        }
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
    frame("not_numbers", FrameKind::Update, 12, 11, &|e| {
        let values = [(3, f64::NAN), (4, f64::INFINITY), (6, f64::NEG_INFINITY)];
        for (id, value) in values {
            e.number(PvId(id), T0, value, RowMarks::default());
        }
    });
    frame("disconnected", FrameKind::Update, 13, 12, &|e| {
        let gone = Connection {
            state: ConnectionState::Disconnected,
            since_ns: T0 + 77,
            read: false,
            write: false,
            puts: false,
            heard_ns: T0 + 70,
            write_unknown: false,
        };
        e.connection(PvId(3), gone);
        e.connection(
            PvId(6),
            Connection {
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
        e.connection(PvId(3), connected(true, false));
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
            BlobValue::array(ValueType::Float64, 3, doubles),
            BlobValue::array(ValueType::Int16, 5, shorts),
            BlobValue::array(ValueType::UInt8, 1, vec![255]),
            BlobValue::array(ValueType::Float32, 0, Vec::new()),
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
    frame("integers", FrameKind::Snapshot, 15, 0, &|e| {
        let detail = Detail {
            user_tag: -7,
            message: "HIHI, beam dumped".into(),
        };
        let tagged = RowMarks {
            alarm: alarm(Severity::Major, 1),
            detail: Some(&detail),
            sequence: 2,
            ..Default::default()
        };
        let meta = Metadata {
            value_type: ValueType::Int64,
            element_count: 1,
            type_id: "epics:nt/NTScalar:1.0".into(),
            form: "Hex".into(),
            ..Default::default()
        };
        e.metadata(PvId(8), &meta);
        e.connection(PvId(8), connected(true, true));
        e.number(PvId(8), T0, 42.0, marks(1));
        let exact = BlobValue::Int64(9_007_199_254_740_993);
        e.blob(PvId(8), T0 + 1, &exact, tagged);
        e.blob(PvId(9), T0 + 2, &BlobValue::Int64(i64::MIN), marks(1));
        e.blob(PvId(10), T0 + 3, &BlobValue::UInt64(u64::MAX), marks(1));
        let reply = Reply::Subscribed {
            ids: vec![PvId(8), PvId(9), PvId(10)],
            errors: Vec::new(),
        };
        e.reply(1, &reply);
    });
    frame("structure", FrameKind::Update, 16, 15, &|e| {
        e.blob(
            PvId(30),
            T0,
            &BlobValue::Structure(every_kind_of_field()),
            RowMarks::default(),
        );
    });
    frame("structure_part", FrameKind::Update, 17, 16, &|e| {
        let changed = node("double", NodeValue::Number(ValueType::Float64, 0.5));
        let part = Node {
            type_id: "epics:nt/NTTable:1.0".into(),
            ..node("", NodeValue::Structure(vec![changed]))
        };
        let part = BlobValue::StructurePart(part);
        e.blob(PvId(30), T0 + 1, &part, RowMarks::default());
    });
    frame("unsaid", FrameKind::Update, 18, 17, &|e| {
        let untried = Connection {
            write_unknown: true,
            ..connected(true, true)
        };
        e.connection(PvId(31), untried);
        let nowhere = Connection {
            state: ConnectionState::NotFound,
            ..connected(false, false)
        };
        e.connection(PvId(32), nowhere);
        let missing = Metadata {
            missing_field: "the structure has no field \"a\"; it has: value".into(),
            ..Default::default()
        };
        e.metadata(PvId(32), &missing);
        let marks = RowMarks {
            alarm: Some(Alarm::NONE),
            ..Default::default()
        };
        e.number(PvId(31), 0, 0.1, marks);
    });
    frame("put_done", FrameKind::Answer, 17, 0, &|e| {
        let (outcome, message) = (Outcome::BadValue, "\"abc\" is no number".into());
        e.reply(12, &Reply::PutDone { outcome, message });
    });
    frame("put_written", FrameKind::Answer, 17, 0, &|e| {
        let (outcome, message) = (Outcome::Done, String::new());
        e.reply(12, &Reply::PutDone { outcome, message });
    });
    frame("put_held", FrameKind::Answer, 17, 0, &|e| {
        let holds = node("", NodeValue::Number(ValueType::Float64, 3.0));
        e.put_done(12, Outcome::Done, "the PV now holds 3", Some(&holds));
    });
    frame("rpc_done", FrameKind::Answer, 17, 0, &|e| {
        let value = NodeValue::Number(ValueType::Float64, 0.1);
        let result = node("", NodeValue::Structure(vec![node("value", value)]));
        e.rpc_done(13, Outcome::Done, "", Some(&result));
    });
    frame("answer_page", FrameKind::Answer, 17, 0, &|e| {
        let page = Page {
            outcome: Outcome::Done,
            page: 1,
            last: true,
            ..Page::default()
        };
        e.page(11, &page, br#"{"names":[]}"#);
    });
    frame("answer_refused", FrameKind::Answer, 17, 0, &|e| {
        let page = Page {
            outcome: Outcome::BadName,
            message: "this relay has no service \"name\"; it has: names".into(),
            page: 0,
            last: true,
        };
        e.page(11, &page, &[]);
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
        e.connection(PvId(3), connected(true, true));
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
