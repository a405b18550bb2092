//! GraphQL operations as JavaScript carries them out: `ts/graphql/execute.ts` does what an operation
//! asks for, and puts the objects into its response.

use std::cell::Cell;
use std::mem::ManuallyDrop;

use pvwire_core::graphql::{Failure, HostOperation};
use pvwire_core::select::Documents;
use wasm_bindgen::prelude::wasm_bindgen;

#[wasm_bindgen]
extern "C" {
    /// The standard library's conversion of decimal digits is a tenth as large as the whole module.
    #[wasm_bindgen(js_name = Number)]
    fn number_of(digits: &str) -> f64;
}

fn number(digits: &str) -> f64 {
    number_of(digits)
}

thread_local! {
    // Never dropped: it lives as long as the page.
    static DOCUMENTS: Cell<ManuallyDrop<Documents>> =
        const { Cell::new(ManuallyDrop::new(Documents::new())) };
}

/// An operation that is being carried out, or why it can't be.
#[wasm_bindgen]
#[derive(Debug)]
pub struct Operation {
    plan: String,
    inner: HostOperation,
}

#[wasm_bindgen]
impl Operation {
    /// Plans an operation of a document; `variables` is a JSON object or empty. Compiled documents are
    /// kept as long as the page lives.
    // An owned string is required at the boundary to JavaScript.
    #[allow(clippy::needless_pass_by_value)]
    #[wasm_bindgen(constructor)]
    #[must_use]
    pub fn new(text: &str, operation: Option<String>, variables: &str) -> Self {
        let mut documents = DOCUMENTS.take();
        let plan = documents.plan(text, operation.as_deref(), variables);
        DOCUMENTS.set(documents);
        let is_refused = matches!(plan.as_bytes().first(), Some(b'[' | b'?'));
        Self {
            inner: HostOperation::new(if is_refused { "" } else { &plan }, number),
            plan,
        }
    }

    /// Its plan, as [`Documents::plan`] writes it. Errors in the document are a JSON list, errors in the
    /// variables `?` and such a list.
    #[must_use]
    pub fn plan(&self) -> String {
        self.plan.clone()
    }

    /// See [`HostOperation::subscribes`].
    #[must_use]
    pub fn subscribes(&self) -> bool {
        self.inner.subscribes()
    }

    /// See [`HostOperation::steps`].
    pub fn steps(&mut self) -> String {
        self.inner.steps()
    }

    /// See [`HostOperation::array`].
    #[must_use]
    pub fn array(&self, number: usize) -> Vec<u8> {
        self.inner.array(number)
    }

    /// Records why there is no result of this number.
    pub fn fail(
        &mut self,
        result: usize,
        message: String,
        code: Option<String>,
        may_be_written: Option<bool>,
    ) {
        let failure = Failure {
            message,
            code: code.map(Into::into),
            may_be_written,
        };
        self.inner.fail(result, failure);
    }

    /// See [`HostOperation::told`].
    pub fn told(&mut self, result: usize, json: &str) {
        self.inner.told(result, json);
    }

    /// See [`HostOperation::respond`].
    #[must_use]
    pub fn respond(&self) -> String {
        self.inner.respond()
    }
}
