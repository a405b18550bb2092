//! Puts and reads of one request, whose outcomes belong together.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use pvwire_schema::types::{Connection, Metadata, PutValue};

use crate::ingest::weight::Weight;
use crate::ingest::{OpEnd, RowValue};
use crate::limits::memory::{Charge, Owner};
use crate::state::table::Latest;

/// Puts and then reads, whose outcomes belong together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Distinguishes it from the client's other batches.
    pub number: u32,
    /// The values to write.
    pub puts: Vec<BatchPut>,
    /// Whether the puts wait for the completion of their records.
    pub wait: bool,
    /// How long each put may take.
    pub put_timeout: Duration,
    /// The names of the PVs to read, and how long to wait for the value of each.
    pub reads: Vec<(String, Duration)>,
    /// Whether the client shows descriptions, which some sources send only when asked.
    pub describe: bool,
}

/// A value to write.
#[derive(Clone, Debug)]
pub struct BatchPut {
    /// The name of the PV, with its prefix.
    pub name: String,
    /// The value.
    pub value: PutValue,
    /// The text to write in its place if the PV's value is a single string.
    pub literal: Option<String>,
}

/// A connected PV's value and metadata.
#[derive(Clone, Debug)]
pub struct PvValue {
    /// Its type and display information.
    pub metadata: Arc<Metadata>,
    /// Its value.
    pub latest: Latest,
    /// Connection and access rights.
    pub connection: Connection,
}

impl PvValue {
    /// About how many array elements its value has.
    #[must_use]
    pub fn elements(&self) -> usize {
        match &self.latest.value {
            RowValue::Number(_) => 1,
            RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => {
                Weight::of(blob).bytes() / size_of::<f64>()
            }
        }
    }
}

/// Why a read has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// None came in time.
    #[error("{name} has no value within {} s{}{reason}", waited.as_secs_f64(), if reason.is_empty() { "" } else { ": " })]
    NoValue {
        /// The PV.
        name: String,
        /// How long the read waited.
        waited: Duration,
        /// What is known of the cause, or empty.
        reason: String,
    },
    /// The client may not read the PV, or not so often, for this reason.
    #[error("{0}")]
    NotAllowed(String),
    /// The relay can't serve the PV, for this reason.
    #[error("{0}")]
    Refused(String),
}

/// The outcome of a batch.
#[derive(Debug, Default)]
pub struct BatchResult {
    /// Of each put.
    pub puts: Vec<OpEnd>,
    /// Of each read: the PV, or the reason why it has no value.
    pub reads: Vec<Result<PvValue, ReadError>>,
}

impl BatchResult {
    /// About how many array elements a response may have.
    #[must_use]
    pub fn elements(&self) -> usize {
        let read = self.reads.iter().flatten();
        let elements: usize = read.map(PvValue::elements).sum();
        elements + self.reads.len() + self.puts.len()
    }
}

/// Writes the response to a batch, on any thread: it may be as large as all values together.
pub struct Respond(pub WriteResponse);

/// Makes a response in JSON of the outcome of a batch, within the memory of this client, which is charged for it unless there
/// is too little.
pub type WriteResponse =
    Box<dyn FnOnce(&BatchResult, &Arc<Owner>) -> (Vec<u8>, Option<Charge>) + Send>;

impl fmt::Debug for Respond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Respond")
    }
}
