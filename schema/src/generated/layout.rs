//! Layouts of a frame's tables; written by `make regen` from `fbs/frame.fbs`.
//!
//! Tables whose fields have the same types share one layout.

use super::table::Field::{Number, Table, Tables, Text, Texts, Union, Vector};
use super::table::Layout;

/// AnswerPage.
pub(super) static ANSWER_PAGE: Layout = Layout(&[
    Number(1), // outcome
    Text, // message
    Number(4), // page
    Number(1), // last
    Number(4), // bytes
    Vector { bytes: 8, align: 8 }, // data
]);

/// Blob.
pub(super) static BLOB: Layout = Layout(&[
    Number(4), // id
    Number(8), // time_ns
    Number(1), // type
    Number(1), // array
    Number(4), // count
    Vector { bytes: 8, align: 8 }, // data
    Texts, // text
    Table(&NODE), // structure
    Number(1), // partial
]);

/// Connection.
pub(super) static CONNECTION: Layout = Layout(&[
    Number(4), // id
    Number(1), // state
    Number(8), // since_ns
    Number(1), // read
    Number(1), // write
    Number(1), // puts
    Number(8), // heard_ns
    Number(1), // write_unknown
]);

/// Detail.
pub(super) static DETAIL: Layout = Layout(&[
    Number(4), // row
    Number(4), // user_tag
    Text, // message
]);

/// Frame.
pub(super) static FRAME: Layout = Layout(&[
    Number(1), // kind
    Number(8), // tick
    Number(8), // prev_tick
    Tables(&METADATA), // metadata
    Tables(&CONNECTION), // connections
    Table(&NUMBERS), // numbers
    Tables(&BLOB), // blobs
    Vector { bytes: 8, align: 4 }, // alarms
    Vector { bytes: 12, align: 4 }, // skips
    Vector { bytes: 4, align: 4 }, // sequences
    Number(4), // reply_to
    Number(1), // reply_type
    Union(&[&HELLO, &GOT, &UNSUBSCRIBED, &GOT, &LIMITS, &REQUEST_ERROR, &PUT_DONE, &PUT_DONE, &RELAYS, &ANSWER_PAGE]), // reply
    Tables(&DETAIL), // details
    Number(1), // skip_cause
]);

/// Got, Subscribed.
pub(super) static GOT: Layout = Layout(&[
    Vector { bytes: 4, align: 4 }, // ids
    Tables(&NAME_ERROR), // errors
]);

/// Hello.
pub(super) static HELLO: Layout = Layout(&[
    Text, // relay_version
    Number(8), // relay_instance
    Number(4), // max_request_bytes
    Number(4), // max_subscriptions
    Number(4), // ack_interval_ms
    Number(4), // not_found_after_ms
    Number(1), // authenticate
    Text, // user
    Number(8), // expires_in_ms
    Texts, // relays
    Number(1), // crowded
]);

/// Limits, Pong.
pub(super) static LIMITS: Layout = Layout(&[
    Number(8), // low
    Number(8), // high
]);

/// Metadata.
pub(super) static METADATA: Layout = Layout(&[
    Number(4), // id
    Number(1), // type
    Number(4), // element_count
    Text, // units
    Number(2), // precision
    Texts, // choices
    Table(&LIMITS), // display
    Table(&LIMITS), // control
    Table(&LIMITS), // warning
    Table(&LIMITS), // alarm
    Text, // description
    Number(4), // epoch
    Text, // type_id
    Text, // form
    Text, // missing_field
]);

/// NameError.
pub(super) static NAME_ERROR: Layout = Layout(&[
    Number(4), // index
    Number(1), // problem
    Text, // message
]);

/// Node.
pub(super) static NODE: Layout = Layout(&[
    Text, // name
    Text, // type_id
    Number(1), // type
    Number(1), // array
    Number(4), // count
    Vector { bytes: 8, align: 8 }, // data
    Texts, // text
    Tables(&NODE), // fields
]);

/// Numbers.
pub(super) static NUMBERS: Layout = Layout(&[
    Number(4), // count
    Vector { bytes: 1, align: 1 }, // ids
    Number(8), // base_time_ns
    Vector { bytes: 1, align: 1 }, // times
    Vector { bytes: 8, align: 8 }, // values
    Vector { bytes: 1, align: 1 }, // packed
    Number(4), // ids_bytes
    Number(4), // times_bytes
]);

/// PutDone, RpcDone.
pub(super) static PUT_DONE: Layout = Layout(&[
    Number(1), // outcome
    Text, // message
    Table(&NODE), // readback
]);

/// Relays.
pub(super) static RELAYS: Layout = Layout(&[
    Texts, // relays
]);

/// RequestError.
pub(super) static REQUEST_ERROR: Layout = Layout(&[
    Number(1), // problem
    Text, // message
]);

/// Unsubscribed.
pub(super) static UNSUBSCRIBED: Layout = Layout(&[
    Vector { bytes: 4, align: 4 }, // ids
]);

/// Size and field offsets of AlarmRow.
pub(super) mod alarm_row {
    pub(crate) const BYTES: usize = 8;
    pub(crate) const ROW: usize = 0;
    pub(crate) const STATUS: usize = 4;
    pub(crate) const SEVERITY: usize = 6;
}

/// Size and field offsets of SkipRow.
pub(super) mod skip_row {
    pub(crate) const BYTES: usize = 12;
    pub(crate) const ROW: usize = 0;
    pub(crate) const COUNT: usize = 4;
    pub(crate) const CAUSE: usize = 8;
}
