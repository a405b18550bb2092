//! Does every module name only those that an update passes before it, and is what is to stay out
//! of the relay out of it?
//!
//! Topology: none; it reads the sources of the workspace.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

fn relay() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn workspace() -> &'static Path {
    relay().parent().unwrap()
}

/// Rust files below a directory that belong to the project.
fn rust_files(below: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut open = vec![below.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                let foreign = name.starts_with('.') || ["target", "node_modules"].contains(&name);
                if !foreign {
                    open.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

/// A source without what stands in comments and strings.
fn code(source: &str) -> String {
    let mut code = String::new();
    let mut rest = source;
    while let Some(at) = rest.find(['/', '"', 'r', '\'']) {
        code.push_str(&rest[..at]);
        rest = &rest[at..];
        let word_before = code
            .chars()
            .last()
            .is_some_and(|c| c.is_alphanumeric() || c == '_');
        let hashes = rest[1..].len() - rest[1..].trim_start_matches('#').len();
        let length = if rest.starts_with("//") {
            rest.find('\n')
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else if rest.starts_with('"') {
            let escaped = |at: usize| {
                let before = rest[..at].bytes().rev();
                before.take_while(|byte| *byte == b'\\').count() % 2 == 1
            };
            let mut ends = rest.match_indices('"').skip(1).map(|(at, _)| at);
            ends.find(|at| !escaped(*at)).map(|end| end + 1)
        } else if rest.starts_with('r') && !word_before && rest[1 + hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let begin = 2 + hashes;
            rest[begin..].find(&end).map(|at| begin + at + end.len())
        } else if rest.starts_with("'\"'") {
            Some(3)
        } else if rest.starts_with("'\\\"'") {
            Some(4)
        } else {
            code.push_str(&rest[..1]);
            Some(1)
        };
        rest = &rest[length.unwrap_or(rest.len())..];
    }
    code + rest
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

/// Modules that follow `root::`, alone or in braces, anywhere in the code.
fn named_under<'a>(code: &'a str, root: &str) -> Vec<&'a str> {
    let mut named = Vec::new();
    for (at, found) in code.match_indices(root) {
        let before = code[..at].chars().last();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let rest = &code[at + found.len()..];
        if let Some(list) = rest.strip_prefix('{') {
            let (mut depth, mut start) = (0, 0);
            for (at, c) in list.char_indices() {
                match c {
                    '{' => depth += 1,
                    ',' | '}' if depth == 0 => {
                        named.extend(words(&list[start..at]).next());
                        start = at + 1;
                        if c == '}' {
                            break;
                        }
                    }
                    '}' => depth -= 1,
                    _ => {}
                }
            }
        } else {
            named.extend(words(rest).next());
        }
    }
    named
}

/// The order in which lib.rs lists the modules.
fn order() -> Vec<String> {
    let lib = code(&fs::read_to_string(relay().join("src/lib.rs")).unwrap());
    lib.lines()
        .filter_map(|line| line.trim().strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

/// Who names whom among the relay's modules.
fn arrows() -> BTreeSet<(String, String)> {
    let src = relay().join("src");
    let modules = order();
    let mut arrows = BTreeSet::new();
    for file in rust_files(&src) {
        let inside = file.strip_prefix(&src).unwrap().with_extension("");
        let depth = inside.components().count();
        let first = inside.components().next().unwrap();
        let from = first.as_os_str().to_str().unwrap().to_owned();
        if ["lib", "main"].contains(&from.as_str()) {
            continue;
        }
        let code = code(&fs::read_to_string(&file).unwrap());
        let up = "super::".repeat(depth);
        // A test module stands one deeper.
        for root in ["crate::", up.as_str(), &format!("super::{up}")] {
            for to in named_under(&code, root) {
                if modules.iter().any(|module| module == to) && to != from {
                    arrows.insert((from.clone(), to.to_owned()));
                }
            }
        }
    }
    arrows
}

#[test]
fn lib_lists_every_module_in_the_order_an_update_passes_them() {
    let beside = [
        "config",
        "file_reads",
        "latency",
        "log_queue",
        "metrics",
        "pulse",
        "shutdown",
    ];
    let way = [
        "quota",
        "source",
        "rule",
        "auth",
        "caller",
        "descriptor",
        "wish",
        "registry",
        "table",
        "tick",
        "set",
        "dirty",
        "frame",
        "large",
        "group",
        "audit",
        "operation",
        "request",
        "session",
        "socket",
        "stream",
        "shard",
        "admin",
        "keys",
        "tls",
        "reload",
        "connection",
        "server",
    ];
    assert_eq!(order(), [&beside[..], &way].concat());
}

#[test]
fn no_module_names_one_to_its_right() {
    let order = order();
    let place = |module: &str| order.iter().position(|known| known == module).unwrap();
    let arrows = arrows();
    assert!(arrows.len() > 20, "the test reads no arrows: {arrows:?}");
    let wrong: Vec<_> = (arrows.iter())
        .filter(|(from, to)| place(to) > place(from))
        .collect();
    assert!(wrong.is_empty(), "these point to the right: {wrong:?}");
}

#[test]
fn reader_of_arrows_sees_every_way_to_write_one() {
    let source = r##"
        use crate::table::{self, Table};
        use crate::{
            frame::{Frame, FrameMaker},
            set,
        };
        // use crate::server::Server;
        /* use crate::admin::Admin; */
        const A: &str = "crate::shard::B \" crate::shard::B";
        const B: &str = r#"crate::shard::"C""#;
        const C: char = '"';
        fn f(x: &crate::session::Session) {}
        use mycrate::socket;
    "##;
    let code = code(source);
    assert_eq!(
        named_under(&code, "crate::"),
        ["table", "frame", "set", "session"]
    );
}

#[test]
fn relay_has_no_part_of_the_client_and_no_query_language() {
    let lock = fs::read_to_string(workspace().join("Cargo.lock")).unwrap();
    let lock: toml::Table = lock.parse().unwrap();
    let packages: HashMap<&str, Vec<&str>> = lock["package"]
        .as_array()
        .unwrap()
        .iter()
        .map(|package| {
            let needs = package.get("dependencies").and_then(|list| list.as_array());
            let names = needs.into_iter().flatten();
            let names = names.map(|name| name.as_str().unwrap().split(' ').next().unwrap());
            (package["name"].as_str().unwrap(), names.collect())
        })
        .collect();
    let mut needed = BTreeSet::new();
    let mut open = vec!["pvwire-relay"];
    while let Some(name) = open.pop() {
        if needed.insert(name) {
            open.extend(&packages[name]);
        }
    }
    assert!(needed.contains("pvwire-schema"), "{needed:?}");
    let ours = needed.iter().filter(|name| name.starts_with("pvwire-"));
    assert_eq!(
        ours.copied().collect::<Vec<_>>(),
        ["pvwire-epics", "pvwire-relay", "pvwire-schema"]
    );
    let query = needed.iter().find(|name| name.contains("graphql"));
    assert_eq!(query, None);
}

#[test]
fn engine_of_the_client_knows_neither_the_browser_nor_wasm_bindgen() {
    let mut read = 0;
    for file in rust_files(&workspace().join("wasm-client")) {
        if file.ends_with("wasm-client/src/lib.rs") {
            continue;
        }
        read += 1;
        let code = code(&fs::read_to_string(&file).unwrap());
        for binding in ["wasm_bindgen", "js_sys", "web_sys"] {
            let found = words(&code).any(|word| word == binding);
            assert!(!found, "{} names {binding}", file.display());
        }
    }
    assert!(read >= 12, "only {read} files were read");
}

#[test]
fn unsafe_code_is_in_the_ffi_crates_and_in_generated_code_alone() {
    let allowed = ["relay/epics", "schema/src/generated"];
    let mut read = 0;
    for file in rust_files(workspace()) {
        let inside = file.strip_prefix(workspace()).unwrap();
        if allowed.iter().any(|allowed| inside.starts_with(allowed)) {
            continue;
        }
        read += 1;
        let code = code(&fs::read_to_string(&file).unwrap());
        let found = words(&code).any(|word| word == "unsafe");
        assert!(!found, "{} has unsafe code", inside.display());
    }
    assert!(read > 30, "only {read} files were read");
}
