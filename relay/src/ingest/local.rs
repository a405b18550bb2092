//! Local PVs as a source: values that all clients of the relay share while one of them holds them, without an IOC.

use std::sync::{Arc, Mutex, PoisonError};

use pvwire_pvws::local::{self, LocalPv, LocalValue};
use pvwire_schema::types::{Metadata, Outcome};

use super::{
    Event, Line, Monitor, OpDone, OpEnd, OpTicket, OpenError, Put, Queue, RowValue, Source,
};
use crate::ops::latency::wall_ns;

/// PVs such as `loc://x<VDouble>(3)`. The first client that asks for `loc://x` decides type and initial value.
#[derive(Debug, Default)]
pub struct LocalSource;

impl Source for LocalSource {
    fn scheme(&self) -> &'static str {
        "loc"
    }

    fn key<'a>(&self, name: &'a str) -> &'a str {
        // `open` refuses invalid names.
        local::key(name).unwrap_or(name)
    }

    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let pv = LocalPv::open(name).map_err(OpenError::name)?;
        line.event(Event::Access {
            read: true,
            write: true,
        });
        let mut open = OpenLocal {
            pv,
            line,
            shown: None,
        };
        open.show();
        Ok(Box::new(LocalMonitor(Mutex::new(open))))
    }
}

/// The row's value.
pub(super) fn row(value: LocalValue) -> RowValue {
    match value {
        LocalValue::Number(number) => RowValue::Number(number),
        LocalValue::Blob(blob) => RowValue::Blob(Arc::new(blob)),
    }
}

/// A local PV that is open. The lock around it makes its line's calls one at a time.
struct OpenLocal {
    pv: LocalPv,
    line: Line,
    /// The metadata that clients know.
    shown: Option<Metadata>,
}

impl OpenLocal {
    /// Sends the value, after the metadata if they have changed. From now on the table alone holds the value, which
    /// is charged to a client.
    fn show(&mut self) {
        let (metadata, value, alarm) = self.pv.take();
        if self.shown.as_ref() != Some(&metadata) {
            self.line.connected(self.shown.is_some());
            self.line.event(Event::Metadata(Box::new(Metadata {
                epoch: self.line.epoch(),
                ..metadata.clone()
            })));
            self.shown = Some(metadata);
        }
        self.line.update(wall_ns(), row(value), alarm);
    }

    fn put(&mut self, put: &Put) -> OpEnd {
        if put
            .expected
            .is_some_and(|expected| expected != self.line.newest())
        {
            let why = "the PV has changed since the update that the put expects";
            return OpEnd::failed(Outcome::Changed, why);
        }
        if let Err(error) = self.pv.write(&put.value) {
            return OpEnd::failed(Outcome::BadValue, error.to_string());
        }
        self.show();
        OpEnd::DONE
    }
}

struct LocalMonitor(Mutex<OpenLocal>);

impl Monitor for LocalMonitor {
    /// The value is gone with the last client that holds it.
    fn lingers(&self) -> bool {
        false
    }

    fn put(&self, put: Put, done: OpDone) -> OpTicket {
        // A write is complete or has changed nothing, so a panic elsewhere doesn't affect it.
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = open.put(&put);
        drop(open);
        done(end);
        OpTicket::ended()
    }
}
