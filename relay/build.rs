//! Where does the relay find libca when it runs?

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let epics = std::env::var("DEP_PVWIRE_EPICS_LIBDIR").expect("set by pvwire-epics");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{epics}");
    // A packed relay carries the libraries beside it.
    println!("cargo::rustc-link-arg-bins=-Wl,-rpath,$ORIGIN/../lib");
}
