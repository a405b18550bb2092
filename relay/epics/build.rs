//! Where do programs that use this crate find libca when they run?

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let lib = std::env::var("DEP_CA_LIBDIR").expect("set by ca-sys");
    // Reaches this crate's own tests only: a crate that links a program depends on this one
    // directly and sets its run path from DEP_PVWIRE_EPICS_LIBDIR.
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    println!("cargo::metadata=libdir={lib}");
}
