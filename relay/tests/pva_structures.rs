//! Every kind of pvAccess structure is the same in a frame as an independent client sees it.
//!
//! Topology: one relay, one client, a p4p server of structures that no record has, and p4p's own
//! client to compare with.

use std::process::Command;

use pvwire_schema::decode;
use pvwire_schema::types::{
    Array, Connection, ConnectionState, Node, NodeValue, Outcome, PutRequest, PutValue, Reply,
    RequestBody, Severity, ValueType,
};
use serde_json::{Map, Value, json};

use testbed::{Client, Kept, Network, Pv, Relay, StructureServer, in_repository, prefix, python};

/// The values of PVs as seen by p4p's client.
fn truth(network: Network, names: &[String]) -> Map<String, Value> {
    let script = in_repository("tools/truth_pva.py");
    let mut command = Command::new(python());
    network.apply(&mut command);
    let output = command.arg(script).args(names).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A tree in the form used by `truth_pva.py`.
fn shown(node: &Node) -> Value {
    let number = |number: f64| json!(format!("n:{:016x}", number.to_bits()));
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let list = |nodes: &[Node]| nodes.iter().map(shown).collect::<Vec<_>>();
    match &node.value {
        NodeValue::Empty | NodeValue::Union(None) | NodeValue::Any(None) => Value::Null,
        NodeValue::Number(ValueType::Boolean, flag) => json!(format!("b:{}", *flag == 1.0)),
        NodeValue::Number(_, value) => number(*value),
        NodeValue::Int64(integer) => json!(format!("i:{integer}")),
        NodeValue::UInt64(integer) => json!(format!("i:{integer}")),
        NodeValue::Text(text) => json!(format!("s:{text}")),
        NodeValue::TextArray(texts) => {
            json!(
                texts
                    .iter()
                    .map(|text| format!("s:{text}"))
                    .collect::<Vec<_>>()
            )
        }
        NodeValue::Array(array) => {
            json!([format!("{:?}", array.value_type), hex(&array.data)])
        }
        NodeValue::Structure(fields) => fields
            .iter()
            .map(|field| (field.name.clone(), shown(field)))
            .collect(),
        NodeValue::StructureArray(nodes)
        | NodeValue::UnionArray(nodes)
        | NodeValue::AnyArray(nodes) => json!(list(nodes)),
        NodeValue::Union(Some(held)) | NodeValue::Any(Some(held)) => match held.value {
            // p4p returns the content of a union without its type.
            NodeValue::Int64(integer) if integer.unsigned_abs() < 1 << 53 => number(integer as f64),
            _ => shown(held),
        },
    }
}

fn tree(pv: &Pv) -> Option<&Node> {
    match &pv.now.as_ref()?.value {
        Kept::Structure(root) => Some(root),
        other => panic!("{other:?} is no structure"),
    }
}

/// Starts relays with these flags; clients use the first.
pub(crate) type Start<'a> = &'a dyn Fn(Network, &[&str]) -> Vec<Relay>;

fn alone(network: Network, flags: &[&str]) -> Vec<Relay> {
    vec![Relay::start(network, flags)]
}

#[test]
fn structures_are_what_an_independent_client_sees() {
    check_structures(&alone);
}

pub(crate) fn check_structures(start: Start<'_>) {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relays = start(network, &["--default-source", "pva"]);
    let mut client = Client::connect(relays[0].address());
    let kinds = [
        ("table", "epics:nt/NTTable:1.0"),
        ("image", "epics:nt/NTNDArray:1.0"),
        ("channels", "epics:nt/NTMultiChannel:1.0"),
        ("name_value", "epics:nt/NTNameValue:1.0"),
        ("union", "one_of:1.0"),
        ("variant", "any:1.0"),
        ("points", "points:1.0"),
        ("scalars", "scalars:1.0"),
    ];
    let names = kinds.map(|(name, _)| format!("{prefix}{name}"));
    client.subscribe_live(&names);
    let same = |client: &mut Client| {
        let truth = truth(network, &names);
        for ((_, type_id), name) in kinds.iter().zip(&names) {
            let expected = &truth[name];
            client.wait_pv(name, &expected.to_string(), |pv| {
                tree(pv).is_some_and(|root| shown(root) == *expected)
            });
            let root = tree(client.pv(name)).unwrap();
            assert_eq!(root.type_id, *type_id);
            let metadata = client.pv(name).metadata.as_ref().unwrap();
            assert_eq!(metadata.type_id, *type_id);
            assert_eq!(metadata.value_type, ValueType::Structure);
        }
    };
    same(&mut client);
    let table = client.pv(&names[0]).now.clone().unwrap();
    assert_eq!(table.time_ns, 1_700_000_000_000_000_007);

    let step = RequestBody::Put(PutRequest {
        name: format!("{prefix}step"),
        value: PutValue::Number(1.0),
        wait: true,
        timeout_ms: 20_000,
        expected: None,
    });
    drop(relays);
    let relays = start(
        network,
        &["--default-source=pva", "--enable-put", "--allow-put=*"],
    );
    let mut client = Client::connect(relays[0].address());
    client.subscribe_live(&names);
    let (reply, _) = client.ask(step);
    assert!(
        matches!(
            &reply,
            Reply::PutDone {
                outcome: Outcome::Done,
                ..
            }
        ),
        "{reply:?}"
    );
    client.wait_pv(&names[0], "its alarm", |pv| {
        let now = pv.now.as_ref();
        now.is_some_and(|now| now.alarm.severity == Severity::Major)
    });
    client.wait_pv(&names[6], "an empty array", |pv| {
        format!("{:?}", pv.now).contains("StructureArray([])")
    });
    same(&mut client);
    let parts = client.messages.iter().flat_map(|message| {
        let blobs = decode::frame(&message.bytes).unwrap().blobs();
        blobs.map(|blob| blob.partial).collect::<Vec<_>>()
    });
    assert!(
        parts.into_iter().any(|partial| partial),
        "only what changed travels"
    );
}

#[test]
fn values_of_every_type_are_what_an_independent_client_sees() {
    check_values(&alone);
}

pub(crate) fn check_values(start: Start<'_>) {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relays = start(network, &["--default-source", "pva"]);
    let mut client = Client::connect(relays[0].address());
    let scalars = [
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "float32", "float64", "string",
    ];
    let mut names = Vec::new();
    for scalar in scalars {
        names.push(format!("{prefix}{scalar}:scalar"));
        names.push(format!("{prefix}{scalar}:array"));
        names.push(format!("{prefix}{scalar}:none"));
    }
    names.push(format!("{prefix}enum"));
    client.subscribe_live(&names);
    let truth = truth(network, &names);
    for name in &names {
        let pv = client.pv(name);
        let metadata = pv.metadata.as_ref().unwrap();
        let now = pv.now.as_ref().unwrap();
        let is_scalar = metadata.element_count == 1;
        let value = match (&now.value, metadata.value_type) {
            (Kept::Number(number), ValueType::Boolean) => {
                NodeValue::Number(ValueType::Boolean, *number)
            }
            (Kept::Number(number), ValueType::Int64) => NodeValue::Int64(*number as i64),
            (Kept::Number(number), ValueType::UInt64) => NodeValue::UInt64(*number as u64),
            (Kept::Number(number), value_type) => NodeValue::Number(value_type, *number),
            (Kept::Array(ValueType::Int64, word), _) if is_scalar => {
                NodeValue::Int64(i64::from_le_bytes(word[..].try_into().unwrap()))
            }
            (Kept::Array(ValueType::UInt64, word), _) if is_scalar => {
                NodeValue::UInt64(u64::from_le_bytes(word[..].try_into().unwrap()))
            }
            (Kept::Array(value_type, bytes), _) => NodeValue::Array(Array {
                value_type: *value_type,
                count: 0,
                data: bytes.clone().into(),
            }),
            (Kept::Text(text), _) => NodeValue::Text(text.clone()),
            (Kept::Texts(texts), _) => NodeValue::TextArray(texts.clone()),
            (other, _) => panic!("{other:?} of {name}"),
        };
        let shown = shown(&Node {
            value,
            ..Node::default()
        });
        let whole = &truth[name];
        let is_enum = metadata.value_type == ValueType::Enum;
        let expected = if is_enum {
            &whole["value"]["index"]
        } else {
            &whole["value"]
        };
        assert_eq!(shown, *expected, "{name}");
        if is_enum {
            let choices: Vec<_> = metadata.choices.iter().map(|c| format!("s:{c}")).collect();
            assert_eq!(json!(choices), whole["value"]["choices"]);
        }
        // The stamp, alarm and what a server says of how to draw it.
        let bits = |number: f64| json!(format!("n:{:016x}", number.to_bits()));
        let stamp = &whole["timeStamp"];
        assert_eq!(
            json!(format!("i:{}", now.time_ns / 1_000_000_000)),
            stamp["secondsPastEpoch"]
        );
        assert_eq!(
            bits((now.time_ns % 1_000_000_000) as f64),
            stamp["nanoseconds"],
            "{name}"
        );
        assert_eq!(
            bits(f64::from(now.alarm.severity.number())),
            whole["alarm"]["severity"]
        );
    }
}

#[test]
fn procedure_answers_through_the_relay_or_says_why_not() {
    check_procedure(&alone);
}

pub(crate) fn check_procedure(start: Start<'_>) {
    let (network, prefix) = (Network::new(), prefix());
    let _server = StructureServer::start(Some(network), &prefix);
    let relays = start(network, &["--enable-put", "--allow-put=pva://*"]);
    let mut client = Client::connect(relays[0].address());
    let call = |arguments: Vec<(&str, PutValue)>| RequestBody::Rpc {
        name: format!("pva://{prefix}call"),
        arguments: (arguments.into_iter())
            .map(|(name, value)| (name.to_owned(), value))
            .collect(),
        timeout_ms: 20_000,
    };
    let id = client.request(call(vec![
        ("a", PutValue::Number(1.5)),
        ("b", PutValue::Number(2.0)),
        ("word", PutValue::Text("x".into())),
    ]));
    let (reply, _) = client.wait_answer(id);
    assert!(
        matches!(
            &reply,
            Reply::RpcDone {
                outcome: Outcome::Done,
                ..
            }
        ),
        "{reply:?}"
    );
    let frame = decode::frame(client.last_answer()).unwrap();
    let answer = frame.rpc_result().unwrap().to_node();
    assert_eq!(answer.type_id, "answer:1.0");
    let expected = json!({ "sum": "n:400c000000000000", "words": ["s:x"], "sure": "b:false" });
    assert_eq!(shown(&answer), expected);

    let (reply, _) = client.ask(call(vec![
        ("a", PutValue::Number(1.0)),
        ("b", PutValue::Number(2.0)),
        ("fail", PutValue::Number(1.0)),
    ]));
    let Reply::RpcDone { outcome, message } = reply else {
        panic!("{reply:?} answers an Rpc")
    };
    assert_eq!(outcome, Outcome::Failed);
    assert!(message.contains("asked to fail"), "{message}");
}

#[test]
fn pv_that_its_server_opens_again_and_again_is_not_suspended() {
    let network = Network::new();
    let prefix = prefix();
    let mut server = StructureServer::start(Some(network), &prefix);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let [shaped, other] = ["shaped", "bare"].map(|name| format!("pva://{prefix}{name}"));
    client.subscribe_live(&[&shaped, &other]);
    for _ in 0..3 {
        for (shape, number) in [("calm", 3.25), ("plain", 4.25), ("full", 1.25)] {
            server.reshape(shape);
            client.wait_pv(&shaped, shape, |pv| {
                assert_ne!(pv.state(), ConnectionState::NotFound, "it is suspended");
                pv.is_number(number)
            });
        }
    }
    // Nothing else on the same connection notices it.
    let lost = |seen: &&Connection| seen.state == ConnectionState::Disconnected;
    assert_eq!(client.pv(&other).states.iter().find(lost), None);
}
