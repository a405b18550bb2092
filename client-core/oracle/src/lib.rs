//! An independent, plain implementation of what the engine does: the tests compare the two on the vectors of
//! `client-core/tests/vectors`, and on random states and selections. The example `random_cases` writes
//! random cases for the package's tests.

pub mod document;
mod elements;
pub mod executed;
mod frames;
pub mod native;
pub mod random_cases;
pub mod random_states;
pub mod reference;
pub mod results;
mod state;
pub mod text;
