//! The past on a disk: segment files that are only appended to, and what is read from them at the start.

pub(super) mod batch;
pub(super) mod folder;
pub(super) mod restore;
