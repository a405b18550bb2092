//! The labels of metrics, and their registration with the unit that the end of their names says, so that OpenMetrics can
//! tell it.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::registry::{Metric, Registry, Unit};
use pvwire_schema::types::SkipCause;

/// Close code of an ended session, or HTTP status of a refused request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CodeLabel {
    pub(super) code: u16,
}

/// Outcome of a put or call.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabel {
    pub(super) outcome: String,
}

/// Name of a PV with its source.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct PvLabel {
    pub(super) pv: String,
}

/// Host and port of a server of PVs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ServerLabel {
    pub(super) server: String,
}

/// Connection state of PVs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StateLabel {
    pub(super) state: &'static str,
}

/// Role of a relay in its fleet.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct RoleLabel {
    pub(super) role: &'static str,
}

/// What became of hand-overs of PVs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ResultLabel {
    pub(super) result: &'static str,
}

/// Why something was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct ReasonLabel {
    pub(super) reason: &'static str,
}

/// Kind and outcome of an operation that another relay was asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct FleetOperationLabel {
    pub(super) kind: &'static str,
    pub(super) outcome: String,
}

/// A thread of the relay.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct ThreadLabel {
    pub(super) thread: String,
}

/// The relay's version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct BuildLabel {
    pub(super) version: &'static str,
}

/// Why updates were left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct CauseLabel {
    cause: String,
}

impl From<SkipCause> for CauseLabel {
    fn from(cause: SkipCause) -> Self {
        let cause = format!("{cause:?}").to_lowercase();
        Self { cause }
    }
}

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
