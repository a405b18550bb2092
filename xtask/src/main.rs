//! Which chore of this workspace is to be done? `cargo run -p xtask -- wasm` builds the browser module.

#![forbid(unsafe_code)]

mod wasm;

use std::process::ExitCode;

fn main() -> ExitCode {
    let chore = std::env::args().nth(1);
    let done = match chore.as_deref() {
        Some("wasm") => wasm::build(),
        _ => {
            eprintln!("usage: cargo run -p xtask -- wasm");
            return ExitCode::from(64);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}
