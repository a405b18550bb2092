//! Frames that are given away, and frames in pieces.

use super::*;
use crate::decode;
use crate::types::{Alarm, Array, Detail, Node, NodeValue, Reply, Severity, Skips};

fn of_elements(encoder: &mut FrameEncoder, count: u32) {
    let data: Vec<u8> = (0..count)
        .flat_map(|n| f64::from(n).to_le_bytes())
        .collect();
    let value = BlobValue::array(ValueType::Float64, count, data);
    encoder.begin(FrameKind::Update, 2, 1);
    encoder.blob(PvId(4), 7, &value, RowMarks::default());
}

#[test]
fn frame_given_away_is_the_same_and_has_room_before_it() {
    let (mut giving, mut keeping) = (FrameEncoder::new(), FrameEncoder::new());
    // Larger and smaller in turn; the third fills the buffer that the first one left behind.
    for count in [100_000, 3, 100_000, 40_000, 102_000, 300_000, 0] {
        of_elements(&mut giving, count);
        of_elements(&mut keeping, count);
        let (bytes, start) = giving.finish_owned(10);
        assert!(start >= 10);
        assert_eq!(&bytes[start..], keeping.finish(), "{count} elements");
        assert!(bytes.capacity() <= 2 * (bytes.len() - start) + 2 * MORE_BYTES);
    }
}

#[test]
fn large_frames_of_one_size_are_not_copied() {
    let mut encoder = FrameEncoder::new();
    for _ in 0..3 {
        of_elements(&mut encoder, 100_000);
        let buffer = encoder.finish().as_ptr();
        let (bytes, start) = encoder.give_away(10);
        assert_eq!(bytes[start..].as_ptr(), buffer);
    }
}

fn joined(pieces: &Pieces) -> Vec<u8> {
    let (mut joined, mut at) = (Vec::new(), pieces.start);
    for cut in &pieces.cuts {
        joined.extend(&pieces.bytes[at..cut.at]);
        joined.extend(&cut.data);
        joined.resize(joined.len() + cut.padding, 0);
        at = cut.at;
    }
    joined.extend(&pieces.bytes[at..]);
    joined
}

#[test]
fn answer_with_many_large_arrays_holds_all_and_copies_none() {
    let array = |value_type, bytes: Vec<u8>| Array {
        value_type,
        count: bytes.len() as u32,
        data: bytes.into(),
    };
    let bytes = |n: usize| (0..n).map(|byte| (byte * n) as u8).collect::<Vec<_>>();
    let image = |n| {
        let field = |name: &str, value| Node {
            name: name.into(),
            type_id: String::new(),
            value,
        };
        let held = field(
            "ubyteValue",
            NodeValue::Array(array(ValueType::UInt8, bytes(n))),
        );
        let fields = vec![
            field(
                "codec",
                NodeValue::Array(array(ValueType::UInt8, bytes(10))),
            ),
            field("value", NodeValue::Union(Some(Box::new(held)))),
            field("dimension", NodeValue::Int64(n as i64)),
        ];
        BlobValue::Structure(field("", NodeValue::Structure(fields)))
    };
    let mut values = Vec::new();
    for n in [4_096, 5_001, 70_003, 8_190] {
        values.push(BlobValue::Array(array(ValueType::UInt8, bytes(n))));
        values.push(image(n + 1));
        values.push(BlobValue::Array(array(ValueType::UInt8, bytes(n / 100))));
    }
    // The elements of two PVs may be the same.
    values.push(values[0].clone());
    let mut encoder = FrameEncoder::new();
    for shown in [values.len(), 2, 1] {
        encoder.begin(FrameKind::Answer, 3, 0);
        encoder.apart(&values[..shown]);
        let ids = (0..shown).map(|n| PvId(n as u32)).collect::<Vec<_>>();
        let reply = Reply::Got {
            ids: ids.clone(),
            errors: Vec::new(),
        };
        encoder.reply(7, &reply);
        encoder.number(PvId(99), 5, 1.5, RowMarks::default());
        for (id, value) in ids.iter().zip(&values) {
            encoder.metadata(*id, &Metadata::default());
            encoder.blob(*id, 7, value, RowMarks::default());
        }
        let pieces = encoder.finish_pieces(10);
        assert_eq!(pieces.cuts.len(), if shown > 2 { 8 } else { shown });
        assert!(pieces.bytes.len() < 10_000, "{}", pieces.bytes.len());
        let joined = joined(&pieces);
        let frame = decode::frame(&joined).unwrap();
        assert_eq!(frame.blobs().count(), shown);
        for (blob, value) in frame.blobs().zip(&values) {
            match value {
                BlobValue::Array(array) => {
                    assert_eq!((blob.data, blob.data_offset % 8), (&array.data[..], 0));
                }
                BlobValue::Structure(root) => {
                    assert_eq!(&blob.structure.unwrap().to_node(), root);
                }
                _ => unreachable!("there is no other"),
            }
        }
    }
}

#[test]
fn pieces_make_up_the_message_that_holds_the_same() {
    let alarm = Some(Alarm {
        severity: Severity::Major,
        status: 3,
    });
    let detail = Detail {
        user_tag: 5,
        message: "hot".into(),
    };
    let marks = RowMarks {
        alarm,
        detail: Some(&detail),
        sequence: 9,
        skips: Skips::NONE,
    };
    let field = |name: &str, value| Node {
        name: name.into(),
        type_id: String::new(),
        value,
    };
    let array = |count: u32| {
        let data: Vec<u8> = (0..count).map(|n| n as u8).collect();
        let value_type = ValueType::UInt8;
        let data = data.into();
        Array {
            value_type,
            count,
            data,
        }
    };
    let mut encoder = FrameEncoder::new();
    // What is refused after this one takes nothing of it.
    encoder.begin(FrameKind::Answer, 1, 0);
    encoder.apart([&BlobValue::Array(array(9_000))]);
    for count in [3, 5_000, 5_001, 5_007, 300_001] {
        let image = field("ubyteValue", NodeValue::Array(array(count)));
        let fields = vec![
            field("small", NodeValue::Array(array(9))),
            field("value", NodeValue::Union(Some(Box::new(image)))),
            field("name", NodeValue::Text("camera".into())),
        ];
        for value in [
            BlobValue::Array(array(count)),
            BlobValue::Structure(field("", NodeValue::Structure(fields))),
            BlobValue::TextArray(vec!["long".repeat(3_000); 3]),
        ] {
            encoder.begin(FrameKind::CatchUp, 8, 8);
            encoder.blob_apart(PvId(4), 7, &value, marks);
            encoder.metadata(PvId(4), &Metadata::default());
            let pieces = encoder.finish_pieces(10);
            let is_apart = count >= 5_000 && value.value_type() != ValueType::String;
            assert_eq!(pieces.cuts.is_empty(), !is_apart, "{count}");
            let joined = joined(&pieces);

            let frame = decode::frame(&joined).unwrap();
            let blob = frame.blobs().next().unwrap();
            assert_eq!((blob.id, blob.time_ns), (PvId(4), 7));
            assert_eq!(frame.alarms().next().map(|row| row.alarm), alarm);
            assert_eq!(frame.details().next().unwrap().message, "hot");
            assert_eq!(frame.metadata().count(), 1);
            match &value {
                BlobValue::Array(array) => {
                    assert_eq!(blob.data, array.data);
                    assert_eq!(blob.data_offset % 8, 0);
                }
                BlobValue::Structure(root) => {
                    assert_eq!(&blob.structure.unwrap().to_node(), root);
                }
                _ => assert_eq!(blob.text().count(), 3),
            }
        }
    }
}

#[test]
fn answer_to_another_request_differs_in_its_number_alone() {
    let answer = |to: u32| {
        let mut encoder = FrameEncoder::new();
        encoder.begin(FrameKind::Snapshot, 7, 0);
        let (ids, errors) = (vec![PvId(4), PvId(5)], Vec::new());
        encoder.reply(to, &Reply::Subscribed { ids, errors });
        encoder.number(PvId(4), 5, 1.5, RowMarks::default());
        encoder.finish().to_vec()
    };
    let mut frame = answer(3);
    let at = position_of_reply_to(&frame).unwrap();
    frame[at..at + 4].copy_from_slice(&900_000_u32.to_le_bytes());
    assert_eq!(frame, answer(900_000));
    assert_eq!(decode::frame(&frame).unwrap().reply_to(), 900_000);
    // A frame that is no answer has no number.
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::Update, 7, 6);
    encoder.number(PvId(4), 5, 1.5, RowMarks::default());
    assert_eq!(position_of_reply_to(encoder.finish()), None);
    for cut in 0..frame.len() {
        // Never panics, whatever the bytes are.
        let found = position_of_reply_to(&frame[..cut]);
        assert!(found.is_none_or(|at| at + 4 <= cut));
    }
}
