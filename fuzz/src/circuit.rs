//! Messages of Channel Access, as they are checked before libca reads them.

use pvwire_epics::ca::message;

/// What a server sends to a client that created the channel 1, subscribed as 2 and 3 and reads as 4.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut update = message(1, 20, 1, 1, 2, &[0; 24]);
    let error = message(11, 0, 0, 0, 192, &message(4, 6, 1, 1, 1, b"why\0....")).repeat(2);
    let whole = [
        message(0, 0, 13, 0, 0, &[]),
        message(22, 0, 0, 1, 3, &[]),
        message(18, 6, 1, 1, 7, &[]),
        update.repeat(3),
        message(15, 0, 1, 1, 4, &[0; 40]),
        message(12, 0, 0, 7, 1, &[]),
    ];
    update[2..4].copy_from_slice(&[0xff, 0xff]);
    update.splice(16..16, [0, 0, 0, 24, 0, 0, 0, 1]);
    vec![whole.concat(), error, update]
}

/// Reads a server's messages, whole and in pieces.
pub(crate) fn run(bytes: &[u8]) {
    let asked = [
        message(18, 0, 0, 1, 13, b"a name\0\0"),
        message(1, 20, 0, 7, 2, &[0; 16]),
        message(1, 34, 0, 7, 3, &[0; 16]),
        message(15, 0, 1, 7, 4, &[]),
    ]
    .concat();
    let whole = pvwire_epics::ca::seen(&asked, bytes, bytes.len());
    for piece in [1, 7, 16, 100] {
        let in_pieces = pvwire_epics::ca::seen(&asked, bytes, piece);
        assert_eq!(in_pieces, whole, "in pieces of {piece}");
    }
    // Nor may what libca sends confuse it, of which names and values are a client's.
    let _ = pvwire_epics::ca::seen(bytes, &asked, 16);
}
