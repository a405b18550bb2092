//! Structures of any type arrive as trees, and procedures are called.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pvwire_epics::pva::{
    Client, ElementType, Monitor, Node, NodeValue, OpError, PutOptions, PutValue, ValueKind,
};
use pvwire_epics::{Ticket, panics_caught};

use crate::support::pva::{OwnUpdate, OwnValue, Recorder};
use crate::support::{DEADLINE, Server, in_own_process, prefix};

fn open(client: &Client, name: &str) -> (Arc<Recorder>, Monitor) {
    let recorder = Recorder::new();
    let monitor = client.open(name, recorder.clone()).unwrap();
    (recorder, monitor)
}

fn put(client: &Client, name: &str, value: PutValue) -> Result<Option<Node>, OpError> {
    let (sender, results) = channel();
    let options = PutOptions {
        wait: true,
        timeout: DEADLINE,
    };
    client.put(name, value, options, move |result| {
        sender.send(result).unwrap();
    });
    results.recv_timeout(DEADLINE).unwrap()
}

fn call(client: &Client, name: &str, arguments: &[(&str, PutValue)]) -> Result<Node, OpError> {
    let (sender, results) = channel();
    let arguments = arguments
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    client.rpc(
        name,
        arguments,
        DEADLINE,
        Ticket::default(),
        move |result| {
            sender.send(result).unwrap();
        },
    );
    results.recv_timeout(DEADLINE).unwrap()
}

fn tree(update: &OwnUpdate) -> &Node {
    match &update.value {
        OwnValue::Structure(node) => node,
        other => panic!("{other:?} is not a structure"),
    }
}

fn first(recorder: &Recorder) -> OwnUpdate {
    recorder.wait_update(0, |_| true).1
}

fn at<'a>(node: &'a Node, path: &str) -> &'a NodeValue {
    let found = node.get(path);
    &found
        .unwrap_or_else(|| panic!("no {path} in {node:#?}"))
        .value
}

fn numbers(value: &NodeValue) -> Vec<f64> {
    match value {
        NodeValue::Array {
            element: ElementType::Float64,
            data,
            ..
        } => {
            let (numbers, []) = data.as_ref().as_chunks() else {
                panic!("{data:?} is cut short");
            };
            numbers.iter().copied().map(f64::from_ne_bytes).collect()
        }
        other => panic!("{other:?} is not an array of doubles"),
    }
}

fn texts(texts: &[&str]) -> NodeValue {
    NodeValue::TextArray(texts.iter().copied().map(str::to_owned).collect())
}

fn number(number: f64) -> NodeValue {
    NodeValue::Number(ElementType::Float64, number)
}

#[test]
fn structures_arrive_as_trees_and_say_what_changed() {
    in_own_process!("structures_arrive_as_trees_and_say_what_changed", || {
        let prefix = prefix();
        let _server = Server::structures(&prefix);
        let client = Client::start().unwrap();
        let [table, union, variant, points] = ["table", "union", "variant", "points"]
            .map(|name| open(&client, &format!("{prefix}{name}")));

        let (_, info) = table.0.wait_connected(0);
        assert_eq!(info.type_id, "epics:nt/NTTable:1.0");
        assert_eq!(info.kind, ValueKind::Structure);
        let update = first(&table.0);
        assert_eq!(update.time_ns, 1_700_000_000_000_000_007);
        assert_eq!(update.user_tag, 3);
        let node = tree(&update);
        assert_eq!(node.type_id, "epics:nt/NTTable:1.0");
        assert_eq!(*at(node, "labels"), texts(&["Position", "Name"]));
        assert_eq!(numbers(at(node, "value/position")), [0.5, 1.5]);
        assert_eq!(*at(node, "value/name"), texts(&["a", "b"]));

        let update = first(&union.0);
        assert_eq!(update.changed, ["value", "alarm"], "all, at first");
        let NodeValue::Union(Some(selected)) = at(tree(&update), "value") else {
            panic!("{update:?}");
        };
        assert_eq!((&*selected.name, &selected.value), ("number", &number(2.5)));
        assert_eq!(tree(&update).get("value").unwrap().type_id, "either_t");
        let update = first(&variant.0);
        let node = tree(&update);
        let NodeValue::Union(Some(held)) = at(node, "value") else {
            panic!("{node:?}");
        };
        assert_eq!(held.value, NodeValue::Int64(5));
        assert_eq!(*at(node, "list/0"), NodeValue::Int64(1));
        assert_eq!(*at(node, "list/1"), NodeValue::Text("x".to_owned()));
        let update = first(&points.0);
        assert_eq!(update.changed, ["value", "timeStamp"], "all, at first");
        assert_eq!(*at(tree(&update), "value/1/x"), number(3.0));
        assert_eq!(tree(&update).get("value/0").unwrap().type_id, "point_t");

        put(&client, &format!("{prefix}step"), PutValue::Number(1.0)).unwrap();
        let (_, update) = table.0.wait_update(0, |update| update.severity == 2);
        assert_eq!(update.changed, ["value", "alarm"]);
        assert_eq!(update.message, "worn");
        assert_eq!(update.user_tag, 3);
        assert_eq!(numbers(at(tree(&update), "value/position")), [9.0]);
        assert_eq!(*at(tree(&update), "value/name"), texts(&["a", "b"]));
        let step = |recorder: &Recorder| recorder.wait_update(0, |now| now.changed == ["value"]).1;
        let update = step(&union.0);
        let text = NodeValue::Text("now".to_owned());
        assert_eq!(*at(tree(&update), "value/text"), text);
        let update = step(&variant.0);
        assert_eq!(*at(tree(&update), "value/y"), number(9.0));
        assert_eq!(*at(tree(&update), "list/0"), NodeValue::Int64(1));
        let update = step(&points.0);
        assert_eq!(
            *at(tree(&update), "value"),
            NodeValue::StructureArray(vec![])
        );
        assert_eq!(panics_caught(), 0);
    });
}

#[test]
fn scalars_of_every_type_in_a_structure_are_exact() {
    in_own_process!("scalars_of_every_type_in_a_structure_are_exact", || {
        let prefix = prefix();
        let _server = Server::structures(&prefix);
        let client = Client::start().unwrap();
        let (recorder, _monitor) = open(&client, &format!("{prefix}scalars"));
        let update = first(&recorder);
        let node = tree(&update);

        assert_eq!(update.time_ns, 0);
        assert_eq!(*at(node, "flag"), NodeValue::Boolean(true));
        assert_eq!(
            *at(node, "byte"),
            NodeValue::Number(ElementType::Int8, -5.0)
        );
        assert_eq!(
            *at(node, "ubyte"),
            NodeValue::Number(ElementType::UInt8, 250.0)
        );
        assert_eq!(
            *at(node, "uint"),
            NodeValue::Number(ElementType::UInt32, 4e9)
        );
        assert_eq!(*at(node, "long"), NodeValue::Int64(-9_007_199_254_740_993));
        assert_eq!(*at(node, "ulong"), NodeValue::UInt64(u64::MAX));
        assert_eq!(
            *at(node, "float"),
            NodeValue::Number(ElementType::Float32, 0.5)
        );
        assert_eq!(*at(node, "names"), texts(&["", "µ"]));
        assert!(numbers(at(node, "none")).is_empty());
        let NodeValue::Array {
            element: ElementType::Bool,
            count: 2,
            data,
        } = at(node, "flags")
        else {
            panic!("{node:?}");
        };
        assert_eq!(data.as_ref(), [1, 0]);
    });
}

#[test]
fn image_and_multi_channel_arrive_whole() {
    in_own_process!("image_and_multi_channel_arrive_whole", || {
        let prefix = prefix();
        let _server = Server::structures(&prefix);
        let client = Client::start().unwrap();
        let (recorder, monitor) = open(&client, &format!("{prefix}image"));
        let update = first(&recorder);
        let node = tree(&update);
        assert_eq!(node.type_id, "epics:nt/NTNDArray:1.0");
        assert_eq!(
            *at(node, "dimension/0/size"),
            NodeValue::Number(ElementType::Int32, 1_500.0)
        );
        assert_eq!(
            *at(node, "dimension/1/size"),
            NodeValue::Number(ElementType::Int32, 1_000.0)
        );
        let name = NodeValue::Text("ColorMode".to_owned());
        assert_eq!(*at(node, "attribute/0/name"), name);
        let NodeValue::Array {
            element: ElementType::UInt16,
            count: 1_500_000,
            data,
        } = at(node, "value/ushortValue").clone()
        else {
            panic!("{node:?}");
        };
        drop((update, recorder, monitor));
        let (pixels, []) = data.as_ref().as_chunks::<2>() else {
            panic!("{data:?} is cut short");
        };
        let wrong = pixels.iter().enumerate();
        let wrong = wrong.filter(|&(i, &pixel)| u16::from_ne_bytes(pixel) != i as u16);
        assert_eq!(wrong.count(), 0);

        let (recorder, _monitor) = open(&client, &format!("{prefix}channels"));
        let update = first(&recorder);
        let node = tree(&update);
        assert_eq!(*at(node, "channelName"), texts(&["a", "b", "c"]));
        assert_eq!(*at(node, "value/0"), number(1.5));
        assert_eq!(*at(node, "value/1"), NodeValue::Text("two".to_owned()));
        assert!(matches!(
            at(node, "value/2"),
            NodeValue::Array {
                element: ElementType::Int32,
                count: 2,
                ..
            }
        ));
    });
}

#[test]
fn type_that_changes_in_a_running_server_is_followed() {
    in_own_process!("type_that_changes_in_a_running_server_is_followed", || {
        let prefix = prefix();
        let _server = Server::structures(&prefix);
        let client = Client::start().unwrap();
        let name = format!("{prefix}retyped");
        let (recorder, _monitor) = open(&client, &name);
        let (before, _) = recorder.wait_update(0, |_| true);

        put(&client, &format!("{prefix}retype"), PutValue::Number(1.0)).unwrap();
        let (after, info) = recorder.wait_connected(before);
        assert!(info.changed);
        let (_, update) = recorder.wait_update(after, |_| true);
        assert_eq!(*at(tree(&update), "more"), number(3.0));
    });
}

#[test]
fn scalars_that_no_record_has_are_watched_and_put() {
    in_own_process!("scalars_that_no_record_has_are_watched_and_put", || {
        let prefix = prefix();
        let _server = Server::structures(&prefix);
        let client = Client::start().unwrap();
        let huge = PutValue::UInt64(u64::MAX);
        let cases = [
            ("bool", PutValue::Boolean(true), OwnValue::Boolean(true)),
            ("bool", PutValue::Number(0.0), OwnValue::Boolean(false)),
            (
                "bool",
                PutValue::Text("true".to_owned()),
                OwnValue::Boolean(true),
            ),
            ("float", PutValue::Number(0.5), OwnValue::Number(0.5)),
            ("ulong", huge, OwnValue::UInt64(u64::MAX)),
            ("ulong", PutValue::Number(7.0), OwnValue::UInt64(7)),
            (
                "enum",
                PutValue::Text("on".to_owned()),
                OwnValue::Number(1.0),
            ),
        ];
        for (name, sent, shown) in cases {
            let name = format!("{prefix}{name}");
            let (recorder, _monitor) = open(&client, &name);
            let (before, _) = recorder.wait_update(0, |_| true);
            assert_eq!(put(&client, &name, sent.clone()), Ok(None), "{sent:?}");
            recorder.wait_value(before + 1, &shown);
        }
        for (name, sent) in [
            ("bool", PutValue::Number(0.5)),
            ("bool", PutValue::Text("yes".to_owned())),
            ("float", PutValue::Number(1e300)),
            ("ulong", PutValue::Int64(-1)),
            ("ulong", PutValue::Number(-1.0)),
            ("table", PutValue::Number(1.0)),
            ("union", PutValue::Number(1.0)),
            ("image", PutValue::Number(1.0)),
        ] {
            let result = put(&client, &format!("{prefix}{name}"), sent.clone());
            assert!(
                matches!(result, Err(OpError::Invalid(_))),
                "{name} {sent:?}: {result:?}"
            );
        }
    });
}

#[test]
fn put_is_done_when_the_server_says_so_or_refused_with_a_reason() {
    in_own_process!(
        "put_is_done_when_the_server_says_so_or_refused_with_a_reason",
        || {
            let prefix = prefix();
            let _server = Server::structures(&prefix);
            let client = Client::start().unwrap();
            let start = Instant::now();
            let slow = put(&client, &format!("{prefix}slow"), PutValue::Number(1.0));
            assert_eq!(slow, Ok(None));
            assert!(start.elapsed() > Duration::from_millis(900));
            let refused = put(&client, &format!("{prefix}refused"), PutValue::Number(1.0));
            assert_eq!(
                refused,
                Err(OpError::Remote("the interlock is open".to_owned()))
            );
        },
    );
}

#[test]
fn procedure_gets_its_arguments_and_answers_or_fails() {
    in_own_process!("procedure_gets_its_arguments_and_answers_or_fails", || {
        let prefix = prefix();
        let server = Server::structures(&prefix);
        let client = Client::start().unwrap();
        let name = format!("{prefix}call");
        let more = PutValue::Array {
            element: ElementType::Int16,
            bytes: [10_i16, 20].map(i16::to_ne_bytes).concat(),
        };
        let answer = call(
            &client,
            &name,
            &[
                ("a", PutValue::Number(1.5)),
                ("b", PutValue::Int64(2)),
                ("more", more),
                ("word", PutValue::Text("µ".to_owned())),
                (
                    "words",
                    PutValue::TextArray(vec!["x".to_owned(), "y".to_owned()]),
                ),
                ("sure", PutValue::Boolean(true)),
            ],
        )
        .unwrap();
        assert_eq!(answer.type_id, "answer:1.0");
        assert_eq!(*at(&answer, "sum"), number(33.5));
        assert_eq!(*at(&answer, "words"), texts(&["µ", "x", "y"]));
        assert_eq!(*at(&answer, "sure"), NodeValue::Boolean(true));

        let fail = [("fail", PutValue::Boolean(true))];
        let Err(OpError::Remote(why)) = call(&client, &name, &fail) else {
            panic!("it should fail");
        };
        assert!(why.contains("asked to fail"), "{why}");
        let nameless = [("", PutValue::Number(1.0))];
        let result = call(&client, &name, &nameless);
        assert!(matches!(result, Err(OpError::Invalid(_))), "{result:?}");

        // One that the server works on when it crashes, and that a restarted one must not get.
        let (recorder, _monitor) = open(&client, &format!("{prefix}calls"));
        recorder.wait_value(0, &OwnValue::Number(2.0));
        let (sender, results) = channel();
        let hang = vec![("hang".to_owned(), PutValue::Boolean(true))];
        client.rpc(&name, hang, DEADLINE, Ticket::default(), move |result| {
            sender.send(result).unwrap()
        });
        let (before, _) = recorder.wait_value(0, &OwnValue::Number(3.0));
        server.kill();
        let result = results.recv_timeout(DEADLINE).unwrap();
        assert_eq!(result, Err(OpError::Disconnected));
        let _server = Server::structures(&prefix);
        recorder.wait_value(before + 1, &OwnValue::Number(0.0));
        assert!(call(&client, &name, &fail).is_err());
        recorder.wait_value(before + 1, &OwnValue::Number(1.0));
    });
}

#[test]
fn metadata_that_a_server_repeats_is_told_once() {
    in_own_process!("metadata_that_a_server_repeats_is_told_once", || {
        let prefix = prefix();
        let _server = Server::structures(&prefix);
        let client = Client::start().unwrap();
        let (recorder, _monitor) = open(&client, &format!("{prefix}repeated"));
        let (start, _) = recorder.wait_metadata(0, |metadata| metadata.units == "mm");
        let step = format!("{prefix}step");

        put(&client, &step, PutValue::Number(1.0)).unwrap();
        let (same, _) = recorder.wait_value(start, &OwnValue::Number(1.0));
        put(&client, &step, PutValue::Number(2.0)).unwrap();
        let (changed, _) = recorder.wait_metadata(start + 1, |_| true);
        let (other, _) = recorder.wait_value(changed, &OwnValue::Number(2.0));

        assert_eq!((changed, other), (same + 1, same + 2));
    });
}
