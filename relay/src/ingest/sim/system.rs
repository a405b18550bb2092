//! The functions of `sys://`: what Phoebus shows of its machine, here of the relay's.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use pvwire_schema::types::{BlobValue, Metadata, ValueType};

use super::generator::{Generator, Pace};
use crate::ingest::{OpenError, RowValue};

/// There is no such PV.
#[derive(Debug, thiserror::Error)]
#[error("sys has no PV {0:?}; it has: time")]
struct Unknown(String);

/// Makes what a name asks for.
pub(super) fn read(name: &str) -> Result<Generator, OpenError> {
    if name != "time" {
        return Err(OpenError::name(Unknown(name.to_owned())));
    }
    let metadata = Metadata {
        value_type: ValueType::String,
        element_count: 1,
        description: "Local time of the relay".into(),
        ..Metadata::default()
    };
    let zone = TimeZone::system();
    let mut generator = Generator::new(Duration::from_secs(1), metadata, move |at| {
        let text = text(at.time_ns, &zone);
        RowValue::Blob(Arc::new(BlobValue::Text(text)))
    });
    generator.pace = Pace::AfterInterval;
    Ok(generator)
}

fn text(time_ns: i64, zone: &TimeZone) -> String {
    let time = Timestamp::from_nanosecond(time_ns.into());
    time.map_or_else(
        |_| String::new(),
        |time| {
            let local = time.to_zoned(zone.clone());
            local.strftime("%Y-%m-%d %H:%M:%S").to_string()
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_has_seconds_and_no_zone() {
        let time_ns = 1_709_251_199_500_000_000;
        assert_eq!(text(time_ns, &TimeZone::UTC), "2024-02-29 23:59:59");
        let zone = TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(text(time_ns, &zone), "2024-03-01 01:59:59");
        let refused = read("free_mb").map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("it has: time"), "{refused}");
    }
}
