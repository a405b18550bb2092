//! Registers metrics with the unit that the end of their names says, so that OpenMetrics can tell it.

use prometheus_client::registry::{Metric, Registry, Unit};

/// Registers a metric. A name that ends in `_seconds` or `_bytes` has that unit.
pub(super) fn register(registry: &mut Registry, name: &str, help: &str, metric: impl Metric) {
    for unit in [Unit::Seconds, Unit::Bytes] {
        let bare = name
            .strip_suffix(unit.as_str())
            .and_then(|name| name.strip_suffix('_'));
        if let Some(bare) = bare {
            return registry.register_with_unit(bare, help, unit, metric);
        }
    }
    registry.register(name, help, metric);
}
