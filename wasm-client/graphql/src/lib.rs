//! The JavaScript interface of GraphQL documents. It is a separate WebAssembly module, so that pages
//! with plain selections don't wait for it. The selections of PVs in a document are executed by the
//! client's module, which knows the PVs.

#![deny(unsafe_code)]

mod operation;

pub use self::operation::Operation;

use pvwire_core::graphql;
use wasm_bindgen::prelude::wasm_bindgen;

/// A small allocator: the standard library's is three times as large.
#[cfg(target_arch = "wasm32")]
#[global_allocator]
static MEMORY: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();

/// The value of `__schema`, or of `__type` with this name, as JSON. `sdl` is the schema's text, which
/// the package has in JavaScript; `plan` has the lines of the selected fields.
// An owned string is required at the boundary to JavaScript.
#[allow(clippy::needless_pass_by_value)]
#[wasm_bindgen]
#[must_use]
pub fn introspect(sdl: &str, type_name: Option<String>, plan: &str) -> String {
    graphql::introspect(sdl, type_name.as_deref(), plan)
}
