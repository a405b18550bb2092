//! Environment variables of EPICS that the relay sets before it starts.

/// Seconds without a sign of life after which libca or pvxs closes a circuit. With their own
/// default of 30 s, a value would look current for half a minute after its IOC hung.
const CONN_TMO: &str = "5";

/// libca tells a server to hold back, and so to skip updates, if it still finds data to read after
/// ten arrays of this size, which is 160 buffers. With its own default of 16 KiB it did so after
/// ten buffers, which 4,000 updates fill. It allocates nothing of this size, because the size of
/// arrays is automatic.
const MAX_ARRAY_BYTES: &str = "262144";

/// If the process has the right, libCom gives its threads real-time priority. Receiving from IOCs
/// must not take precedence over sending to clients.
const ALLOW_REAL_TIME: &str = "NO";

/// A variable to set.
#[derive(Debug, PartialEq, Eq)]
struct Change {
    name: &'static str,
    value: &'static str,
    /// The operator's value, if it is overruled.
    overruled: Option<String>,
}

/// Sets the environment variables of EPICS that pvwire requires.
///
/// Call it first in `main`, after installing the logger and before starting any thread.
///
/// - `EPICS_CA_AUTO_ARRAY_BYTES=YES`, with a warning if it had another value: without it libca
///   stops delivering large arrays without reporting it to the program.
/// - `EPICS_CA_MAX_ARRAY_BYTES=262144` unless set: with a lower value libca makes a server skip
///   updates in a burst of a few thousand.
/// - `EPICS_CA_CONN_TMO=5` and `EPICS_PVA_CONN_TMO=5` unless set.
/// - `EPICS_ALLOW_POSIX_THREAD_PRIORITY_SCHEDULING=NO` unless set: receiving must not starve
///   delivery.
///
/// # Panics
///
/// When a variable must be changed and another thread is running, because that thread could be
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
        // SAFETY: this is the only thread of the process, so no other thread accesses the
        // environment meanwhile.
        unsafe { std::env::set_var(change.name, change.value) };
    }
}

/// Sets environment variables, such as those of a network of EPICS that only this program uses.
///
/// Call it in `main` before starting any thread.
///
/// # Panics
///
/// When another thread is running, because that thread could be reading the environment.
pub fn set_variables(variables: &[(&str, String)]) {
    assert!(
        only_thread(),
        "set_variables is to be called before any thread is started"
    );
    for (name, value) in variables {
        // SAFETY: this is the only thread of the process, so no other thread accesses the
        // environment meanwhile.
        unsafe { std::env::set_var(name, value) };
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

/// Whether no other thread is running, if the system can tell (Linux can).
pub(crate) fn only_thread() -> bool {
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
        // The test runs in a thread in addition to the main one.
        assert!(!only_thread());
    }
}
