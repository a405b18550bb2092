//! Runs the target that `PVWIRE_FUZZ_TARGET` names under libFuzzer.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use pvwire_fuzz::targets::{TARGETS, Target};

static ASKED: LazyLock<&Target> = LazyLock::new(|| {
    let name = std::env::var("PVWIRE_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|target| target.name == name);
    found.unwrap_or_else(|| panic!("PVWIRE_FUZZ_TARGET is {name:?}, which is no target"))
});

fuzz_target!(|bytes: &[u8]| (ASKED.run)(bytes));
