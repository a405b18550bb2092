//! Environment variables of EPICS that the relay sets before it starts.

/// Seconds without a sign of life after which libca or pvxs gives up a circuit. Their own 30 s
/// would show a value as fresh for half a minute after its IOC hung.
const CONN_TMO: &str = "5";

/// Libca tells a server to hold back, and so to leave updates out, when it finds more to read behind
/// ten arrays of this size, which is 160 buffers. With its own default of 16 KiB it did so behind ten
/// buffers, which 4,000 updates fill. It allocates nothing of this size, because the size of arrays is
/// automatic.
const MAX_ARRAY_BYTES: &str = "262144";

/// Where the process may, libCom gives its threads the priority of real time. What takes in must not
/// come before what writes to clients.
const ALLOW_REAL_TIME: &str = "NO";

/// One variable to set.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    name: &'static str,
    value: &'static str,
    /// What the operator had set, if that is overruled.
    overruled: Option<String>,
}

/// Sets the environment variables of EPICS that pvwire cannot do without.
///
/// Call it first in `main`, before any thread is started, after installing the logger.
///
/// - `EPICS_CA_AUTO_ARRAY_BYTES=YES`, with a warning if it said otherwise: without it libca stops
///   delivering large arrays, and says nothing to the program.
/// - `EPICS_CA_MAX_ARRAY_BYTES=262144` unless set: below it libca has a server leave updates out in
///   a burst of a few thousand.
/// - `EPICS_CA_CONN_TMO=5` and `EPICS_PVA_CONN_TMO=5` unless set.
/// - `EPICS_ALLOW_POSIX_THREAD_PRIORITY_SCHEDULING=NO` unless set: ingestion must not starve delivery.
///
/// # Panics
///
/// When a variable is to be changed and another thread is running, because that thread could be
/// reading the environment.
pub fn prepare_environment() {
    let changes = changes(|name| std::env::var(name).ok());
    if changes.is_empty() {
        return;
    }
    assert!(
        only_thread(),
        "prepare_environment is to be called before any thread is started"
    );
    for change in changes {
        if let Some(overruled) = change.overruled {
            log::warn!(
                "{name}={overruled} is overruled by {name}={value}: large arrays would not arrive",
                name = change.name,
                value = change.value
            );
        }
        // SAFETY: this is the only thread of the process, so no other one reads or writes the
        // environment meanwhile.
        unsafe { std::env::set_var(change.name, change.value) };
    }
}

fn changes(lookup: impl Fn(&str) -> Option<String>) -> Vec<Change> {
    let mut changes = Vec::new();
    let auto_array_bytes = lookup("EPICS_CA_AUTO_ARRAY_BYTES");
    if !auto_array_bytes
        .as_deref()
        .is_some_and(|value| value.eq_ignore_ascii_case("YES"))
    {
        changes.push(Change {
            name: "EPICS_CA_AUTO_ARRAY_BYTES",
            value: "YES",
            overruled: auto_array_bytes,
        });
    }
    let defaults = [
        ("EPICS_CA_MAX_ARRAY_BYTES", MAX_ARRAY_BYTES),
        ("EPICS_CA_CONN_TMO", CONN_TMO),
        ("EPICS_PVA_CONN_TMO", CONN_TMO),
        (
            "EPICS_ALLOW_POSIX_THREAD_PRIORITY_SCHEDULING",
            ALLOW_REAL_TIME,
        ),
    ];
    for (name, value) in defaults {
        if lookup(name).is_none() {
            changes.push(Change {
                name,
                value,
                overruled: None,
            });
        }
    }
    changes
}

/// Whether no other thread runs, as far as the system tells: Linux does.
fn only_thread() -> bool {
    match std::fs::read_dir("/proc/self/task") {
        Ok(threads) => threads.count() == 1,
        Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(set: &[(&str, &str)]) -> Vec<(&'static str, &'static str, Option<String>)> {
        changes(|name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
        .into_iter()
        .map(|change| (change.name, change.value, change.overruled))
        .collect()
    }

    #[test]
    fn unset_variables_get_our_defaults() {
        assert_eq!(
            changed(&[]),
            [
                ("EPICS_CA_AUTO_ARRAY_BYTES", "YES", None),
                ("EPICS_CA_MAX_ARRAY_BYTES", "262144", None),
                ("EPICS_CA_CONN_TMO", "5", None),
                ("EPICS_PVA_CONN_TMO", "5", None),
                ("EPICS_ALLOW_POSIX_THREAD_PRIORITY_SCHEDULING", "NO", None)
            ]
        );
    }

    #[test]
    fn what_the_operator_set_is_kept() {
        let set = [
            ("EPICS_CA_AUTO_ARRAY_BYTES", "yes"),
            ("EPICS_CA_MAX_ARRAY_BYTES", "10000000"),
            ("EPICS_CA_CONN_TMO", "2.5"),
            ("EPICS_PVA_CONN_TMO", "7"),
            ("EPICS_ALLOW_POSIX_THREAD_PRIORITY_SCHEDULING", "YES"),
        ];

        assert_eq!(changed(&set), []);
    }

    #[test]
    fn small_arrays_only_is_overruled() {
        let set = [
            ("EPICS_CA_AUTO_ARRAY_BYTES", "NO"),
            ("EPICS_CA_MAX_ARRAY_BYTES", "16384"),
            ("EPICS_CA_CONN_TMO", "30"),
            ("EPICS_PVA_CONN_TMO", "30"),
            ("EPICS_ALLOW_POSIX_THREAD_PRIORITY_SCHEDULING", "NO"),
        ];

        assert_eq!(
            changed(&set),
            [("EPICS_CA_AUTO_ARRAY_BYTES", "YES", Some("NO".to_owned()))]
        );
    }

    #[test]
    fn other_thread_is_noticed() {
        // The test runs in a thread beside the main one.
        assert!(!only_thread());
    }
}
