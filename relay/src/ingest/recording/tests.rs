//! Recordings that are written, cut, damaged and read.

use super::*;
use std::path::PathBuf;

use pvwire_schema::encode::{FrameEncoder, RowMarks};
use pvwire_schema::types::FrameKind;

fn path(name: &str) -> PathBuf {
    let name = format!("pvwire-{name}-{}", std::process::id());
    std::env::temp_dir().join(name)
}

fn frame(number: u8) -> Item {
    Item::Frame(Bytes::from(vec![number; 100 + usize::from(number)]))
}

/// Three chunks, of which the first and the last have the state of all PVs.
fn written(path: &Path) -> Vec<u8> {
    let _ = std::fs::remove_file(path);
    let about = About {
        relay: "ws://127.0.0.1:8080/ws".into(),
        names: vec!["A".into(), "pva://B".into()],
    };
    let mut writer = Writer::create(path, &about).unwrap();
    writer.add(&frame(1), true).unwrap();
    writer.add(&frame(2), false).unwrap();
    writer.flush().unwrap();
    writer.add(&Item::Lost, false).unwrap();
    writer.add(&frame(3), true).unwrap();
    writer.flush().unwrap();
    assert!(Writer::create(path, &about).is_err(), "the file exists");
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(writer.bytes, bytes.len() as u64);
    bytes
}

fn all(reader: &mut Reader) -> Vec<Item> {
    let mut all = Vec::new();
    while let Some(items) = reader.next_items().unwrap() {
        all.extend(items.into_iter().map(|(_, item)| item));
    }
    all
}

#[test]
fn items_are_read_as_they_were_written_from_any_whole_state() {
    let path = path("recording");
    written(&path);
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.about.names, ["A", "pva://B"]);
    assert_eq!(reader.torn_bytes, 0);
    assert_eq!(all(&mut reader), [frame(1), frame(2), Item::Lost, frame(3)]);
    let (first_ns, last_ns) = reader.span_ns();
    assert!(first_ns <= last_ns);
    reader.go_to(last_ns + STATE_NS);
    assert_eq!(all(&mut reader), [frame(3)]);
    reader.go_to(first_ns - 1);
    assert_eq!(all(&mut reader).len(), 4);
    std::fs::remove_file(path).unwrap();
}

/// A frame of ten PVs whose numbers are steps of a grid.
fn numbers(tick: u32) -> Item {
    let mut encoder = FrameEncoder::new();
    encoder.begin(FrameKind::Update, u64::from(tick), u64::from(tick) - 1);
    for pv in 0..10 {
        let code = f64::from(tick.wrapping_mul(2_654_435_761).wrapping_add(pv) >> 20);
        let time_ns = i64::from(tick) * 100_000_000 + i64::from(pv) * 1_900;
        encoder.number(
            PvId(pv),
            time_ns,
            code * 0.000_305_175 - 5.0,
            RowMarks::default(),
        );
    }
    Item::Frame(Bytes::copy_from_slice(encoder.finish()))
}

#[test]
fn numbers_come_back_from_each_state_and_not_between_a_damaged_chunk_and_the_next_state() {
    let path = path("numbers");
    let _ = std::fs::remove_file(&path);
    let mut writer = Writer::create(&path, &About::default()).unwrap();
    for tick in 1..=60 {
        writer.add(&numbers(tick), tick % 20 == 1).unwrap();
        if tick % 5 == 0 {
            writer.flush().unwrap();
        }
    }
    let ticks = |range: std::ops::RangeInclusive<u32>| range.map(numbers).collect::<Vec<_>>();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(reader.chunks.len(), 12);
    assert_eq!(all(&mut reader), ticks(1..=60));
    let third_state_ns = reader.chunks[8].0.first_ns;
    reader.go_to(third_state_ns + STATE_NS);
    assert_eq!(all(&mut reader), ticks(41..=60));

    // In the second of the four chunks after the second state.
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[reader.chunks[5].1 as usize + 9] ^= 0x40;
    std::fs::write(&path, &bytes).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let expected = [ticks(1..=25), vec![Item::Lost], ticks(41..=60)].concat();
    assert_eq!(all(&mut reader), expected);
    std::fs::remove_file(path).unwrap();
}

/// A chunk a second, each with one frame, and every twenty seconds the state of all PVs.
#[test]
fn a_day_is_opened_and_each_time_found_by_the_heads() {
    const SECONDS: i64 = 86_400;
    const SECOND_NS: i64 = 1_000_000_000;
    let path = path("day");
    let _ = std::fs::remove_file(&path);
    let mut writer = Writer::create(&path, &About::default()).unwrap();
    writer.add(&numbers(1), true).unwrap();
    writer.flush().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let mut words = bytes.windows(4);
    let at = words.position(|word| word == CHUNK_MAGIC.to_le_bytes());
    let at = at.unwrap();
    let (packed, mut day) = (&bytes[at + HEAD_BYTES..], bytes[..at].to_vec());
    let head = Head::read(bytes[at..at + HEAD_BYTES].try_into().unwrap()).unwrap();
    for second in 0..SECONDS {
        let (first_ns, last_ns) = (second * SECOND_NS, second * SECOND_NS + SECOND_NS / 2);
        let is_whole = second % 20 == 0;
        let head = Head {
            is_whole,
            first_ns,
            last_ns,
            ..head
        };
        day.extend(head.to_bytes());
        day.extend(packed);
    }
    std::fs::write(&path, &day).unwrap();
    let begun = Instant::now();
    let mut reader = Reader::open(&path).unwrap();
    println!("a day: opened in {:?}", begun.elapsed());
    assert_eq!(reader.chunks.len() as i64, SECONDS);
    for to_s in [0, 39, 43_210, 86_399] {
        let begun = Instant::now();
        reader.go_to(to_s * SECOND_NS);
        assert!(reader.next_items().unwrap().is_some());
        println!("{to_s} s: found in {:?}", begun.elapsed());
        // The state of a chunk that has just begun may not be whole yet.
        assert_eq!(reader.next as i64 - 1, (to_s - 1).max(0) / 20 * 20);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn recording_of_another_version_says_so() {
    let path = path("version");
    let mut bytes = written(&path);
    bytes[7] = b'1';
    std::fs::write(&path, &bytes).unwrap();
    let why = Reader::open(&path).unwrap_err().to_string();
    assert!(why.contains("another version"), "{why}");
    bytes[0] = b'p';
    std::fs::write(&path, &bytes).unwrap();
    let why = Reader::open(&path).unwrap_err().to_string();
    assert!(why.contains("not a recording"), "{why}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn pipe_in_place_of_a_recording_is_refused_at_once() {
    let path = path("recording-pipe");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.unwrap().success());
    let opened = Reader::open(&path);
    assert!(matches!(opened, Err(RecordingError::File(_))), "{opened:?}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn index_gives_what_the_heads_do_and_a_damaged_one_is_not_used() {
    let path = path("index");
    let _ = std::fs::remove_file(&path);
    let mut writer = Writer::create(&path, &About::default()).unwrap();
    for tick in 1..=30 {
        writer.add(&numbers(tick), tick % 10 == 1).unwrap();
        if tick % 5 == 0 {
            writer.flush().unwrap();
        }
    }
    let begin = writer.bytes as usize;
    writer.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(writer.bytes, bytes.len() as u64);
    let opened = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let chunks: Vec<_> = (reader.chunks.iter())
            .map(|(head, at)| (head.first_ns, *at))
            .collect();
        (chunks, all(&mut reader), reader.torn_bytes)
    };
    let whole = opened(&bytes);
    assert_eq!((whole.0.len(), whole.1.len(), whole.2), (6, 30, 0));
    assert_eq!(opened(&bytes[..begin]), whole);
    for index in begin..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[index] ^= 0x40;
        let (chunks, items, torn_bytes) = opened(&damaged);
        assert_eq!((&chunks, &items), (&whole.0, &whole.1), "byte {index}");
        assert_eq!(torn_bytes, (bytes.len() - begin) as u64);
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn cut_or_damaged_recording_opens_with_what_is_whole() {
    let path = path("damaged");
    let bytes = written(&path);
    let mut most = 0;
    for length in 0..bytes.len() {
        std::fs::write(&path, &bytes[..length]).unwrap();
        let Ok(mut reader) = Reader::open(&path) else {
            assert_eq!(most, 0, "cut at {length}");
            continue;
        };
        let read = all(&mut reader);
        assert!(read.len() >= most && read.len() <= 3);
        most = read.len();
    }
    assert_eq!(most, 3);
    for index in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[index] ^= 0x40;
        std::fs::write(&path, &damaged).unwrap();
        if let Ok(mut reader) = Reader::open(&path) {
            let whole = [frame(1), frame(2), Item::Lost, frame(3)];
            assert!(all(&mut reader).iter().all(|item| whole.contains(item)));
        }
    }
    std::fs::remove_file(path).unwrap();
}
