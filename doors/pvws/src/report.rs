//! The JSON texts of the HTTP routes.

use pvwire_schema::types::{BlobValue, Metadata};

use crate::java;
use crate::json;
use crate::life::write_severity;
use crate::name::Dialect;
use crate::update::{self, Keys};
use crate::vtype::{Sample, VType, Value};

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

/// What `/pvws/pvget` reports: one update with metadata and without `readonly`. `responds`: the PV's server does.
#[must_use]
pub fn got(
    spelling: &str,
    dialect: Dialect,
    metadata: &Metadata,
    sample: &Sample<'_>,
    responds: bool,
) -> Vec<u8> {
    let vtype = VType::of(sample.value, metadata, dialect);
    let mut out = update::head(spelling);
    update::block(&mut out, vtype, metadata, dialect, Keys::default());
    if responds {
        let severity = vtype.name().map(|_| update::severity(sample, dialect));
        write_severity(&mut out, severity);
        update::value(&mut out, vtype, sample, metadata, dialect);
    } else {
        write_severity(&mut out, vtype.name().map(|_| "INVALID"));
        update::no_value(&mut out, vtype);
    }
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

/// A client's socket, as `/pvws/summary` and `/pvws/socket` report it. Times are milliseconds past the POSIX epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketSeen {
    /// Identifies the socket.
    pub id: String,
    /// When it was opened.
    pub created_ms: i64,
    /// When the client's last message came.
    pub heard_ms: i64,
    /// When the client was last sent something.
    pub sent_ms: i64,
    /// What waits for the client.
    pub queued: usize,
    /// The subscribed names with their values.
    pub pvs: Vec<(String, String)>,
    /// Number of PVs whose value is an array.
    pub arrays: usize,
    /// Elements of the largest array.
    pub max_size: usize,
}

/// What `/pvws/summary` reports: each socket with the number of its PVs.
#[must_use]
pub fn summary(all: &[SocketSeen]) -> Vec<u8> {
    sockets_with(all, |out, socket| {
        for (key, count) in [
            ("pvs", socket.pvs.len()),
            ("arrays", socket.arrays),
            ("max_size", socket.max_size),
        ] {
            update::key(out, key);
            java::integer(out, count as i64);
        }
    })
}

/// What `/pvws/socket` reports: each socket with its PVs and their values.
#[must_use]
pub fn sockets(all: &[SocketSeen]) -> Vec<u8> {
    sockets_with(all, |out, socket| {
        update::key(out, "pvs");
        list(out, &socket.pvs, |out, (name, value)| {
            out.extend_from_slice(b"{\"name\":");
            json::string(out, name);
            out.extend_from_slice(b",\"value\":");
            json::string(out, value);
            out.push(b'}');
        });
    })
}

fn sockets_with(all: &[SocketSeen], more: impl Fn(&mut Vec<u8>, &SocketSeen)) -> Vec<u8> {
    let mut out = b"{\"sockets\":".to_vec();
    list(&mut out, all, |out, socket| {
        out.extend_from_slice(b"{\"id\":");
        json::string(out, &socket.id);
        for (key, number) in [
            ("created", socket.created_ms),
            ("last_client_message", socket.heard_ms),
            ("last_message_sent", socket.sent_ms),
            ("queued", socket.queued as i64),
        ] {
            update::key(out, key);
            java::integer(out, number);
        }
        more(out, socket);
        out.push(b'}');
    });
    out.push(b'}');
    out
}

/// Number of elements of an array; `None` for other values.
#[must_use]
pub fn elements(value: Value<'_>) -> Option<usize> {
    match value {
        Value::Blob(BlobValue::Array(array)) => Some(array.count as usize),
        Value::Blob(BlobValue::TextArray(texts)) => Some(texts.len()),
        _ => None,
    }
}

/// A value as `/pvws/socket` shows it: arrays and structures only by their size.
#[must_use]
pub fn brief(value: Option<Value<'_>>) -> String {
    let Some(value) = value else {
        return String::new();
    };
    if let Some(count) = elements(value) {
        return format!("{count} elements");
    }
    match value {
        Value::Number(number) => number.to_string(),
        Value::Blob(BlobValue::Int64(integer)) => integer.to_string(),
        Value::Blob(BlobValue::UInt64(integer)) => integer.to_string(),
        Value::Blob(BlobValue::Text(text)) => text.chars().take(MOST_CHARACTERS).collect(),
        Value::Blob(_) => "structure".to_owned(),
    }
}

/// Maximum number of characters of a text that `/pvws/socket` shows.
const MOST_CHARACTERS: usize = 100;

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
    fn sockets_have_times_and_values_or_numbers_of_pvs() {
        let texts = BlobValue::TextArray(vec![String::new(); 3]);
        let value = brief(Some(Value::Blob(&texts)));
        let socket = SocketSeen {
            id: "1.2.3".to_owned(),
            created_ms: 5,
            heard_ms: 6,
            sent_ms: 7,
            queued: 0,
            pvs: vec![
                ("a".to_owned(), brief(Some(Value::Number(1.5)))),
                ("b".to_owned(), value),
                ("c".to_owned(), brief(None)),
            ],
            arrays: 1,
            max_size: 3,
        };
        let begin = r#"{"sockets":[{"id":"1.2.3","created":5,"last_client_message":6,"last_message_sent":7,"queued":0,"#;
        let all = [socket];
        assert_eq!(
            text(summary(&all)),
            format!(r#"{begin}"pvs":3,"arrays":1,"max_size":3}}]}}"#)
        );
        let pvs = r#"[{"name":"a","value":"1.5"},{"name":"b","value":"3 elements"},{"name":"c","value":""}]"#;
        assert_eq!(text(sockets(&all)), format!(r#"{begin}"pvs":{pvs}}}]}}"#));
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
