//! Describes a frame as JSON, so that a reader in any language can compare what it decodes.

use pvwire_schema::decode;
use pvwire_schema::types::{
    Connection, FrameKind, Limits, Metadata, NameError, Node, NodeValue, PvId, Reply,
};
use serde_json::{Value, json};

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

fn connection(id: PvId, connection: Connection) -> Value {
    json!({ "id": id.0, "state": format!("{:?}", connection.state), "sinceNs": connection.since_ns.to_string(), "heardNs": connection.heard_ns.to_string(),
            "read": connection.read, "write": connection.write, "puts": connection.puts, "writeUnknown": connection.write_unknown })
}

fn metadata(id: PvId, metadata: &Metadata) -> Value {
    json!({ "id": id.0, "type": format!("{:?}", metadata.value_type),
            "elementCount": metadata.element_count, "units": metadata.units,
            "precision": metadata.precision, "choices": metadata.choices,
            "display": limits(metadata.display), "control": limits(metadata.control),
            "warning": limits(metadata.warning), "alarm": limits(metadata.alarm),
            "description": metadata.description, "epoch": metadata.epoch,
            "typeId": metadata.type_id, "form": metadata.form,
            "missingField": metadata.missing_field })
}

fn reply(reply: &Reply) -> Value {
    let ids = |ids: &[PvId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
    let errors = |errors: &[NameError]| -> Vec<Value> {
        let error = |e: &NameError| json!({ "index": e.index, "problem": format!("{:?}", e.problem), "message": e.message });
        errors.iter().map(error).collect()
    };
    match reply {
        Reply::Hello(hello) => {
            let mut said = json!({
                "relayVersion": hello.relay_version, "relayInstance": hello.relay_instance.to_string(),
                "maxRequestBytes": hello.max_request_bytes, "maxSubscriptions": hello.max_subscriptions,
                "ackIntervalMs": hello.ack_interval_ms, "notFoundAfterMs": hello.not_found_after_ms,
                "authenticate": hello.authenticate, "user": hello.user, "expiresInMs": hello.expires_in_ms });
            // Frames of the first release have no such fields.
            if !hello.relays.is_empty() {
                said["relays"] = json!(hello.relays);
                said["crowded"] = json!(hello.crowded);
            }
            json!({ "Hello": said })
        }
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
        Reply::Relays { relays } => json!({ "Relays": { "relays": relays } }),
        Reply::PutDone { outcome, message } => {
            json!({ "PutDone": { "outcome": format!("{outcome:?}"), "message": message } })
        }
        Reply::RpcDone { outcome, message } => {
            json!({ "RpcDone": { "outcome": format!("{outcome:?}"), "message": message } })
        }
        Reply::Page(page) => json!({ "AnswerPage": {
            "outcome": format!("{:?}", page.outcome), "message": page.message, "page": page.page,
            "last": page.last } }),
        Reply::Error { problem, message } => {
            json!({ "Error": { "problem": format!("{problem:?}"), "message": message } })
        }
    }
}

fn tree(node: &Node) -> Value {
    let fields = |list: &[Node]| list.iter().map(tree).collect::<Vec<_>>();
    let held = |held: &Option<Box<Node>>| held.iter().map(|node| tree(node)).collect::<Vec<_>>();
    let value = match &node.value {
        NodeValue::Empty => Value::Null,
        NodeValue::Number(value_type, value) => json!([format!("{value_type:?}"), number(*value)]),
        NodeValue::Int64(value) => json!(["Int64", value.to_string()]),
        NodeValue::UInt64(value) => json!(["UInt64", value.to_string()]),
        NodeValue::Text(text) => json!(["String", text]),
        NodeValue::TextArray(texts) => json!(["String[]", texts]),
        NodeValue::Array(array) => {
            json!([
                format!("{:?}[]", array.value_type),
                array.count,
                array.data.to_vec()
            ])
        }
        NodeValue::Structure(list) => json!(["Structure", fields(list)]),
        NodeValue::StructureArray(list) => json!(["Structure[]", fields(list)]),
        NodeValue::Union(node) => json!(["Union", held(node)]),
        NodeValue::UnionArray(list) => json!(["Union[]", fields(list)]),
        NodeValue::Any(node) => json!(["Any", held(node)]),
        NodeValue::AnyArray(list) => json!(["Any[]", fields(list)]),
    };
    json!({ "name": node.name, "typeId": node.type_id, "value": value })
}

/// What a reader must decode from the frame.
pub(crate) fn described(bytes: &[u8]) -> Value {
    let view = decode::frame(bytes).expect("our own frame");
    let blob = |blob: decode::BlobView<'_>| {
        json!({ "id": blob.id.0, "timeNs": blob.time_ns.to_string(),
                "type": format!("{:?}", blob.value_type), "array": blob.array, "count": blob.count,
                "dataOffset": blob.data_offset, "data": blob.data,
                "text": blob.text().collect::<Vec<_>>(),
                "partial": blob.partial,
                "structure": blob.structure.map(|node| tree(&node.to_node())) })
    };
    let row = |row: decode::NumberRow| json!({ "id": row.id.0, "timeNs": row.time_ns.to_string(), "value": number(row.value) });
    let alarm = |row: decode::AlarmRow| json!({ "row": row.row, "severity": row.alarm.severity.number(), "status": row.alarm.status });
    let mut described = json!({
        "kind": format!("{:?}", view.kind()),
        "tick": view.tick(),
        "prevTick": view.prev_tick(),
        "metadata": view.metadata().map(|(id, m)| metadata(id, &m)).collect::<Vec<_>>(),
        "connections": view.connections().map(|(id, c)| connection(id, c)).collect::<Vec<_>>(),
        "numbers": view.numbers().map(row).collect::<Vec<_>>(),
        "blobs": view.blobs().map(blob).collect::<Vec<_>>(),
        "alarms": view.alarms().map(alarm).collect::<Vec<_>>(),
        "details": view.details().map(|d| json!({ "row": d.row, "userTag": d.user_tag, "message": d.message })).collect::<Vec<_>>(),
        "skips": view.skips().map(|s| json!({ "row": s.row, "count": s.count, "cause": format!("{:?}", s.cause) })).collect::<Vec<_>>(),
        "sequences": view.sequences().map(|list| list.collect::<Vec<_>>()),
        "replyTo": view.reply_to(),
        "reply": view.reply().map(|r| reply(&r)),
        "result": view.rpc_result().or_else(|| view.put_readback()).map(|node| tree(&node.to_node())),
    });
    if let Some((offset, content)) = view.page_content() {
        described["page"] = json!({ "offset": offset, "content": content });
    }
    if view.kind() == FrameKind::CatchUp {
        described["skipCause"] = json!(format!("{:?}", view.skip_cause()));
    }
    described
}
