//! Tests of the check, message by message.

use super::*;
use crate::ca::message;

const DBR_TIME_DOUBLE: u16 = 20;

/// A circuit whose client has created channel 5, subscribed with number 7 and is reading with
/// number 8.
fn circuit() -> Check {
    let mut check = Check::default();
    let sent = [
        message(CREATE_CHAN, 0, 0, 5, 13, b"a name\0\0"),
        message(EVENT_ADD, DBR_TIME_DOUBLE, 0, 1, 7, &[0; 16]),
        message(READ_NOTIFY, 0, 1, 1, 8, &[]),
    ]
    .concat();
    check.sending(&sent);
    check.sent(&sent);
    check
}

/// What libca sees of these bytes and which message it doesn't see as it was sent, in whatever
/// pieces they arrive.
fn seen(bytes: &[u8]) -> Result<(Vec<u8>, Option<Lie>), Lie> {
    let in_pieces = |size| {
        let mut check = circuit();
        let mut seen = Vec::new();
        for piece in bytes.chunks(size) {
            let mut bytes = [check.held(), piece].concat();
            let count = check.received(&mut bytes)?;
            seen.extend(&bytes[..count]);
        }
        Ok((seen, check.take_withheld().map(|(lie, _)| lie)))
    };
    let whole = in_pieces(bytes.len());
    for size in 1..bytes.len() {
        assert_eq!(in_pieces(size), whole, "in pieces of {size}");
    }
    whole
}

/// Checks that libca sees all of a message.
fn passes(bytes: &[u8]) {
    assert_eq!(seen(bytes), Ok((bytes.to_vec(), None)));
}

#[test]
fn what_an_honest_server_sends_passes() {
    let honest = [
        message(VERSION, 0, 13, 0, 0, &[]),
        message(ACCESS_RIGHTS, 0, 0, 5, 3, &[]),
        message(CREATE_CHAN, 6, 1, 5, 1, &[]),
        message(EVENT_ADD, DBR_TIME_DOUBLE, 1, ECA_NORMAL, 7, &[0; 24]),
        // No element, and no read access.
        message(EVENT_ADD, DBR_TIME_DOUBLE, 0, ECA_NORMAL, 7, &[0; 16]),
        message(EVENT_ADD, DBR_TIME_DOUBLE, 1, 368, 7, &[0; 8]),
        message(READ_NOTIFY, 0, 1, ECA_NORMAL, 8, &[0; 40]),
        // A subscription is read after the circuit was unresponsive.
        message(READ_NOTIFY, DBR_TIME_DOUBLE, 1, ECA_NORMAL, 7, &[0; 24]),
        message(ECHO, 0, 0, 0, 0, &[]),
        message(
            ERROR,
            0,
            0,
            0,
            192,
            &message(WRITE, 6, 1, 1, 5, b"no!\0\0\0\0\0"),
        ),
        // The confirmation, and an update that was sent before it.
        message(EVENT_ADD, DBR_TIME_DOUBLE, 1, 1, 7, &[]),
        message(EVENT_ADD, DBR_TIME_DOUBLE, 1, ECA_NORMAL, 7, &[0; 24]),
        message(CLEAR_CHANNEL, 0, 0, 1, 5, &[]),
        message(SERVER_DISCONN, 0, 0, 5, 0, &[]),
    ];
    passes(&honest.concat());
}

#[test]
fn string_in_its_own_length_and_metadata_without_an_element_are_no_lies() {
    // A server of PCAS sends one string up to its NUL, in a multiple of eight bytes.
    passes(&message(READ_NOTIFY, 0, 1, ECA_NORMAL, 8, b"1.500\0\0\0"));
    let short = [&[0; 12][..], b"abc\0"].concat();
    passes(&message(EVENT_ADD, 14, 1, ECA_NORMAL, 7, &short));
    // caproto sends the metadata of an empty array as if it had an element.
    passes(&message(EVENT_ADD, 34, 1, ECA_NORMAL, 7, &[0; 80]));
}

/// The begin of a connection with a server whose answers have a status.
fn version() -> Vec<u8> {
    message(VERSION, 0, 13, 0, 0, &[])
}

fn update(count: u16, status: u32, id: u32, size: usize) -> Vec<u8> {
    let payload = vec![0; size];
    message(EVENT_ADD, DBR_TIME_DOUBLE, count, status, id, &payload)
}

/// An update of a header with 32 bits for size and count.
fn long_update(size: u32, count: u32) -> Vec<u8> {
    let mut bytes = update(0, ECA_NORMAL, 7, 0);
    bytes[2..4].copy_from_slice(&[0xff, 0xff]);
    bytes.extend([size, count].map(u32::to_be_bytes).concat());
    bytes
}

#[test]
fn lie_about_a_pv_is_told_to_its_callback() {
    let short = |dbr_type, count, size| Lie::Short {
        dbr_type,
        count,
        size,
    };
    let double = |count, size| short(DBR_TIME_DOUBLE, count, size);
    let long = [long_update(24, u32::MAX), vec![0; 24]].concat();
    let text = [&[0; 12][..], b"text"].concat();
    let cases = [
        (update(2, ECA_NORMAL, 7, 24), double(2, 24)),
        (update(60_000, ECA_NORMAL, 7, 24), double(60_000, 24)),
        (update(0, ECA_NORMAL, 7, 8), double(0, 8)),
        (long, double(u32::MAX, 24)),
        (
            update(1, ECA_CHANDESTROY, 7, 24),
            Lie::Status(ECA_CHANDESTROY),
        ),
        (update(1, ECA_DISCONN, 7, 24), Lie::Status(ECA_DISCONN)),
        (
            message(EVENT_ADD, 39, 1, ECA_NORMAL, 7, &[0; 48]),
            Lie::Type(39),
        ),
        (
            message(READ_NOTIFY, 0, 2, ECA_NORMAL, 8, &[0; 40]),
            short(0, 2, 40),
        ),
        // A string without an end, and metadata without a limit or beyond libca's buffer.
        (
            message(READ_NOTIFY, 0, 1, ECA_NORMAL, 8, b"no end!!"),
            short(0, 1, 8),
        ),
        (
            message(EVENT_ADD, 14, 1, ECA_NORMAL, 7, &text),
            short(14, 1, 16),
        ),
        (
            message(EVENT_ADD, 34, 1, ECA_NORMAL, 7, &[0; 72]),
            short(34, 1, 72),
        ),
        (
            message(EVENT_ADD, 34, 60_000, ECA_NORMAL, 7, &[0; 80]),
            short(34, 60_000, 80),
        ),
    ];
    for (bytes, lie) in cases {
        let (seen, withheld) = seen(&[version(), bytes.clone()].concat()).unwrap();
        assert_eq!(withheld, Some(lie));
        let (header, length) = Header::first(&seen[16..]).unwrap();
        let why = Lie::of_status(header.one as i32, header.data_type.into(), 1);
        assert!(why.is_some(), "{lie:?}");
        let sent = Header::first(&bytes).unwrap().0;
        assert_eq!((header.two, header.count), (sent.two, sent.count));
        assert_eq!(seen[16 + length..], bytes[length..]);
    }
    // Without a version libca may not take the field for a status.
    let bytes = update(2, 368, 7, 24);
    assert_eq!(seen(&bytes), Ok((Vec::new(), Some(double(2, 24)))));
}

#[test]
fn channel_of_an_unknown_type_is_refused_as_if_by_its_server() {
    for field_type in [7, 99] {
        let bytes = message(CREATE_CHAN, field_type, 1, 5, 1, &[]);
        let mut refused = bytes.clone();
        refused[1] = CREATE_CH_FAIL as u8;
        assert_eq!(seen(&bytes), Ok((refused, Some(Lie::Type(field_type)))));
    }
}

#[test]
fn message_that_concerns_no_request_is_withheld_alone() {
    let unasked = |command, id| Lie::Unasked { command, id };
    let error = |request: &[u8]| message(ERROR, 0, 0, 0, 192, request);
    let about = |command, id| error(&message(command, 6, 1, 1, id, &[0; 8]));
    let cases = [
        (update(1, ECA_NORMAL, 6, 24), unasked(EVENT_ADD, 6)),
        // The answer to a read, sent as an update.
        (update(1, ECA_NORMAL, 8, 24), unasked(EVENT_ADD, 8)),
        (
            message(READ_NOTIFY, 0, 1, ECA_NORMAL, 9, &[0; 40]),
            unasked(READ_NOTIFY, 9),
        ),
        (
            message(WRITE_NOTIFY, 0, 1, ECA_NORMAL, 7, &[]),
            unasked(WRITE_NOTIFY, 7),
        ),
        (
            message(CREATE_CHAN, 6, 1, 4, 1, &[]),
            unasked(CREATE_CHAN, 4),
        ),
        (
            message(ACCESS_RIGHTS, 0, 0, 4, 0, &[]),
            unasked(ACCESS_RIGHTS, 4),
        ),
        (
            message(SERVER_DISCONN, 0, 0, 4, 0, &[]),
            unasked(SERVER_DISCONN, 4),
        ),
        (message(SEARCH, 0, 0, 5, 5, &[]), Lie::Command(SEARCH)),
        (message(READ, 0, 1, 1, 8, &[0; 40]), Lie::Command(READ)),
        (about(EVENT_ADD, 8), unasked(EVENT_ADD, 8)),
        (about(READ_NOTIFY, 7), unasked(READ_NOTIFY, 7)),
        (about(WRITE_NOTIFY, 7), unasked(WRITE_NOTIFY, 7)),
        (about(0xfff0, 1), unasked(0xfff0, 1)),
        (about(READ, 8), unasked(READ, 8)),
        (error(&[1; 8]), Lie::Error),
        (error(&[]), Lie::Error),
        (error(&message(VERSION, 0, 0, 0, 0, &[])), Lie::Error),
    ];
    let good = update(1, ECA_NORMAL, 7, 24);
    for (bytes, lie) in cases {
        let stream = [&good[..], &bytes, &good].concat();
        assert_eq!(seen(&stream), Ok((good.repeat(2), Some(lie))), "{lie:?}");
    }
    // The second answer to one request.
    for (bytes, lie) in [
        (
            message(READ_NOTIFY, 0, 1, ECA_NORMAL, 8, &[0; 40]),
            unasked(READ_NOTIFY, 8),
        ),
        (
            message(CREATE_CHAN, 6, 1, 5, 1, &[]),
            unasked(CREATE_CHAN, 5),
        ),
    ] {
        assert_eq!(seen(&bytes.repeat(2)), Ok((bytes, Some(lie))));
    }
}

#[test]
fn text_of_an_error_ends_at_the_latest_with_its_message() {
    let request = message(VERSION, 0, 0, 0, 0, &[b'x'; 800]);
    let bytes = message(ERROR, 0, 0, 0, 192, &request);
    let mut ended = bytes.clone();
    *ended.last_mut().unwrap() = 0;
    assert_eq!(seen(&bytes), Ok((ended, None)));
}

#[test]
fn circuit_ends_where_the_next_message_is_unknown() {
    let size = |command, size| Lie::Size { command, size };
    for (bytes, lie) in [
        (update(1, ECA_NORMAL, 7, 28), size(EVENT_ADD, 28)),
        (long_update(0xffff_fff8, 1), size(EVENT_ADD, 0xffff_fff8)),
        (message(ECHO, 0, 0, 0, 0, &[0; 20_000]), size(ECHO, 20_000)),
        (message(99, 0, 0, 0, 0, &[]), Lie::Command(99)),
    ] {
        assert_eq!(seen(&bytes), Err(lie));
    }
}

#[test]
fn echo_is_requested_between_two_messages_of_libca() {
    let mut check = Check::default();
    let request = message(EVENT_ADD, DBR_TIME_DOUBLE, 0, 1, 7, &[0; 16]);
    assert!(check.want_echo());
    assert_eq!(check.echo_to_send(), message(ECHO, 0, 0, 0, 0, &[]));
    check.sending(&request);
    assert!(check.echo_to_send().is_empty());
    // The system accepted only part of it at the first attempt.
    check.sent(&request[..20]);
    assert!(check.echo_to_send().is_empty());
    check.sending(&request[20..]);
    check.sent(&request[20..]);
    assert_eq!(check.echo_to_send().len(), 16);
    assert!(!check.is_within_echo());
    check.echo_sent(5);
    assert_eq!(
        (check.echo_to_send().len(), check.is_within_echo()),
        (11, true)
    );
    check.echo_sent(11);
    assert!(check.echo_to_send().is_empty() && !check.is_within_echo());
}

#[test]
fn server_that_knows_no_echo_is_asked_for_none() {
    let mut check = circuit();
    check
        .received(&mut message(VERSION, 0, 2, 0, 0, &[]))
        .unwrap();
    assert!(!check.want_echo());
}

#[test]
fn layouts_are_those_of_libca() {
    // SAFETY: a constant table of libca with this length.
    let sizes = unsafe { ca_sys::dbr_size };
    for (dbr_type, (start, element)) in LAYOUT.into_iter().enumerate() {
        assert_eq!(start + element, sizes[dbr_type], "{dbr_type}");
    }
}

#[test]
fn what_is_sent_in_two_halves_is_noted_once_it_is_whole() {
    let request = message(EVENT_ADD, DBR_TIME_DOUBLE, 0, 1, 7, &[0; 16]);
    let mut check = Check::default();
    // The system accepted only part of it at the first attempt.
    check.sending(&request);
    check.sent(&request[..20]);
    check.sending(&request[20..]);
    check.sent(&request[20..]);
    let next = message(EVENT_ADD, DBR_TIME_DOUBLE, 0, 1, 9, &[0; 16]);
    check.sending(&next);
    for id in [7, 9] {
        assert!(check.asked.is_subscription(id));
    }
    assert!(!check.asked.is_subscription(8));
}
