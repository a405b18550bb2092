//! Messages of the relay's own protocol: requests, and frames as a client reads them.

use pvwire_schema::{decode, encode};

#[path = "../../schema/tests/messages/golden.rs"]
mod golden_file;

/// Golden messages with this file identifier.
pub(crate) fn golden(identifier: &str) -> Vec<Vec<u8>> {
    let messages = golden_file::messages(include_str!("../../schema/tests/golden.json"));
    (messages.values().map(golden_file::bytes_of))
        .filter(|bytes| bytes.get(4..8) == Some(identifier.as_bytes()))
        .collect()
}

/// Several frames after each other: each golden one alone, and some of them in a row.
pub(crate) fn sequences() -> Vec<Vec<u8>> {
    let frames = golden("PVWF");
    let pairs = frames
        .iter()
        .zip(frames.iter().skip(1))
        .map(|(a, b)| [framed(a), framed(b)].concat());
    let alone = frames.iter().map(|frame| framed(frame));
    alone.chain(pairs).collect()
}

/// A frame behind its length, so that the next one can follow.
fn framed(frame: &[u8]) -> Vec<u8> {
    [&(frame.len() as u32).to_le_bytes(), frame].concat()
}

/// What a client sends to the relay.
pub(crate) fn requests(bytes: &[u8]) {
    let _ = decode::request_id(bytes);
    let Ok(request) = decode::request(bytes) else {
        return;
    };
    let again = encode::request(&request);
    let read = decode::request(&again).map(|again| format!("{again:?}"));
    assert_eq!(
        read,
        Ok(format!("{request:?}")),
        "a request that was understood doesn't come through a second time as it was"
    );
}

/// What the relay sends, read as a client would: every column to its end.
pub(crate) fn frames(bytes: &[u8]) {
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
    assert!(view.details().all(|detail| (detail.row as usize) < rows));
    assert!(view.skips().all(|skip| (skip.row as usize) < rows));
    let _ = view.metadata().count() + view.connections().count();
    if let Some(sequences) = view.sequences() {
        assert_eq!(sequences.count(), rows);
    }
    let _ = (view.reply(), view.reply_to(), view.tick(), view.prev_tick());
    let mut open: Vec<_> = (view.rpc_result().into_iter())
        .chain(view.put_readback())
        .collect();
    while let Some(node) = open.pop() {
        assert!(node.data_offset() + node.data().len() <= bytes.len());
        let _ = node.text().map(str::len).sum::<usize>() + node.name().len();
        open.extend(node.fields());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_messages_are_read() {
        let (requests, frames) = (golden("PVWR"), golden("PVWF"));
        assert!(requests.iter().all(|seed| decode::request(seed).is_ok()));
        assert!(frames.iter().all(|seed| decode::frame(seed).is_ok()));
    }
}
