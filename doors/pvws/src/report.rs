//! The JSON texts of the HTTP routes.

use pvwire_schema::types::Metadata;

use crate::java;
use crate::json;
use crate::life::write_severity;
use crate::name::Dialect;
use crate::update;
use crate::vtype::{Sample, VType};

/// What `/pvws/info` reports: when the server started, the program that serves, and with `settings` the settings
/// that PVWS has as environment variables.
#[must_use]
pub fn info(started_ns: i64, program: &str, settings: Option<&[(&str, String)]>) -> Vec<u8> {
    let mut out = b"{\"start_time\":".to_vec();
    json::string(&mut out, &date_and_time(started_ns));
    out.extend_from_slice(b",\"jre\":");
    json::string(&mut out, program);
    if let Some(settings) = settings {
        out.extend_from_slice(b",\"env\":");
        list(&mut out, settings, |out, (name, value)| {
            out.push(b'{');
            json::string(out, name);
            out.push(b':');
            json::string(out, value);
            out.push(b'}');
        });
    }
    out.push(b'}');
    out
}

/// What `/pvws/pvget` reports: one update with metadata and without `readonly`.
#[must_use]
pub fn got(spelling: &str, dialect: Dialect, metadata: &Metadata, sample: &Sample<'_>) -> Vec<u8> {
    let vtype = VType::of(sample.value, metadata, dialect);
    let mut out = update::head(spelling);
    update::block(&mut out, vtype, metadata, dialect);
    write_severity(&mut out, update::severity(vtype, sample, dialect));
    update::value(&mut out, vtype, sample, metadata, dialect);
    update::end(&mut out, None, sample.time_ns);
    out
}

/// What `/pvws/pool` reports: each open PV with the number of its clients.
#[must_use]
pub fn pool(pvs: &[(usize, &str)]) -> Vec<u8> {
    let mut out = Vec::new();
    list(&mut out, pvs, |out, (clients, name)| {
        out.extend_from_slice(b"{\"refs\":");
        java::integer(out, *clients as i64);
        out.extend_from_slice(b",\"pv\":");
        json::string(out, name);
        out.push(b'}');
    });
    out
}

/// A time as `yyyy-MM-dd HH:mm:ss`, UTC.
fn date_and_time(time_ns: i64) -> String {
    let seconds = time_ns.div_euclid(1_000_000_000) * 1_000_000_000;
    java::instant(seconds).replace('T', " ").replace('Z', "")
}

fn list<T>(out: &mut Vec<u8>, all: &[T], mut write: impl FnMut(&mut Vec<u8>, &T)) {
    out.push(b'[');
    for (index, one) in all.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, one);
    }
    out.push(b']');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn info_has_settings_only_when_asked_for() {
        let started_ns = 1_709_251_199_987_654_321;
        assert_eq!(
            text(info(started_ns, "pvwire \"1\"", None)),
            r#"{"start_time":"2024-02-29 23:59:59","jre":"pvwire \"1\""}"#
        );
        let settings = [("A", "1".to_owned()), ("B", "ca".to_owned())];
        assert_eq!(
            text(info(started_ns, "pvwire", Some(&settings))),
            r#"{"start_time":"2024-02-29 23:59:59","jre":"pvwire","env":[{"A":"1"},{"B":"ca"}]}"#
        );
    }

    #[test]
    fn pool_lists_names_and_numbers_of_clients() {
        assert_eq!(text(pool(&[])), "[]");
        assert_eq!(
            text(pool(&[(2, "ca://a"), (0, "pva://b")])),
            r#"[{"refs":2,"pv":"ca://a"},{"refs":0,"pv":"pva://b"}]"#
        );
    }
}
