//! Checks that every module depends only on those that an update passes before it, and that the
//! relay does not depend on excluded modules and packages.
//!
//! Topology: none; the test reads the sources of the workspace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

fn relay() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn workspace() -> &'static Path {
    relay().parent().unwrap()
}

/// Rust files of the project below a directory.
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

/// A source without comments and strings.
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

/// Paths that follow `root`, one for each name in its braces, as far as they are names.
fn paths_under<'a>(code: &'a str, root: &str) -> Vec<Vec<&'a str>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices(root) {
        let before = code[..at].chars().last();
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        paths(&code[at + root.len()..], &mut Vec::new(), &mut found);
    }
    found
}

/// Parses one path, or a list of paths in braces, and returns the rest of the text.
fn paths<'a>(rest: &'a str, before: &mut Vec<&'a str>, found: &mut Vec<Vec<&'a str>>) -> &'a str {
    let mut rest = rest.trim_start();
    if let Some(list) = rest.strip_prefix('{') {
        rest = list;
        loop {
            rest = paths(rest, before, found).trim_start();
            match rest.strip_prefix(',') {
                Some(next) => rest = next,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let end = rest
        .find(|c: char| !c.is_alphanumeric() && c != '_')
        .unwrap_or(rest.len());
    let (name, behind) = rest.split_at(end);
    if name.is_empty() {
        return rest.strip_prefix('*').unwrap_or(rest);
    }
    before.push(name);
    let behind = match behind.strip_prefix("::") {
        Some(deeper) => paths(deeper, before, found),
        None => {
            found.push(before.clone());
            // `name as other`.
            match behind.trim_start().strip_prefix("as ") {
                Some(alias) => alias.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_'),
                None => behind,
            }
        }
    };
    before.pop();
    behind
}

/// A module: the names on the path from the crate's root.
type Module = Vec<String>;

/// The modules of a crate, each with its code except for tests.
fn modules(src: &Path) -> BTreeMap<Module, String> {
    let mut modules = BTreeMap::new();
    for file in rust_files(src) {
        let inside = file.strip_prefix(src).unwrap().with_extension("");
        let name: Module = (inside.components())
            .map(|part| part.as_os_str().to_str().unwrap().to_owned())
            .collect();
        if name == ["main"] {
            continue;
        }
        let name = if name == ["lib"] { Vec::new() } else { name };
        let code = code(&fs::read_to_string(&file).unwrap());
        let tests = code.find("#[cfg(test)]\nmod tests {");
        modules.insert(name, code[..tests.unwrap_or(code.len())].to_owned());
    }
    modules
}

/// Which modules of a crate depend on which. Code that names something re-exported by a module with
/// `pub use` depends on that module.
fn arrows(modules: &BTreeMap<Module, String>) -> BTreeSet<(Module, Module)> {
    let mut arrows = BTreeSet::new();
    for (from, code) in modules {
        let roots = (0..from.len()).map(|up| ("super::".repeat(up + 1), from.len() - up - 1));
        let roots = roots.chain([("crate::".to_owned(), 0)]);
        for (root, depth) in roots {
            for path in paths_under(code, &root) {
                let mut to: Module = from[..depth].to_vec();
                for name in path {
                    to.push(name.to_owned());
                    if !modules.contains_key(&to) {
                        to.pop();
                        break;
                    }
                }
                if to != *from {
                    arrows.insert((from.clone(), to));
                }
            }
        }
    }
    arrows
}

/// The two modules beside each other that an arrow leads between; none between a module and what
/// is inside it.
fn beside<'a>(from: &'a [String], to: &'a [String]) -> Option<(&'a [String], &'a [String])> {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    (common < from.len() && common < to.len()).then(|| (&from[..=common], &to[..=common]))
}

/// A cycle, if there is one.
fn circle<T: Ord + Clone>(arrows: &BTreeSet<(T, T)>) -> Option<Vec<T>> {
    fn visit<T: Ord + Clone>(
        at: &T,
        arrows: &BTreeSet<(T, T)>,
        way: &mut Vec<T>,
        done: &mut BTreeSet<T>,
    ) -> bool {
        if let Some(begin) = way.iter().position(|earlier| earlier == at) {
            way.drain(..begin);
            return true;
        }
        if done.contains(at) {
            return false;
        }
        way.push(at.clone());
        let next = arrows.iter().filter(|(from, _)| from == at);
        if next.into_iter().any(|(_, to)| visit(to, arrows, way, done)) {
            return true;
        }
        done.insert(way.pop().unwrap());
        false
    }
    let (mut way, mut done) = (Vec::new(), BTreeSet::new());
    let found = (arrows.iter()).any(|(from, _)| visit(from, arrows, &mut way, &mut done));
    found.then_some(way)
}

/// The rows of the table under a heading of ARCHITECTURE.md: the name in the first cell, and the
/// names in the second.
fn table(heading: &str) -> Vec<(String, Vec<String>)> {
    let text = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let (_, section) = text.split_once(heading).expect(heading);
    let rows = section.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with('|'));
    let names = |cell: &str| -> Vec<String> {
        let odd = cell.split('`').skip(1).step_by(2);
        odd.map(str::to_owned).collect()
    };
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        (names(cells[0]).remove(0), names(cells[1]))
    })
    .collect()
}

const PLANES: &str = "### Planes of the relay";
const ENGINE: &str = "### Modules of the engine";
const FOLDERS: &str = "### Folders of the package";

/// The `pub mod` lines of a file, relative to the workspace.
fn listed(file: &str) -> Vec<String> {
    let code = code(&fs::read_to_string(workspace().join(file)).unwrap());
    code.lines()
        .filter_map(|line| line.trim().strip_prefix("pub mod ")?.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

/// The dependencies on something later in the order, among those between two entries of it.
fn backwards(order: &[Module], arrows: &BTreeSet<(Module, Module)>) -> Vec<(Module, Module)> {
    let place = |module: &Module| {
        let begins = |known: &&Module| module.starts_with(known);
        let longest = order.iter().filter(begins).max_by_key(|known| known.len());
        longest.and_then(|known| order.iter().position(|other| other == known))
    };
    let wrong = arrows.iter().filter(
        |(from, to)| matches!((place(from), place(to)), (Some(from), Some(to)) if to > from),
    );
    wrong.cloned().collect()
}

/// The relay's planes and their modules in the order of the table.
fn order_of_the_relay() -> Vec<Module> {
    let planes = table(PLANES).into_iter();
    let order = planes.flat_map(|(plane, modules)| {
        let inside = modules.into_iter().map({
            let plane = plane.clone();
            move |module| vec![plane.clone(), module]
        });
        inside.chain([vec![plane]]).collect::<Vec<_>>()
    });
    order.collect()
}

#[test]
fn planes_and_their_modules_are_those_of_the_table() {
    let planes = table(PLANES);
    assert!(planes.len() >= 8, "{planes:?}");
    let names: Vec<_> = planes.iter().map(|(plane, _)| plane.clone()).collect();
    assert_eq!(listed("relay/src/lib.rs"), names);
    for (plane, mut modules) in planes {
        if !modules.is_empty() {
            // rustfmt sorts them.
            modules.sort();
            let file = format!("relay/src/{plane}.rs");
            assert_eq!(listed(&file), modules, "{plane}");
        }
    }
}

#[test]
fn no_module_of_the_relay_names_a_later_one() {
    let modules = modules(&relay().join("src"));
    let arrows = arrows(&modules);
    assert!(arrows.len() > 100, "the test reads no arrows: {arrows:?}");
    let wrong = backwards(&order_of_the_relay(), &arrows);
    assert!(wrong.is_empty(), "these point backwards: {wrong:?}");
}

#[test]
fn no_module_of_the_engine_names_a_later_one() {
    let rows = table(ENGINE).into_iter();
    let order: Vec<Module> = rows.map(|(module, _)| vec![module]).collect();
    let mut names = order.concat();
    // rustfmt sorts them.
    names.sort();
    assert_eq!(listed("client-core/src/lib.rs"), names);
    let arrows = arrows(&modules(&workspace().join("client-core/src")));
    assert!(arrows.len() > 30, "the test reads no arrows: {arrows:?}");
    let wrong = backwards(&order, &arrows);
    assert!(wrong.is_empty(), "these point backwards: {wrong:?}");
}

#[test]
fn modules_in_one_folder_name_each_other_in_one_direction() {
    let mut circles = Vec::new();
    for src in [
        "schema/src",
        "doors/coniql/src",
        "doors/pvws/src",
        "relay/src",
        "fleet/src",
        "relay/epics/src",
        "client-core/src",
    ] {
        let modules = modules(&workspace().join(src));
        let arrows = arrows(&modules);
        let beside: BTreeSet<_> = (arrows.iter())
            .filter_map(|(from, to)| beside(from, to))
            .map(|(from, to)| (from.to_vec(), to.to_vec()))
            .collect();
        assert!(!beside.is_empty(), "{src}: the test reads no arrows");
        if let Some(round) = circle(&beside) {
            circles.push((src, round));
        }
    }
    assert!(circles.is_empty(), "{circles:?}");
}

#[test]
fn reader_of_arrows_sees_every_way_to_write_one() {
    let source = r##"
        use crate::state::table::{self, Table};
        use crate::{
            fanout::{frame::{Frame, FrameMaker as Maker}, set},
            ops,
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
    let paths: Vec<_> = (paths_under(&code, "crate::").iter())
        .map(|path| path.join("::"))
        .collect();
    let expected = "state::table::self state::table::Table fanout::frame::Frame \
                    fanout::frame::FrameMaker fanout::set ops session::Session";
    assert_eq!(paths.join(" "), expected);
}

#[test]
fn reader_of_arrows_finds_one_backwards_and_a_circle() {
    let module = |path: &str| -> Module { path.split("::").map(str::to_owned).collect() };
    let source = |path: &str, code: &str| (module(path), code.to_owned());
    let modules = BTreeMap::from([
        source("state", ""),
        source("state::table", "use crate::session::shard::Shard;"),
        source("session", ""),
        source("session::shard", "use super::socket::Socket;"),
        source("session::socket", "fn f(_: super::shard::Shard) {}"),
    ]);
    let arrows = arrows(&modules);
    let order = [
        "state::table",
        "state",
        "session::socket",
        "session::shard",
        "session",
    ];
    let wrong = backwards(&order.map(module), &arrows);
    let expected = [
        (module("session::socket"), module("session::shard")),
        (module("state::table"), module("session::shard")),
    ];
    assert_eq!(wrong, expected);
    let round = circle(&arrows).unwrap();
    assert_eq!(round, [module("session::shard"), module("session::socket")]);
}

/// Files of the package and the modules that they import, relative to `ts`, without extensions.
fn imports() -> BTreeSet<(String, String)> {
    let mut imports = BTreeSet::new();
    for (file, source) in typescript() {
        let file = Path::new(&file);
        for before in [" from \"", "import(\"", "import \"", "new URL(\""] {
            for (at, _) in source.match_indices(before) {
                let target = &source[at + before.len()..];
                let target = &target[..target.find('"').unwrap()];
                if !target.starts_with('.') {
                    continue;
                }
                let mut to: Vec<_> = file.parent().unwrap().iter().collect();
                let mut is_inside = true;
                for part in Path::new(target).iter() {
                    match part.to_str().unwrap() {
                        "." => {}
                        ".." => is_inside &= to.pop().is_some(),
                        _ => to.push(part),
                    }
                }
                if is_inside {
                    let name = |path: &Path| path.with_extension("").to_str().unwrap().to_owned();
                    imports.insert((name(file), name(&to.iter().collect::<PathBuf>())));
                }
            }
        }
    }
    imports
}

/// The TypeScript files of the package, by their paths in `wasm-client/ts`.
fn typescript() -> BTreeMap<String, String> {
    let ts = workspace().join("wasm-client/ts");
    let mut files = BTreeMap::new();
    let mut open = vec![ts.clone()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path
                .extension()
                .is_some_and(|end| end == "ts" || end == "tsx")
            {
                let name = path.strip_prefix(&ts).unwrap().to_str().unwrap();
                files.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    files
}

#[test]
fn store_of_the_package_alone_reads_memory_of_the_modules() {
    let files = typescript();
    let reads = |source: &str| words(&code(source)).any(|word| word == "memory");
    let inside = |name: &String| name.starts_with("store/");
    assert!(
        files
            .iter()
            .any(|(name, source)| inside(name) && reads(source))
    );
    let wrong: Vec<_> = (files.iter())
        .filter(|(name, source)| !inside(name) && reads(source))
        .map(|(name, _)| name)
        .collect();
    assert!(
        wrong.is_empty(),
        "the engine must give these what they read: {wrong:?}"
    );
}

#[test]
fn no_file_of_the_package_imports_a_later_one() {
    let rows = table(FOLDERS);
    assert!(rows.len() >= 8, "{rows:?}");
    let order: Vec<Module> = (rows.into_iter())
        .flat_map(|(folder, files)| match folder.as_str() {
            "." => files.into_iter().map(|file| vec![file]).collect(),
            folder => vec![vec![folder.to_owned()]],
        })
        .collect();
    let split = |name: &str| -> Module { name.split('/').map(str::to_owned).collect() };
    let imports: BTreeSet<_> = (imports().iter())
        .map(|(from, to)| (split(from), split(to)))
        .collect();
    assert!(imports.len() > 100, "the test reads no imports");
    for (from, to) in &imports {
        for name in [from, to] {
            let known = order.iter().any(|entry| name.starts_with(entry));
            assert!(known, "{name:?} isn't in the table of ARCHITECTURE.md");
        }
    }
    let wrong = backwards(&order, &imports);
    assert!(wrong.is_empty(), "these point backwards: {wrong:?}");
    assert_eq!(circle(&imports), None);
}

#[test]
fn relay_uses_the_engine_through_doors_alone() {
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
        // The lock file doesn't tell which of them only the tests use: the first and the last.
        [
            "pvwire-archiver",
            "pvwire-coniql",
            "pvwire-core",
            "pvwire-epics",
            "pvwire-fleet",
            "pvwire-http",
            "pvwire-pvws",
            "pvwire-relay",
            "pvwire-schema",
            "pvwire-testbed"
        ]
    );
    let query = needed.iter().find(|name| name.contains("graphql"));
    assert_eq!(query, None);
    let direct = &packages["pvwire-relay"];
    assert!(!direct.contains(&"pvwire-core"), "{direct:?}");
}

#[test]
fn engine_of_the_client_uses_neither_the_dom_nor_wasm_bindgen() {
    const FOREIGN: [&str; 5] = ["wasm_bindgen", "js_sys", "web_sys", "tokio", "mio"];
    for package in ["client-core", "schema"] {
        let manifest = fs::read_to_string(workspace().join(package).join("Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let needs = manifest["dependencies"].as_table().unwrap();
        let foreign = needs
            .keys()
            .find(|name| FOREIGN.contains(&&*name.replace('-', "_")));
        assert_eq!(foreign, None, "{package}");
    }
    let engine = workspace().join("client-core");
    let root = fs::read_to_string(engine.join("src/lib.rs")).unwrap();
    assert!(root.contains("\n#![forbid(unsafe_code)]\n"));
    let mut read = 0;
    for file in rust_files(&engine) {
        read += 1;
        let code = code(&fs::read_to_string(&file).unwrap());
        for binding in FOREIGN {
            let found = words(&code).any(|word| word == binding);
            assert!(!found, "{} names {binding}", file.display());
        }
    }
    assert!(read >= 30, "only {read} files were read");
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
