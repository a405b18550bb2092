//! Where are the EPICS libraries of the relay, whose configuration is read here, when this runs?

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let epics = std::env::var("DEP_PVWIRE_EPICS_LIBDIR").expect("set by pvwire-epics");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{epics}");
}
