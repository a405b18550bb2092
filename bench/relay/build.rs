//! Tells the linker where the EPICS libraries are that the relay's crate needs.

fn main() {
    println!("cargo::rerun-if-env-changed=DEP_PVWIRE_EPICS_LIBDIR");
    let epics = std::env::var("DEP_PVWIRE_EPICS_LIBDIR").expect("set by pvwire-epics");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{epics}");
}
