//! The check of a frame against the verifier that flatc generates.

use std::sync::LazyLock;

use flatbuffers::{InvalidFlatbuffer, VerifierOptions};
use proptest::prelude::*;

use super::*;
use crate::encode::FrameEncoder;
use crate::types::{Connection, ConnectionState, FrameKind, PvId};

#[path = "../../tests/messages/golden.rs"]
mod golden;

/// Every frame of the golden file.
static GOLDEN: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let messages = golden::messages(include_str!("../../tests/golden.json"));
    let frames = messages
        .values()
        .filter(|message| message.get("decoded").is_some());
    frames.map(golden::bytes_of).collect()
});

fn generated_verifier_takes(bytes: &[u8]) -> bool {
    let options = VerifierOptions {
        max_depth: MAX_DEPTH,
        max_tables: MAX_FRAME_TABLES,
        max_apparent_size: apparent_bytes(bytes),
        ignore_missing_null_terminator: true,
    };
    match fb::root_as_frame_with_opts(&options, bytes) {
        Ok(_) => true,
        // A missing answer is treated as no answer, whatever its declared kind.
        Err(error) => matches!(error, InvalidFlatbuffer::InconsistentUnion { .. }),
    }
}

fn taken(bytes: &[u8]) -> bool {
    let budget = Budget {
        tables: MAX_FRAME_TABLES,
        bytes: apparent_bytes(bytes),
        depth: MAX_DEPTH,
    };
    table::checked(bytes, &layout::FRAME, budget).is_ok()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn the_check_takes_nothing_that_the_generated_verifier_refuses(
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        keep in any::<prop::sample::Index>(),
        cut: bool,
    ) {
        let mut bytes = file.get(&GOLDEN).clone();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if cut {
            bytes.truncate(keep.index(bytes.len()).max(8));
        }
        // It refuses more: fields outside of the size that a table says it has.
        prop_assert!(!taken(&bytes) || generated_verifier_takes(&bytes));
    }
}

#[test]
fn frame_with_the_states_of_many_pvs_alone_is_not_damaged() {
    let mut encoder = FrameEncoder::new();
    for flags in 0..32_u8 {
        let is = |bit: u8| flags >> bit & 1 == 1;
        let connection = Connection {
            state: ConnectionState::Connected,
            since_ns: if is(0) { 1_800_000_000_000_000_000 } else { 0 },
            read: is(1),
            write: is(2),
            puts: is(3),
            heard_ns: 0,
            write_unknown: is(4),
        };
        encoder.begin(FrameKind::Update, 2, 1);
        for pv in 0..2000 {
            encoder.connection(PvId(pv), connection);
        }
        let decoded = frame(encoder.finish()).map(|view| view.connections().count());
        assert_eq!(decoded, Ok(2000), "{connection:?}");
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let errors = [
        DecodeError::TooLong { bytes: 9, limit: 8 },
        DecodeError::WrongKind { expected: "PVWF" },
        DecodeError::Damaged("byte 70".to_owned()),
        DecodeError::TooMany {
            what: "rows",
            count: 3,
            limit: 2,
        },
        DecodeError::ColumnMismatch {
            column: "ids",
            rows: 12,
        },
        DecodeError::Missing("reply"),
    ];
    let texts = errors.map(|error| error.to_string());
    assert_eq!(
        texts,
        [
            "message of 9 bytes is longer than the limit of 8",
            "file identifier is not PVWF",
            "damaged flatbuffer: byte 70",
            "3 rows are more than the limit of 2",
            "column ids doesn't fit 12 rows",
            "reply is missing or unknown",
        ]
    );
}
