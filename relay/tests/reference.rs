//! The references in `docs/`, the dashboard and the alerts match the code.
//!
//! `PVWIRE_WRITE_REFERENCE=1 cargo test -p pvwire-relay --test relay reference::` writes the
//! references.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use pvwire_relay::config::{Config, ConfigError};
use pvwire_relay::ops::metrics::{Metrics, PvCounts, Readings, TextFormat};
use pvwire_schema::close::CloseCode;
use pvwire_schema::types::Outcome;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Compares a file with its expected content, or writes it.
fn hold(path: &str, expected: &str) {
    let file = root().join(path);
    if std::env::var_os("PVWIRE_WRITE_REFERENCE").is_some() {
        std::fs::write(&file, expected).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        found == expected,
        "{path} is stale: PVWIRE_WRITE_REFERENCE=1 cargo test -p pvwire-relay --test relay reference::"
    );
}

#[test]
fn reference_of_the_configuration_lists_every_key() {
    let table = Config::reference();
    let text = format!(
        "# Configuration\n\n\
         Each key can be set by a flag (`--not-found-after-ms 5000`), an environment variable \
         (`PVWIRE_NOT_FOUND_AFTER_MS=5000`) or in the TOML file that `--config FILE` or `PVWIRE_CONFIG` names \
         (`not_found_after_ms = 5000`).\n\
         Flags override variables, variables override the file, and the file overrides the defaults.\n\
         A key with … takes several values: repeat the flag, separate the values by spaces in the variable, \
         or write a list in the file.\n\
         Keys that end in `_ms` are in milliseconds.\n\
         Invalid values, unknown keys and variables, and keys that have no effect with the other settings make \
         the relay exit with status 64 and one line that says where the error is and what was expected.\n\
         The settings that differ from their defaults are logged at the start, with `PVWIRE_LOG=debug` all of them.\n\n\
         {table}\n\
         The file may also contain `[[rule]]` tables, which say who may read and write which PVs: \
         [rules](../how-to/rules.md).\n\n\
         `PVWIRE_LOG` sets the log level: `error`, `warn`, `info` (the default), `debug` (each client and \
         connection) or `trace`; `MODULE=LEVEL` sets the level of one module.\n\
         EPICS's own variables (`EPICS_CA_ADDR_LIST`, `EPICS_PVA_NAME_SERVERS`, …) have their usual meaning. \
         Unless they are set, `EPICS_CA_CONN_TMO` and `EPICS_PVA_CONN_TMO` are 5 s, \
         `EPICS_CA_MAX_ARRAY_BYTES` is 262,144, and `EPICS_ALLOW_POSIX_THREAD_PRIORITY_SCHEDULING` \
         is `NO`; `EPICS_CA_AUTO_ARRAY_BYTES` is always `YES`.\n\n\
         This page is generated from the code: `PVWIRE_WRITE_REFERENCE=1 cargo test -p pvwire-relay --test relay \
         reference::`.\n"
    );
    hold("docs/reference/config.md", &text);
}

#[test]
fn variables_of_the_projects_tools_are_accepted() {
    let listed = Command::new("git")
        .args([
            "ls-files", "-z", "--", "*.rs", "*.ts", "*.js", "*.py", "*.sh", "Makefile",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let mut names = BTreeMap::new();
    for path in listed.split_terminator('\0') {
        // Some tests name settings that don't exist.
        let is_about_them = ["relay/src/config", "relay/tests/lifecycle.rs"];
        if is_about_them.iter().any(|about| path.starts_with(about)) {
            continue;
        }
        let text = std::fs::read_to_string(root().join(path)).unwrap_or_default();
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        for word in words.filter(|word| word.len() > 7 && word.starts_with("PVWIRE_")) {
            names.insert(word.to_owned(), "1".to_owned());
        }
    }
    assert!(names.len() > 10, "the test reads no variables: {names:?}");
    // Their values are what they may be; a wrong one would be another error.
    for name in names.keys() {
        let one = BTreeMap::from([(name.clone(), "1".to_owned())]);
        let read = Config::read(&["pvwire-relay".into()], &one, |_| Ok(String::new()));
        let unknown = matches!(read, Err(ConfigError::Variable { .. }));
        assert!(!unknown, "relay/src/config/variable.rs doesn't know {name}");
    }
}

/// Name, type and help of every metric.
fn metrics() -> BTreeMap<String, (String, String)> {
    let metrics = Metrics::default();
    // Metrics with labels appear after their first event.
    metrics.closed(CloseCode::Normal);
    metrics.refused(403);
    metrics.operation_ended(Outcome::Failed);
    let readings = Readings {
        pvs: Some(PvCounts::default()),
        largest_pvs: vec![("ca://X".into(), 8)],
        servers: vec![("ioc:5064".into(), 8)],
        ..Readings::default()
    };
    let text = metrics.text(readings, TextFormat::OpenMetrics);
    let mut all = BTreeMap::<String, (String, String)>::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            all.entry(name.into()).or_default().0 = kind.into();
        } else if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            all.entry(name.into()).or_default().1 = help.trim_end_matches('.').into();
        }
    }
    all
}

/// As Prometheus calls them.
fn series(name: &str, kind: &str) -> String {
    match kind {
        "counter" => format!("{name}_total"),
        _ => name.to_owned(),
    }
}

#[test]
fn reference_of_the_metrics_lists_every_metric() {
    let mut table = String::from("| Metric | Type | Meaning |\n|---|---|---|\n");
    for (name, (kind, help)) in metrics() {
        assert!(
            help.len() > 15,
            "{name} doesn't say what it counts: {help:?}"
        );
        writeln!(table, "| `{}` | {kind} | {help} |", series(&name, &kind)).unwrap();
    }
    let text = format!(
        "# Metrics\n\n\
         The relay serves them at `/metrics`, in OpenMetrics text or in Prometheus's older text format, as the \
         `Accept` header asks.\n\
         Counters start at 0 when the relay starts. Times are in seconds, sizes in bytes.\n\
         What they tell: [read the metrics](../how-to/metrics.md). A dashboard for Grafana: \
         [deploy/grafana/pvwire.json](../../deploy/grafana/pvwire.json).\n\n\
         {table}\n\
         This page is generated from the code: `PVWIRE_WRITE_REFERENCE=1 cargo test -p pvwire-relay --test relay \
         reference::`.\n"
    );
    hold("docs/reference/metrics.md", &text);
}

/// Words of an expression that are metrics of ours.
fn named(expression: &str) -> Vec<String> {
    let words = expression.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let ours = words.filter(|word| word.starts_with("pvwire_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

#[test]
fn dashboard_and_alerts_use_only_metrics_that_exist() {
    let known: Vec<_> = metrics()
        .iter()
        .flat_map(|(name, (kind, _))| match kind.as_str() {
            "histogram" => ["bucket", "count", "sum"]
                .map(|end| format!("{name}_{end}"))
                .to_vec(),
            _ => vec![series(name, kind)],
        })
        .collect();
    let dashboard = std::fs::read_to_string(root().join("deploy/grafana/pvwire.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let asked = panels.iter().filter(|panel| panel["type"] != "row");
    for panel in asked {
        let title = panel["title"].as_str().unwrap();
        assert!(
            panel["description"].is_string(),
            "{title} says nothing of itself"
        );
        for target in panel["targets"].as_array().unwrap() {
            let names = named(target["expr"].as_str().unwrap());
            assert!(!names.is_empty(), "{title} asks for nothing of ours");
            for name in names {
                assert!(known.contains(&name), "{title}: {name} isn't a metric");
            }
        }
    }
    let alerts = std::fs::read_to_string(root().join("deploy/prometheus/alerts.yaml")).unwrap();
    let expressions = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr:"));
    let names: Vec<_> = expressions.flat_map(named).collect();
    assert!(names.len() > 3);
    // What must not stay unseen.
    for name in [
        "process_open_fds",
        "pvwire_audit_failing",
        "pvwire_audit_records_lost_total",
        "pvwire_keys_stale",
        "pvwire_memory_short",
        "pvwire_rules_stale",
        "pvwire_shard_deliveries_late_total",
        "pvwire_ticks_late_total",
    ] {
        let is_asked = names.iter().any(|found| found == name);
        assert!(is_asked, "no alert for {name}");
    }
    for name in names {
        assert!(known.contains(&name), "alerts: {name} isn't a metric");
    }
}

#[test]
fn unit_of_systemd_starts_a_relay_that_may_do_nothing_else() {
    let unit = std::fs::read_to_string(root().join("deploy/systemd/pvwire-relay.service")).unwrap();
    for line in [
        "DynamicUser=yes",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "CapabilityBoundingSet=",
        "KillSignal=SIGTERM",
        // With ProtectSystem=strict the only places that last, and a mask that leaves the group its
        // right.
        "LogsDirectory=pvwire",
        "StateDirectory=pvwire",
        "UMask=0027",
        // What runs the relay so is deploy/check_unit.py.
        "RestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX",
    ] {
        assert!(unit.lines().any(|found| found == line), "no {line}");
    }
    let rotation = std::fs::read_to_string(root().join("deploy/logrotate/pvwire-relay")).unwrap();
    assert!(rotation.contains("\n/var/log/pvwire/*.jsonl {"));
    assert!(rotation.contains("--signal=HUP pvwire-relay.service"));
}
