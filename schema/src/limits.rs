//! Limits of messages; larger ones are refused.

/// Maximum length of a request, in bytes: enough for 10,000 names of 60 characters.
pub const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Maximum number of names in a Subscribe or Get, and of ids in an Unsubscribe.
pub const MAX_NAMES: usize = 10_000;

/// Maximum length of a PV name, in bytes. Channel Access is limited to 60 for records of current
/// IOCs, pvAccess to some thousand.
pub const MAX_NAME_BYTES: usize = 512;

/// Maximum length of a frame, in bytes: enough for an array of 10 million doubles.
pub const MAX_FRAME_BYTES: usize = 256 << 20;

/// Maximum number of rows in a frame. Limits what a client allocates before it has read a column.
pub const MAX_ROWS: usize = 4 << 20;

/// Maximum number of flatbuffer tables in a frame: a snapshot of 50,000 PVs with all their parts.
pub const MAX_FRAME_TABLES: usize = 1 << 20;

/// Prefix of the message of a put that was refused by the rate limit, for reasons independent of the PV.
pub const TOO_FAST: &str = "too many puts and calls a second";

/// Maximum number of puts in a PutMany: their replies fit into the queue of a client.
pub const MAX_PUTS: usize = 32;

/// Maximum number of arguments of an Rpc.
pub const MAX_ARGUMENTS: usize = 100;

/// Maximum length of the name of a service in an Ask, in bytes.
pub const MAX_SERVICE_BYTES: usize = 64;

/// Maximum length of the question in an Ask, in bytes.
pub const MAX_QUESTION_BYTES: usize = 64 << 10;

/// Maximum length of the content of one page of an answer, in bytes. A client that reads slowly delays its
/// own live values by one page at most.
pub const MAX_PAGE_BYTES: usize = 64 << 10;

/// Maximum nesting of flatbuffer tables: structures in structures.
pub const MAX_DEPTH: usize = 64;
