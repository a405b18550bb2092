//! Lets the fuzz targets find the EPICS libraries at run time; they read the relay's configuration.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let epics = std::env::var("DEP_PVWIRE_EPICS_LIBDIR").expect("set by pvwire-epics");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{epics}");
}
