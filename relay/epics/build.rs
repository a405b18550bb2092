//! Tells programs that use this crate where to find libca and libpvxs at run time.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let ca = std::env::var("DEP_CA_LIBDIR").expect("set by ca-sys");
    let pvxs = std::env::var("DEP_PVXS_LIBDIR").expect("set by pvxs-sys");
    // A run path may have several folders.
    let lib = format!("{ca}:{pvxs}");
    // Reaches this crate's own tests only: a crate that links a program depends on this one
    // directly and sets its run path from DEP_PVWIRE_EPICS_LIBDIR.
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    // As above: programs export these functions so that libca and pvxs call ours.
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=recv");
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=send");
    for function in ["readv", "recvmsg", "sendto", "writev"] {
        println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={function}");
    }
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=osiGetUserName");
    println!(
        "cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=_ZN21epicsTimerQueueActive8allocateEbj"
    );
    println!("cargo::metadata=libdir={lib}");
}
