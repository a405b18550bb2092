//! Finds libpvxs on this machine and compiles a matching shim.

use std::env;
use std::path::{Path, PathBuf};

/// The symbol of a method that both the shim and libpvxs use, with the older layout of
/// `std::string` and with the newer one.
const LOOKUP_OLD: &[u8] = b"_ZNK4pvxs5Value6lookupERKSs";
const LOOKUP_NEW: &[u8] = b"_ZNK4pvxs5Value6lookupERKNSt7__cxx1112";

/// If set to 1, the shim uses only the public API of pvxs, whatever its version.
const PUBLIC_API: &str = "PVWIRE_PVXS_PUBLIC_API";

const SOURCES: [&str; 6] = [
    "context.cpp",
    "discovery.cpp",
    "items.cpp",
    "monitor.cpp",
    "operation.cpp",
    "plan.cpp",
];

struct Libpvxs {
    lib: PathBuf,
    include: PathBuf,
}

fn main() {
    for name in ["EPICS_BASE", "EPICS_HOST_ARCH", "PVXS", PUBLIC_API] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=shim");

    let pvxs = match env::var_os("EPICS_BASE").filter(|base| !base.is_empty()) {
        Some(_) => from_site(),
        None => from_wheel(),
    };
    let library = pvxs.lib.join("libpvxs.so");
    assert!(
        library.exists(),
        "no {}: check PVXS and EPICS_HOST_ARCH, or unset EPICS_BASE to use the PyPI wheels, which \
         `make setup` installs",
        library.display()
    );
    let epics_include = env::var_os("DEP_CA_INCLUDE").expect("set by ca-sys");
    let mut shim = cc::Build::new();
    if env::var(PUBLIC_API).is_ok_and(|value| value == "1") {
        shim.define("PVS_PUBLIC_API", None);
    }
    shim.cpp(true)
        .std("c++17")
        .files(SOURCES.map(|source| Path::new("shim").join(source)))
        .include(&pvxs.include)
        .includes(env::split_paths(&epics_include))
        .define("_GLIBCXX_USE_CXX11_ABI", string_layout(&library))
        .flag_if_supported("-fvisibility=hidden");
    if !only_lints() {
        shim.compile("pvs");
    }

    // For the test that compiles the shim with the public API only.
    let include = env::split_paths(&epics_include).chain([pvxs.include.clone()]);
    let include = env::join_paths(include).expect("include folders have no colon in them");
    println!("cargo::rustc-env=PVXS_SYS_INCLUDE={}", include.display());
    println!(
        "cargo::rustc-env=PVXS_SYS_VERSION={}",
        version(&pvxs.include)
    );

    let lib = pvxs.lib.display();
    println!("cargo::rerun-if-changed={}", library.display());
    println!("cargo::rustc-link-search=native={lib}");
    println!("cargo::rustc-link-lib=dylib=pvxs");
    // Reaches this crate's own tests only. A crate that links a program takes the folders from
    // `DEP_PVXS_LIBDIR` and `DEP_CA_LIBDIR` and sets the run path itself.
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    let libca = env::var("DEP_CA_LIBDIR").expect("set by ca-sys");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{libca}");
    println!("cargo::metadata=libdir={lib}");
}

/// Whether clippy runs this: it has its own build scripts and links nothing.
fn only_lints() -> bool {
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").unwrap_or_default();
    Path::new(&wrapper)
        .file_stem()
        .is_some_and(|name| name == "clippy-driver")
}

fn from_site() -> Libpvxs {
    let pvxs = env::var_os("PVXS").map(PathBuf::from).unwrap_or_else(|| {
        panic!(
            "EPICS_BASE is set but PVXS is not: set it to the folder of a built pvxs, or unset \
             EPICS_BASE to use the PyPI wheels"
        )
    });
    let arch = env::var("EPICS_HOST_ARCH").expect("ca-sys has asked for it");
    Libpvxs {
        lib: pvxs.join("lib").join(arch),
        include: pvxs.join("include"),
    }
}

/// The version of pvxs, as its headers state it: `1.5.3`.
fn version(include: &Path) -> String {
    let header = include.join("pvxs/versionNum.h");
    let text = std::fs::read_to_string(header).unwrap_or_default();
    let number = |part: &str| {
        let (_, after) = text.split_once(&format!("#define PVXS_{part}_VERSION"))?;
        Some(after.split_whitespace().next()?.to_owned())
    };
    let parts = ["MAJOR", "MINOR", "MAINTENANCE"].map(number);
    let parts: Option<Vec<String>> = parts.into_iter().collect();
    parts.map_or_else(|| "unknown".to_owned(), |parts| parts.join("."))
}

/// The wheel of pvxs is installed next to that of libca.
fn from_wheel() -> Libpvxs {
    let libca = PathBuf::from(env::var_os("DEP_CA_LIBDIR").expect("set by ca-sys"));
    let packages = libca.ancestors().nth(2).expect("in a folder of packages");
    let pvxs = packages.join("pvxslibs");
    Libpvxs {
        lib: pvxs.join("lib"),
        include: pvxs.join("include"),
    }
}

/// The value of `_GLIBCXX_USE_CXX11_ABI` that the library was compiled with: the wheel uses the old
/// layout, a site's own build usually the new one. A shim with the other layout does not link.
fn string_layout(library: &Path) -> &'static str {
    let bytes = std::fs::read(library).expect("the library can be read");
    let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    match (has(LOOKUP_OLD), has(LOOKUP_NEW)) {
        (true, false) => "0",
        (false, true) => "1",
        _ => panic!(
            "cannot tell the C++ string layout of {}: is it a stripped or unknown pvxs?",
            library.display()
        ),
    }
}
