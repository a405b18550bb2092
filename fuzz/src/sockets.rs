//! Target `sockets`: the count of a socket's frames doesn't depend on how its bytes arrive.

use pvwire_relay::session::socket::frames_begun;

/// Frames of all lengths, in two pieces.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let masked = |opcode: u8, length: &[u8], bytes: usize| {
        let mut frame = vec![3, opcode];
        frame.extend(length);
        frame.resize(frame.len() + 4 + bytes, 0x5a);
        frame
    };
    vec![
        masked(0x82, &[0x80 | 5], 5),
        masked(0x02, &[0x80 | 126, 1, 0], 256),
        masked(0x80, &[0x80 | 127, 0, 0, 0, 0, 0, 0, 1, 1], 257),
        [masked(0x89, &[0x80], 0), masked(0x8a, &[0x80], 0)].concat(),
        vec![
            1, 0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ],
    ]
}

/// The first byte says in pieces of which length the others come.
pub(crate) fn run(bytes: &[u8]) {
    let Some((length, stream)) = bytes.split_first() else {
        return;
    };
    let whole = frames_begun([stream]);
    let cut = frames_begun(stream.chunks(usize::from(*length) + 1));
    assert_eq!(whole, cut, "frames are counted by how they come");
    assert!(whole <= stream.len() / 2, "a frame has two bytes at least");
}
