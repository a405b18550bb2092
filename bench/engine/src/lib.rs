//! Executes selections in WebAssembly, so that `bench/browser` can compare this with the package's
//! readers in JavaScript. One call per flush executes the same selection for all PVs that changed;
//! the list of PVs stays in the module.

#![deny(unsafe_code)]

use pvwire_core::ingest::Session;
use pvwire_core::select;
use pvwire_core::select::execute::{
    ALL_PARTS, CONSTANTS, Program, Results, Surroundings, Units, execute,
};
use pvwire_core::store::Slot;
use pvwire_schema::types::Filter;
use wasm_bindgen::prelude::wasm_bindgen;

/// The allocator of the package's modules.
#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// The state of PVs, and the results of one selection.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Engine {
    session: Session,
    input: Vec<u8>,
    program: Program,
    results: Results,
    /// Addresses and lengths of the slots, the cells and the text.
    summary: [usize; 6],
}

#[wasm_bindgen]
impl Engine {
    /// An engine for a selection; one that is not valid selects nothing.
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(selection: &str) -> Self {
        Self {
            session: Session::default(),
            input: Vec::new(),
            program: select::program(selection).unwrap_or_default(),
            results: Results::new(Units::Utf16),
            summary: [0; 6],
        }
    }

    /// Makes room for a message and returns its address.
    pub fn reserve(&mut self, bytes: usize) -> usize {
        if self.input.len() < bytes {
            self.input.resize(bytes, 0);
        }
        self.input.as_ptr() as usize
    }

    /// Applies the message in the reserved memory. Returns the kind of request that it answers, or -1
    /// if it is not valid.
    pub fn apply(&mut self, bytes: usize) -> i32 {
        let message = self.input.get(..bytes).unwrap_or_default();
        let applied = self.session.apply(message);
        applied.map_or(-1, |applied| applied.answered as i32)
    }

    /// Adds a PV.
    pub fn add(&mut self, name: &str) -> Slot {
        self.session.live.add(name)
    }

    /// Counts a request without PVs.
    pub fn ping(&mut self) {
        self.session.ping(0);
    }

    /// Expects the answer to a request for as many of these PVs as fit in it; returns their number.
    pub fn subscribe(&mut self, slots: &[Slot]) -> usize {
        self.session.subscribe(slots, Filter::ALL).0
    }

    /// Executes the selection for the PVs that changed; with `all` every field is read. Returns the
    /// address of the summary.
    pub fn flush(&mut self, all: bool) -> usize {
        let live = &self.session.live;
        self.results.clear();
        for slot in live.dirty() {
            let parts = if all {
                ALL_PARTS
            } else {
                live.columns.parts[*slot as usize]
            };
            let surroundings = Surroundings::default();
            let results = &mut self.results;
            execute(&self.program, live, *slot, parts, surroundings, results);
        }
        let (cells, text) = (self.results.cells(), self.results.text());
        self.summary = [
            live.dirty().as_ptr() as usize,
            live.dirty().len(),
            cells.as_ptr() as usize,
            cells.len(),
            text.as_ptr() as usize,
            text.len(),
        ];
        self.summary.as_ptr() as usize
    }

    /// The address of the changed parts of each slot.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.session.live.columns.parts.as_ptr() as usize
    }

    /// Starts a new flush.
    pub fn clear_dirty(&mut self) {
        self.session.live.clear_dirty();
    }
}

/// The texts that cells name by an index, one per line.
#[wasm_bindgen]
#[must_use]
pub fn constants() -> String {
    CONSTANTS.join("\n")
}
