//! Bytes that no relay or client would send are reported as errors and never cause a panic.

use proptest::prelude::*;
use pvwire_schema::decode::{self, DecodeError};
use pvwire_schema::encode::{self, FrameEncoder, RowMarks};
use pvwire_schema::limits::{MAX_NAMES, MAX_REQUEST_BYTES};
use pvwire_schema::types::{
    BlobValue, Filter, FrameKind, Metadata, PvId, Reply, Request, RequestBody, SkipCause, Skips,
    ValueType,
};

/// A frame whose columns are packed.
fn packed() -> Vec<u8> {
    let mut encoder = FrameEncoder::new();
    encoder.packing(true);
    encoder.begin(FrameKind::Update, 9, 8);
    for n in 0..200 {
        let (value, time) = (f64::from(n) / 8.0, i64::from(n * n));
        encoder.number(PvId(n * 3 % 70), time, value, RowMarks::default());
    }
    encoder.finish().to_vec()
}

/// Reads all there is in a frame, as a client would.
fn read_all(bytes: &[u8]) {
    let Ok(view) = decode::frame(bytes) else {
        return;
    };
    let rows = view.numbers_len() + view.blobs_len();
    assert_eq!(view.numbers().count(), view.numbers_len());
    for blob in view.blobs() {
        assert!(blob.data_offset + blob.data.len() <= bytes.len());
        let _ = blob.text().map(str::len).sum::<usize>();
    }
    assert!(view.alarms().all(|alarm| (alarm.row as usize) < rows));
    assert!(view.skips().all(|skip| (skip.row as usize) < rows));
    let _ = view.metadata().count() + view.connections().count();
    let _ = view.sequences().map(Iterator::count);
    let _ = (view.reply(), view.reply_to(), view.tick(), view.prev_tick());
}

fn frame_of_everything() -> Vec<u8> {
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::CatchUp, 9, 3);
    encoder.skip_cause(SkipCause::Behind);
    let errors = Vec::new();
    encoder.reply(
        5,
        &Reply::Subscribed {
            ids: vec![PvId(1), PvId::NONE],
            errors,
        },
    );
    encoder.metadata(
        PvId(1),
        &Metadata {
            choices: vec!["off".into(), "on".into()],
            units: "mm".into(),
            ..Default::default()
        },
    );
    for n in 0..20 {
        encoder.number(
            PvId(n),
            i64::from(n) * 1_000_003,
            f64::from(n),
            RowMarks::default(),
        );
    }
    encoder.blob(
        PvId(30),
        5,
        &BlobValue::Text("text".into()),
        RowMarks::default(),
    );
    let array = BlobValue::array(ValueType::Int32, 3, vec![1; 12]);
    encoder.blob(PvId(31), 6, &array, RowMarks::default());
    encoder.finish().to_vec()
}

fn frame_with_skips() -> Vec<u8> {
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::Update, 9, 3);
    for n in 0..5 {
        let skips = Skips {
            relay: n,
            source: 1,
            filter: n % 2,
            bus: u32::from(n == 3),
        };
        let marks = RowMarks {
            skips,
            ..RowMarks::default()
        };
        encoder.number(PvId(n), 0, f64::from(n), marks);
    }
    encoder.finish().to_vec()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn damaged_packed_columns_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        keep in any::<prop::sample::Index>(),
        cut: bool,
    ) {
        let mut bytes = packed();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()));
        }
        read_all(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes: Vec<u8>, identified: bool) {
        if identified && bytes.len() >= 8 {
            bytes[4..8].copy_from_slice(b"PVWF");
        }
        read_all(&bytes);
        let _ = decode::request(&bytes);
        if bytes.len() >= 8 {
            bytes[4..8].copy_from_slice(b"PVWR");
        }
        let _ = decode::request(&bytes);
        let _ = decode::request_id(&bytes);
    }

    #[test]
    fn damaged_frames_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        keep in any::<prop::sample::Index>(),
        cut: bool,
        skips: bool,
    ) {
        let mut bytes = if skips { frame_with_skips() } else { frame_of_everything() };
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()));
        }
        read_all(&bytes);
    }

    #[test]
    fn damaged_requests_never_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let names = vec!["A".into(), "ca://B".into()];
        let filter = Filter { min_interval_ms: 100, deadband: 0.5, every: 3, points: 100, ..Filter::ALL };
        let body = RequestBody::Subscribe { names, filter };
        let mut bytes = encode::request(&Request { id: 7, body });
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = decode::request(&bytes);
    }
}

#[test]
fn request_that_is_too_long_is_refused_before_it_is_read() {
    let bytes = vec![0; MAX_REQUEST_BYTES + 1];
    assert!(matches!(
        decode::request(&bytes),
        Err(DecodeError::TooLong { .. })
    ));
}

#[test]
fn too_many_names_are_refused_with_the_limit() {
    let names = vec!["X".to_owned(); MAX_NAMES + 1];
    let bytes = encode::request(&Request {
        id: 1,
        body: RequestBody::Subscribe {
            names,
            filter: Filter::default(),
        },
    });
    let error = decode::request(&bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "10001 names are more than the limit of 10000"
    );
}

#[test]
fn skips_before_rows_that_are_not_there_are_refused() {
    let mut bytes = frame_with_skips();
    assert_eq!(
        decode::frame(&bytes).unwrap().skips().count(),
        4 + 5 + 2 + 1
    );
    // Row 4, one value, Source: the last.
    let words: Vec<u32> = (bytes.chunks_exact(4))
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let at = words.windows(3).rposition(|row| row == [4, 1, 2]).unwrap();
    bytes[at * 4] = 5;
    assert_eq!(
        decode::frame(&bytes).unwrap_err(),
        DecodeError::ColumnMismatch {
            column: "skips",
            rows: 5
        }
    );
    bytes[at * 4] = 2;
    assert!(decode::frame(&bytes).is_err(), "rows ascend");
}

#[test]
fn packed_columns_that_say_more_than_they_hold_are_refused() {
    let whole = packed();
    let view = decode::frame(&whole).unwrap();
    assert_eq!(view.numbers().count(), 200);
    // Wherever one of the lengths stands.
    let mut refused = 0;
    for at in 8..whole.len() - 4 {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&0x7fff_fff0_u32.to_le_bytes());
        refused += usize::from(matches!(
            decode::frame(&bytes),
            Err(DecodeError::ColumnMismatch {
                column: "packed",
                ..
            })
        ));
    }
    assert!(refused >= 2, "{refused}");
}

/// The most memory that this process had, in bytes.
fn most_memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux says it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.map(|line| line.trim().trim_end_matches(" kB").parse::<usize>());
    kib.expect("it is there").expect("it is a number") * 1024
}

/// A block of 6 MB that does hold what it says: zeros, 1.5 GB of them.
#[test]
fn packed_columns_of_gigabytes_for_a_few_rows_take_no_memory() {
    let runs = 6_000_000;
    let ids_bytes = 1 + 4 + 15 + runs * 255 + 8;
    let mut block = vec![0x1f, 0, 1, 0];
    block.extend(std::iter::repeat_n(u8::MAX, runs));
    block.extend([0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0]);
    let slot = |id: u16| 4 + 2 * id;
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let packed = builder.create_vector(&block);
    let numbers = builder.start_table();
    builder.push_slot_always(slot(0), 1_u32);
    builder.push_slot_always(slot(5), packed);
    builder.push_slot_always(slot(6), ids_bytes as u32);
    let numbers = builder.end_table(numbers);
    let frame = builder.start_table();
    builder.push_slot_always(slot(5), numbers);
    let frame = builder.end_table(frame);
    builder.finish(frame, Some("PVWF"));
    let before = most_memory();
    assert!(matches!(
        decode::frame(builder.finished_data()),
        Err(DecodeError::ColumnMismatch {
            column: "packed",
            rows: 1
        })
    ));
    assert!(most_memory() < before.max(256 << 20));
}

#[test]
fn frame_is_no_request_and_request_is_no_frame() {
    let frame = frame_of_everything();
    assert!(matches!(
        decode::request(&frame),
        Err(DecodeError::WrongKind { .. })
    ));
    let request = encode::request(&Request {
        id: 1,
        body: RequestBody::Ack { tick: 1 },
    });
    assert!(matches!(
        decode::frame(&request),
        Err(DecodeError::WrongKind { .. })
    ));
}
