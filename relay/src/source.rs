//! What must a protocol offer so that the relay can monitor PVs through it?

pub mod ca;
pub mod intake;

pub use intake::{Event, Intake, Line, Row, RowValue};

/// A protocol that PVs are reached by.
pub trait Source: Send + Sync {
    /// The scheme before `://` in PV names, such as `ca`.
    fn scheme(&self) -> &'static str;

    /// Opens the one monitor of a PV. Never waits; what comes of it arrives by `line`.
    ///
    /// # Errors
    /// A sentence for the person who wrote the name, when the protocol can't carry it.
    fn open(&self, name: &str, line: Line) -> Result<Box<dyn Monitor>, String>;
}

/// An open monitor. Dropping it closes it.
pub trait Monitor: Send {}
