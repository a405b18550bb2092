//! Chores of this workspace: `wasm` builds the browser modules, `wasm-sizes` says what their bytes are,
//! `layouts` writes the layouts
//! generated from the schema, next to flatc's code.

#![forbid(unsafe_code)]

mod layouts;
mod names;
mod order;
mod panics;
mod sizes;
mod wasm;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        ["wasm"] => wasm::build(),
        ["wasm-sizes"] => wasm::write_sizes(),
        ["layouts", from, rust, typescript] => {
            layouts::write(Path::new(from), Path::new(rust), Path::new(typescript))
        }
        _ => {
            eprintln!(
                "usage: cargo run -p xtask -- wasm | wasm-sizes | layouts FROM RUST TYPESCRIPT"
            );
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
