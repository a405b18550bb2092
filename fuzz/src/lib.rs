//! Fuzz targets: readers of untrusted input, each with its initial inputs and the properties that
//! must hold.
//!
//! Two programs run them: `pvwire-fuzz` changes valid inputs at random (`make fuzz`, any compiler),
//! and `coverage` searches for inputs that reach new code (`make fuzz-long`, libFuzzer). Both begin
//! with the corpus, `corpus.txt`.

mod archiver;
mod bus;
mod circuit;
mod config;
pub mod corpus;
pub mod cpu;
mod doors;
mod filters;
mod formulas;
mod frames;
mod graphql;
pub mod mutate;
mod names;
pub mod shapes;
mod states;
pub mod targets;
mod tokens;
