//! The programs of the page's selections, as JavaScript compiles and releases them.

use pvwire_core::select;
use pvwire_core::select::execute::{CONSTANTS, Program};
use pvwire_executor::keep;
use wasm_bindgen::prelude::wasm_bindgen;

/// Compiles a selection; `*` selects every field. Returns a line per field as [`select::selection`]
/// writes it, then the program as [`program`] does; or a JSON list of errors.
#[wasm_bindgen]
#[must_use]
pub fn compile(text: &str) -> String {
    let text = if text == "*" {
        select::EVERYTHING
    } else {
        text
    };
    match select::planned_program(text) {
        (Some(program), mut plan) => {
            plan.push_str(&keep(program).to_string());
            plan
        }
        (None, errors) => errors,
    }
}

/// Compiles the lines of a document's selection of a PV. Returns 16 times the number of the program,
/// plus what it [`needs`](pvwire_core::select::execute::needs).
#[wasm_bindgen]
#[must_use]
pub fn program(plan: &str) -> u32 {
    keep(Program::new(plan, true).unwrap_or_default())
}

/// Drops a program that nothing executes any more.
#[wasm_bindgen]
pub fn release(number: u32) {
    pvwire_executor::release(number);
}

/// The texts that cells name by an index, one per line.
#[wasm_bindgen]
#[must_use]
pub fn constants() -> String {
    CONSTANTS.join("\n")
}
