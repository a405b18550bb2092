//! Lets the relay find libca at run time, and libca find the functions that the relay replaces.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let epics = std::env::var("DEP_PVWIRE_EPICS_LIBDIR").expect("set by pvwire-epics");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{epics}");
    // By them libca reads from busy circuits in fewer and larger pieces, and none that lie.
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=recv");
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=send");
    // By it a context presents the user for whom it was created.
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=osiGetUserName");
    // By it libca's timer threads sleep while no name is searched.
    println!(
        "cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=_ZN21epicsTimerQueueActive8allocateEbj"
    );
    // A packed relay carries the libraries beside it.
    println!("cargo::rustc-link-arg-bins=-Wl,-rpath,$ORIGIN/../lib");
}
