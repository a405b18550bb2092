//! Checks the engine's results against an independent, plain implementation of the same semantics:
//! on the vectors of `tests/vectors`, and on random states and selections.

mod cases;
mod document;
mod elements;
mod executed;
mod frames;
mod native;
mod properties;
mod random_cases;
mod random_states;
mod reference;
mod results;
mod same;
mod state;
mod text;
