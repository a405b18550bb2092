//! Gives the formulas of the source `eq` the values of their inputs.

use std::sync::Arc;

use pvwire_schema::types::PvId;

use crate::ingest::formula::{FormulaInput, OpenFormula, OpenedFormulas};
use crate::state::table::{Changes, Now, Table};
use crate::state::tick::TickSink;

/// The sink that follows the inputs of all open formulas.
pub struct FormulaInputs {
    opened: OpenedFormulas,
    followed: Vec<Followed>,
}

/// A formula and its inputs, which the registry holds for as long as it is open.
struct Followed {
    formula: Arc<OpenFormula>,
    inputs: Vec<PvId>,
    is_new: bool,
}

impl FormulaInputs {
    /// A sink that follows the formulas of `opened`.
    #[must_use]
    pub fn new(opened: OpenedFormulas) -> Self {
        Self {
            opened,
            followed: Vec::new(),
        }
    }
}

impl TickSink for FormulaInputs {
    fn has_work(&self) -> bool {
        !self.opened.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.followed.is_empty() && self.opened.is_empty()
    }

    fn collect(&mut self) {
        while let Some((formula, inputs)) = self.opened.next() {
            self.followed.push(Followed {
                formula,
                inputs,
                is_new: true,
            });
        }
    }

    fn tick(&mut self, table: &Table, changes: &Arc<Changes>, _now: Now) {
        self.followed.retain_mut(|followed| {
            if followed.formula.is_closed() {
                return false;
            }
            let has_changed = |pv: &PvId| has_changed(table, *pv, changes.tick);
            if std::mem::take(&mut followed.is_new) || followed.inputs.iter().any(has_changed) {
                let inputs = followed.inputs.iter().map(|pv| input(table, *pv));
                followed.formula.give(inputs.collect());
            }
            true
        });
    }
}

fn has_changed(table: &Table, pv: PvId, tick: u64) -> bool {
    table.get(pv).is_some_and(|entry| {
        entry.value_tick == tick || entry.connection_tick == tick || entry.metadata_tick == tick
    })
}

/// The value of a connected PV.
fn input(table: &Table, pv: PvId) -> Option<FormulaInput> {
    let entry = table.get(pv).filter(|entry| entry.is_complete())?;
    let latest = entry.latest.as_ref()?;
    Some(FormulaInput {
        metadata: Arc::clone(entry.metadata.as_ref()?),
        value: latest.value.clone(),
        alarm: latest.alarm,
        detail: latest.detail.clone(),
        time_ns: latest.time_ns,
        heard_ns: entry.connection.heard_ns,
    })
}
