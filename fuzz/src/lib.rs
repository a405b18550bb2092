//! Readers of what others wrote, each with what it begins with and what must hold whatever it is given.
//!
//! Two programs give them input: `pvwire-fuzz` changes valid inputs at random (`make fuzz`, any
//! compiler), and `coverage` looks for inputs that reach new code (`make fuzz-long`, libFuzzer). Both begin
//! with the corpus, `corpus/TARGET/`, whose files are read by the tests too.

pub mod corpus;
mod filters;
pub mod mutate;
mod names;
mod sockets;
pub mod targets;
mod tokens;
