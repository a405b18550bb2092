//! Checks the engine's results against the plain executor's: on the vectors of
//! `client-core/tests/vectors`, and on random states and selections.

mod cases;
mod properties;
