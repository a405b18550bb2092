//! Lets the relay find libca at run time, and libca find the functions that the relay replaces. Lists the files of the
//! built pages.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let epics = env::var("DEP_PVWIRE_EPICS_LIBDIR").expect("set by pvwire-epics");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{epics}");
    // By them libca reads from busy circuits in fewer and larger pieces, and none that lie.
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=recv");
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=send");
    // By them the relay reads which server has answered a search of pvAccess.
    for function in ["readv", "recvmsg", "sendto", "writev"] {
        println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol={function}");
    }
    // By it a context presents the user for whom it was created.
    println!("cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=osiGetUserName");
    // By it libca's timer threads sleep while no name is searched.
    println!(
        "cargo::rustc-link-arg=-Wl,--export-dynamic-symbol=_ZN21epicsTimerQueueActive8allocateEbj"
    );
    // A packed relay carries the libraries beside it.
    println!("cargo::rustc-link-arg-bins=-Wl,-rpath,$ORIGIN/../lib");
    list_page("app", "app/dist");
    list_page("demo_page", "web-demo/dist");
}

/// Writes the table of a built page's files, which is empty without the feature `built-pages`.
fn list_page(name: &str, folder: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let mut table = String::from("&[\n");
    if env::var_os("CARGO_FEATURE_BUILT_PAGES").is_some() {
        let manifest = env::var_os("CARGO_MANIFEST_DIR").expect("set by cargo");
        let page = Path::new(&manifest).join("..").join(folder);
        println!("cargo::rerun-if-changed={}", page.display());
        assert!(
            page.join("index.html").exists(),
            "no {}: build the pages by `make pages`, or the relay without the feature built-pages",
            page.join("index.html").display()
        );
        let mut files = Vec::new();
        list(&page, &page, &mut files);
        files.sort();
        // Without the folder's own path: its length would move all positions in the source, which the program has, and
        // two builds in two folders would differ.
        for name in files {
            let file = format!("/../{folder}/{name}");
            let _ = writeln!(
                table,
                "    ({name:?}, include_bytes!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {file:?}))),"
            );
        }
    }
    table.push_str("]\n");
    fs::write(out.join(format!("{name}.rs")), table).expect("cargo's folder can be written");
}

/// Adds the paths of the files below `folder`, relative to `page` as a URL has them.
fn list(page: &Path, folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).expect("the page's folder can be read") {
        let path = entry.expect("the page's folder can be read").path();
        if path.is_dir() {
            list(page, &path, files);
        } else {
            let name = path
                .strip_prefix(page)
                .expect("it is below the page's folder");
            let name = name
                .to_str()
                .expect("names of the page are ASCII")
                .to_owned();
            files.push(name);
        }
    }
}
