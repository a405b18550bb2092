//! The same records by pvAccess: a client of the second edge compares them with the answers of Channel Access.

use pvwire_schema::types::ConnectionState;

use super::entry::{Entry, has_copies};
use testbed::records::KINDS;
use testbed::{Pv, Told};

/// Kinds that both protocols serve with the same type.
const SAME: [&str; 15] = [
    "ai",
    "ao",
    "calc",
    "longin",
    "longout",
    "bi",
    "bo",
    "mbbi",
    "mbbo",
    "stringin",
    "stringout",
    "SHORT",
    "LONG",
    "FLOAT",
    "DOUBLE",
];

const SCHEME: &str = "pva://";

/// Kinds that no record of these PVs has: QSRV serves an array of enums as a single choice and fails at each update, and
/// the long string is asked for by a name that other types don't have.
pub(super) const NOT_SERVED: [&str; 2] = ["ENUM", "lso"];

/// Whether the client watches the record with this number. Those that Channel Access may hide at times are left out,
/// because QSRV checks no read access.
pub(super) fn is_watched(number: usize) -> bool {
    let first = KINDS[number % KINDS.len()];
    number % 3 == 1 && !number.is_multiple_of(14) && !NOT_SERVED.contains(&first)
}

/// The PVs to watch.
pub(super) fn names(entries: &[Entry]) -> Vec<String> {
    let watched = (entries.iter().enumerate()).filter(|(number, _)| is_watched(*number));
    watched
        .map(|(_, entry)| format!("{SCHEME}{}", entry.name))
        .collect()
}

/// The record of a PV of pvAccess.
pub(super) fn record_of(name: &str) -> Option<&str> {
    name.strip_prefix(SCHEME)
}

/// In what a client's PV differs from what Channel Access tells of its record. Of kinds whose types differ between the
/// protocols no value is compared. QSRV sends an alarm only with an update that changes it; of kinds that the IOC queues
/// no copies of, such an update may be dropped behind another one that waits.
pub(super) fn differences(kind: &str, told: Option<&Told>, pv: &Pv) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |what: &str, seen: String, truth: String| {
        if seen != truth {
            found.push(format!("{what}: {seen}, truth: {truth}"));
        }
    };
    let state = pv.connection.map(|connection| connection.state);
    let is_connected = state == Some(ConnectionState::Connected);
    compare(
        "connected",
        is_connected.to_string(),
        told.is_some().to_string(),
    );
    let Some(told) = told else {
        return found;
    };
    let Some(seen) = &pv.now else {
        compare("value", "none".to_owned(), format!("{:?}", told.value));
        return found;
    };
    if has_copies(kind) {
        let (seen, truth) = (seen.alarm, told.alarm);
        compare("alarm", format!("{seen:?}"), format!("{truth:?}"));
    }
    compare(
        "time stamp",
        seen.time_ns.to_string(),
        told.time_ns.to_string(),
    );
    if SAME.contains(&kind) {
        compare(
            "value",
            format!("{:?}", seen.value),
            format!("{:?}", told.value),
        );
        let units = pv.metadata.as_ref().map(|metadata| metadata.units.as_str());
        let truth = Some(told.metadata.units.as_str());
        compare("units", format!("{units:?}"), format!("{truth:?}"));
    }
    found
}
