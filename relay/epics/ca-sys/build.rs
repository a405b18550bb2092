//! Finds libca and its headers on this machine: in a site's EPICS base, or in the wheel. Compiles
//! the function that replaces one of libCom's.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Prints the folder of the wheel's package without importing it, or nothing if it is not
/// installed.
const FIND_WHEEL: &str = "\
import importlib.util
spec = importlib.util.find_spec('epicscorelibs')
print(list(spec.submodule_search_locations)[0] if spec else '')";

struct Libca {
    lib: PathBuf,
    include: Vec<PathBuf>,
}

fn main() {
    for name in ["EPICS_BASE", "EPICS_HOST_ARCH", "PVWIRE_PYTHON"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim");

    let libca = match env::var_os("EPICS_BASE").filter(|base| !base.is_empty()) {
        Some(base) => from_site(Path::new(&base)),
        None => from_wheel(),
    };
    if env::var_os("CARGO_FEATURE_INTERPOSE").is_some() {
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .file("shim/timer_queue.cpp")
            .includes(&libca.include)
            .compile("ca_sys");
    }
    let lib = libca.lib.display();
    println!("cargo::rerun-if-changed={lib}");
    println!("cargo::rustc-link-search=native={lib}");
    println!("cargo::rustc-link-lib=dylib=ca");
    println!("cargo::rustc-link-lib=dylib=Com");
    // Reaches this crate's own tests only. A crate that links a program takes the folder from
    // `DEP_CA_LIBDIR` and sets the run path itself.
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    println!("cargo::metadata=libdir={lib}");
    let include = env::join_paths(&libca.include).expect("include folders have no colon in them");
    println!("cargo::rustc-env=CA_SYS_INCLUDE={}", include.display());
    println!(
        "cargo::rustc-env=CA_SYS_VERSION={}",
        base_version(&libca.include)
    );
    println!("cargo::metadata=include={}", include.display());
}

fn from_site(base: &Path) -> Libca {
    let arch = env::var("EPICS_HOST_ARCH").unwrap_or_else(|_| {
        panic!(
            "EPICS_BASE is set to {} but EPICS_HOST_ARCH is not: set it to the folder below lib/ \
             to link with, such as linux-x86_64, or unset EPICS_BASE to use the PyPI wheel",
            base.display()
        )
    });
    let lib = base.join("lib").join(&arch);
    assert!(
        lib.join("libca.so").exists(),
        "no libca.so in {}: check EPICS_BASE and EPICS_HOST_ARCH, or unset EPICS_BASE to use the \
         PyPI wheel",
        lib.display()
    );
    let include = base.join("include");
    Libca {
        lib,
        include: vec![
            include.join("os").join("Linux"),
            include.join("compiler").join("gcc"),
            include,
        ],
    }
}

/// The version of EPICS base, as its headers state it: `EPICS 7.0.10`.
fn base_version(include: &[PathBuf]) -> String {
    let stated = include.iter().find_map(|folder| {
        let text = std::fs::read_to_string(folder.join("epicsVersion.h")).ok()?;
        let (_, after) = text.split_once("#define EPICS_VERSION_STRING")?;
        Some(
            after
                .split('"')
                .nth(1)?
                .trim_start_matches("EPICS ")
                .to_owned(),
        )
    });
    stated.unwrap_or_else(|| "unknown".to_owned())
}

fn from_wheel() -> Libca {
    let (python, asked_for) = match env::var_os("PVWIRE_PYTHON") {
        Some(python) => (PathBuf::from(python), true),
        None => (default_python(), false),
    };
    let answer = Command::new(&python).args(["-c", FIND_WHEEL]).output();
    let package = answer
        .ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|path| path.trim().to_owned())
        .filter(|path| !path.is_empty());
    let Some(package) = package.map(PathBuf::from) else {
        panic!(
            "libca not found: {} (from {}) has no package epicscorelibs. Run `make setup`, or set \
             PVWIRE_PYTHON to a python that has it, or set EPICS_BASE and EPICS_HOST_ARCH to an \
             EPICS base of your own",
            python.display(),
            if asked_for {
                "PVWIRE_PYTHON"
            } else {
                "the default search"
            }
        )
    };
    let lib = package.join("lib");
    assert!(
        lib.join("libca.so").exists(),
        "no libca.so in {}: the wheel is damaged, run `make setup` again",
        lib.display()
    );
    Libca {
        lib,
        include: vec![package.join("include")],
    }
}

/// The Python installed by the set-up step if it has run, otherwise the first one on the path.
fn default_python() -> PathBuf {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo"));
    let ours = manifest.join("../../../.local/venv/bin/python");
    println!("cargo::rerun-if-changed={}", ours.display());
    if ours.exists() {
        ours
    } else {
        PathBuf::from("python3")
    }
}
