//! Where does the program find the EPICS libraries that the relay's crate is linked with?

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let epics = std::env::var("DEP_PVWIRE_EPICS_LIBDIR").expect("set by pvwire-epics");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{epics}");
}
