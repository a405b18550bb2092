//! What do the tables of a frame hold, as `frame.fbs` says?

use super::table::Field::{Number, Table, Tables, Text, Texts, Union, Vector};
use super::table::{Field, Layout};

const ALARM_ROWS: Field = Vector { bytes: 8, align: 4 };

const SKIP_ROWS: Field = Vector {
    bytes: 12,
    align: 4,
};

const NUMBERS: Layout = Layout(&[
    Number(4),
    Field::vector(1),
    Number(8),
    Field::vector(1),
    Field::vector(8),
    Field::vector(1),
    Number(4),
    Number(4),
]);

static NODE: Layout = Layout(&[
    Text,
    Text,
    Number(1),
    Number(1),
    Number(4),
    Field::vector(8),
    Texts,
    Tables(&NODE),
]);

static BLOB: Layout = Layout(&[
    Number(4),
    Number(8),
    Number(1),
    Number(1),
    Number(4),
    Field::vector(8),
    Texts,
    Table(&NODE),
    Number(1),
]);

const DETAIL: Layout = Layout(&[Number(4), Number(4), Text]);

const LIMITS: Layout = Layout(&[Number(8), Number(8)]);

const METADATA: Layout = Layout(&[
    Number(4),
    Number(1),
    Number(4),
    Text,
    Number(2),
    Texts,
    Table(&LIMITS),
    Table(&LIMITS),
    Table(&LIMITS),
    Table(&LIMITS),
    Text,
    Number(4),
    Text,
    Text,
    Text,
]);

const CHANNEL: Layout = Layout(&[
    Number(4),
    Number(1),
    Number(8),
    Number(1),
    Number(1),
    Number(1),
    Number(8),
    Number(1),
]);

const NAME_ERROR: Layout = Layout(&[Number(4), Number(1), Text]);

const HELLO: Layout = Layout(&[
    Text,
    Number(8),
    Number(4),
    Number(4),
    Number(4),
    Number(4),
    Number(1),
    Text,
    Number(8),
]);

/// Subscribed, Unsubscribed and Got.
const IDS: Layout = Layout(&[Field::vector(4), Tables(&NAME_ERROR)]);

const PONG: Layout = Layout(&[Number(8), Number(8)]);

/// PutDone, RpcDone and RequestError.
static DONE: Layout = Layout(&[Number(1), Text, Table(&NODE)]);

/// Root of a message from the relay.
pub(super) static FRAME: Layout = Layout(&[
    Number(1),
    Number(8),
    Number(8),
    Tables(&METADATA),
    Tables(&CHANNEL),
    Table(&NUMBERS),
    Tables(&BLOB),
    ALARM_ROWS,
    SKIP_ROWS,
    Field::vector(4),
    Number(4),
    Number(1),
    Union(&[&HELLO, &IDS, &IDS, &IDS, &PONG, &DONE, &DONE, &DONE]),
    Tables(&DETAIL),
    Number(1),
]);
