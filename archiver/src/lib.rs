//! Decodes what the EPICS Archiver Appliance answers to `getData.raw` (PB over HTTP) into columns.
//!
//! The decoder does no I/O and needs no operating system, so that it runs in browsers as WebAssembly. The caller
//! pushes the bytes of an answer in pieces of any size and takes pieces with columns: times in nanoseconds past the
//! POSIX epoch, values, severities and statuses, as in updates of live PVs. Memory is bounded by [`Limits`],
//! whatever is pushed. Damaged lines are skipped and counted.
//!
//! ```
//! use pvwire_archiver::{Decoder, Limits, Values};
//!
//! // A header (a double, PV "X", year 1970) and one sample: second 1, nanosecond 0, value 1.5.
//! let answer = b"\x08\x06\x12\x01X\x18\xb2\x0f\x0a\x08\x01\x10\x00\x19\0\0\0\0\0\0\xf8\x3f\x0a";
//! let mut decoder = Decoder::new(Limits::default());
//! let mut rest = &answer[..];
//! while !rest.is_empty() {
//!     rest = &rest[decoder.push(rest)..];
//!     while let Some(piece) = decoder.take() {
//!         assert_eq!((piece.pv.as_str(), &piece.columns.time_ns[..]), ("X", &[1_000_000_000][..]));
//!         assert_eq!(piece.columns.values, Values::Numbers(vec![1.5]));
//!     }
//! }
//! assert_eq!(decoder.finish().damaged_lines, 0);
//! ```

#![forbid(unsafe_code)]

mod columns;
mod decoder;
mod fields;
mod header;
mod lines;
mod rows;
mod sample;

pub use self::columns::{Bins, Columns, FieldValue, Gap, GapCause, Lists, Values};
pub use self::decoder::{Decoder, Limits, Piece, Summary};
pub use self::header::{Metadata, PayloadType};
pub use self::rows::{RowBin, RowGap, Rows};
