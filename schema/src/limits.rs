//! How large a message may be before it is refused at the door.

/// Longest request that a relay reads, in bytes: 10,000 names of 60 characters fit with room.
pub const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Most names in one Subscribe or Get, most ids in one Unsubscribe.
pub const MAX_NAMES: usize = 10_000;

/// Longest PV name, in bytes. Channel Access stops at 60 for records of today's IOCs, pvAccess at
/// some thousand; nobody types more than this.
pub const MAX_NAME_BYTES: usize = 512;

/// Longest frame that a client reads, in bytes: an array of 10 million doubles and its neighbours.
pub const MAX_FRAME_BYTES: usize = 256 << 20;

/// Most rows in one frame; bounds what a client sets aside before it has read a column.
pub const MAX_ROWS: usize = 4 << 20;

/// Most flatbuffer tables in one frame: a snapshot of 50,000 PVs with all their parts.
pub const MAX_FRAME_TABLES: usize = 1 << 20;

/// How the message of a put begins that was asked for too fast: it says nothing of the PV.
pub const TOO_FAST: &str = "too many puts and calls a second";

/// Most puts in one PutMany: their answers fit among those that may wait for a client.
pub const MAX_PUTS: usize = 32;

/// Most arguments of one Rpc.
pub const MAX_ARGUMENTS: usize = 100;

/// Deepest nesting of flatbuffer tables in any message: structures in structures.
pub const MAX_DEPTH: usize = 64;
