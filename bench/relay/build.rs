//! Tells the linker where the EPICS libraries are that the relay's crate needs.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let epics = std::env::var("DEP_PVWIRE_EPICS_LIBDIR").expect("set by pvwire-epics");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{epics}");
}
