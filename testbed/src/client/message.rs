//! A frame as a client received it.

use std::fmt;

use pvwire_schema::types::FrameKind;

/// A frame that moved the client's tick, as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    pub kind: FrameKind,
    pub tick: u64,
    pub rows: usize,
    /// It contains one large value, which other frames leave out.
    pub is_large: bool,
    pub bytes: Vec<u8>,
}

/// Shows only the number of its bytes, so that failures stay readable.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            tick,
            rows,
            is_large,
            bytes,
        } = self;
        let large = if *is_large { " large" } else { "" };
        write!(
            f,
            "{kind:?}{large} of tick {tick}, {rows} rows in {} bytes",
            bytes.len()
        )
    }
}

impl Message {
    /// Whether it came because the client was behind.
    pub fn is_catch_up(&self) -> bool {
        self.kind == FrameKind::CatchUp && !self.is_large
    }
}
