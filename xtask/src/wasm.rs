//! Builds the modules and their JavaScript in `wasm-client/pkg/`: the client's from
//! `wasm-client/wasm`, that of formulas and local PVs from `wasm-client/page`, that of GraphQL
//! documents from `wasm-client/graphql`, and that of archived samples from `wasm-client/archive`.

use std::collections::hash_map::DefaultHasher;
use std::error::Error;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::Compression;
use flate2::write::GzEncoder;
use wasm_bindgen_cli_support::Bindgen;
use wasmparser::{Parser, Payload};

use crate::{names, order, panics, sizes};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A crate that becomes a module, and the limits of its compressed sizes: a page on a slow link waits
/// for it. `size.node.test.ts` also checks the size of the package's own JavaScript.
struct Module {
    package: &'static str,
    /// Its name in `wasm-client/pkg/`.
    name: &'static str,
    max_wasm_gzip_bytes: usize,
    /// Of the generated JavaScript.
    max_glue_gzip_bytes: usize,
}

const MODULES: [Module; 4] = [
    Module {
        package: "pvwire-wasm",
        name: "pvwire_wasm",
        // The engine with the executor of selections, and with what shows values of formulas and local
        // PVs; those themselves are in the other module. A quarter of a kilobyte is for pages of answers.
        max_wasm_gzip_bytes: 58 * 1024 + 256,
        max_glue_gzip_bytes: 6800,
    },
    // Loaded with the first formula or local PV of a page.
    Module {
        package: "pvwire-page",
        name: "pvwire_page",
        max_wasm_gzip_bytes: 70 * 1024,
        max_glue_gzip_bytes: 5 * 1024,
    },
    // Loaded with the first GraphQL document.
    Module {
        package: "pvwire-graphql",
        name: "pvwire_graphql",
        max_wasm_gzip_bytes: 48 * 1024,
        max_glue_gzip_bytes: 3 * 1024,
    },
    // Loaded with the first past of a PV that an archiver has.
    Module {
        package: "pvwire-archive",
        name: "pvwire_archive",
        max_wasm_gzip_bytes: 16 * 1024,
        max_glue_gzip_bytes: 3 * 1024,
    },
];

/// The schema in GraphQL's notation, which the package exports as a text.
const SDL: &str = "client-core/src/graphql/sdl/pvwire.graphql";

/// Everything that the result depends on, relative to the workspace's root.
const INPUTS: [&str; 13] = [
    "Cargo.lock",
    "Cargo.toml",
    "archiver/src",
    "client-core/Cargo.toml",
    "client-core/src",
    "package.json",
    "schema/src",
    "wasm-client/archive",
    "wasm-client/executor",
    "wasm-client/graphql",
    "wasm-client/page",
    "wasm-client/wasm",
    "xtask/src",
];

/// Builds `wasm-client/pkg/` unless it is already built from these inputs.
pub(crate) fn build() -> Result<()> {
    let root = &workspace(
        std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from),
        &std::env::current_dir()?,
    )?;
    let pkg = root.join("wasm-client/pkg");
    let stamp = pkg.join(".inputs");
    let inputs = format!("{:016x}", fingerprint(root)?);
    let exists = |module: &Module| pkg.join(module.file()).exists();
    if MODULES.iter().all(exists) && fs::read_to_string(&stamp).is_ok_and(|before| before == inputs)
    {
        println!("wasm-client/pkg is up to date");
        return Ok(());
    }

    // Compiled before anything is removed.
    let compiled = MODULES.iter().map(|module| module.compile(root));
    let compiled = compiled.collect::<Result<Vec<_>>>()?;
    if pkg.exists() {
        fs::remove_dir_all(&pkg)?;
    }
    for (module, compiled) in MODULES.iter().zip(&compiled) {
        module.bind(root, compiled, &pkg, false)?;
    }
    write_sdl(root, &pkg)?;
    fs::write(stamp, inputs)?;
    Ok(())
}

/// Writes what the compressed bytes of the modules are.
pub(crate) fn write_sizes() -> Result<()> {
    let root = &workspace(
        std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from),
        &std::env::current_dir()?,
    )?;
    let folder = target(root).join("wasm-sizes");
    let mut modules = Vec::new();
    for module in &MODULES {
        module.bind(root, &module.compile(root)?, &folder, true)?;
        modules.push((module.name, fs::read(folder.join(module.file()))?));
    }
    sizes::write(
        root,
        &modules,
        &root.join("bench/results/package-profile.md"),
    )
}

fn target(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// Writes the schema's text as a JavaScript module.
fn write_sdl(root: &Path, pkg: &Path) -> Result<()> {
    let mut text = String::from("export const schemaSdl = `");
    for character in fs::read_to_string(root.join(SDL))?.chars() {
        if matches!(character, '`' | '\\' | '$') {
            text.push('\\');
        }
        text.push(character);
    }
    text.push_str("`;\n");
    fs::write(pkg.join("pvwire_sdl.js"), text)?;
    fs::write(
        pkg.join("pvwire_sdl.d.ts"),
        "/** The schema in GraphQL's notation. */\nexport const schemaSdl: string;\n",
    )?;
    Ok(())
}

impl Module {
    fn file(&self) -> String {
        format!("{}_bg.wasm", self.name)
    }

    /// Makes the module and its JavaScript from what was compiled. With `keep_names` the functions keep
    /// their names, and only the module is made.
    fn bind(&self, root: &Path, compiled: &Path, pkg: &Path, keep_names: bool) -> Result<()> {
        Bindgen::new()
            .input_path(compiled)
            .out_name(self.name)
            .web(true)?
            .typescript(true)
            .omit_default_module_path(true)
            .remove_name_section(!keep_names)
            .remove_producers_section(true)
            .generate(pkg)?;
        let module = pkg.join(self.file());
        optimise(root, &module, keep_names)?;
        if keep_names {
            return Ok(());
        }
        let glue = pkg.join(format!("{}.js", self.name));
        let (short, names) = names::shortened(&fs::read(&module)?)?;
        fs::write(&module, short)?;
        let trimmed = trimmed(&fs::read_to_string(&glue)?)?;
        fs::write(&glue, names::replaced(&trimmed, "wasm.", &names))?;
        let types = pkg.join(format!("{}.d.ts", self.name));
        let shortened = names::replaced(&fs::read_to_string(&types)?, "readonly ", &names);
        fs::write(&types, shortened)?;
        check_imports(&fs::read(&module)?)?;
        check_size(&module, self.max_wasm_gzip_bytes)?;
        check_size(&glue, self.max_glue_gzip_bytes)
    }

    fn compile(&self, root: &Path) -> Result<PathBuf> {
        let target = target(root);
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        run(Command::new(cargo)
            .current_dir(root)
            .env(
                "CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS",
                without_paths(root)?,
            )
            // Equal modules with and without tools/lint.py.
            .env_remove("RUSTC_WORKSPACE_WRAPPER")
            .args(["build", "--package", self.package, "--lib", "--locked"])
            .args(["--profile", "wasm", "--target", "wasm32-unknown-unknown"])
            .arg("--target-dir")
            .arg(&target))?;
        let built = target.join("wasm32-unknown-unknown/wasm");
        let small = built.join(self.file());
        let compiled = fs::read(built.join(format!("{}.wasm", self.name)))?;
        fs::write(&small, panics::removed(&compiled)?)?;
        Ok(small)
    }
}

/// The workspace that xtask runs in, which needn't be the one that it was compiled in: worktrees
/// may share a target directory. Cargo names the folder of the package that it runs; without cargo
/// it is the nearest workspace above the current directory.
fn workspace(package: Option<PathBuf>, current: &Path) -> Result<PathBuf> {
    let is_ours = |folder: &&Path| folder.join("xtask/Cargo.toml").is_file();
    let by_cargo = package.as_deref().and_then(Path::parent).filter(is_ours);
    let root = by_cargo.or_else(|| current.ancestors().find(is_ours));
    let missing = || format!("{} is in no workspace of pvwire", current.display());
    Ok(root.ok_or_else(missing)?.to_owned())
}

/// Flags that shorten the names of source files, which panic messages contain, and make them
/// independent of where Rust and the crates are installed.
fn without_paths(root: &Path) -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let printed = |flags: &[&str]| -> Result<String> {
        let output = Command::new(&rustc)
            .args(flags)
            .current_dir(root)
            .output()?;
        Ok(String::from_utf8(output.stdout)?)
    };
    let sysroot = printed(&["--print", "sysroot"])?;
    let version = printed(&["--version", "--verbose"])?;
    let hash = (version.lines()).find_map(|line| line.strip_prefix("commit-hash: "));
    let cargo_home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .ok_or("neither CARGO_HOME nor a home directory is known")?;
    Ok(format!(
        "--remap-path-prefix={}/lib/rustlib/src/rust=/rustc/{} --remap-path-prefix={}/registry/src=",
        sysroot.trim_end(),
        hash.ok_or("rustc doesn't say its commit")?,
        cargo_home.display(),
    ))
}

fn optimise(root: &Path, module: &Path, keep_names: bool) -> Result<()> {
    let wasm_opt = root.join("node_modules/binaryen/bin/wasm-opt");
    if !wasm_opt.exists() {
        return Err("wasm-opt is missing: run `npm ci` first".into());
    }
    run(Command::new("node")
        .arg(&wasm_opt)
        .args([
            "-O3",
            if keep_names { "-g" } else { "--strip-debug" },
            "--strip-producers",
        ])
        // rustc has already inlined the functions where it pays; more inlining only increases the
        // size.
        .args(["--always-inline-max-function-size=0"])
        .args(["--flexible-inline-max-function-size=0"])
        .args(["--one-caller-inline-max-function-size=0"])
        .arg(module)
        .arg("-o")
        .arg(module))?;
    fs::write(module, order::named(&fs::read(module)?)?)?;
    run(Command::new("node")
        .arg(wasm_opt)
        .args([
            "--reorder-functions-by-name",
            if keep_names { "-g" } else { "--strip-debug" },
        ])
        .arg(module)
        .arg("-o")
        .arg(module))
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?}: {status}").into())
    }
}

/// Parts of the generated JavaScript that pages never run. Each is removed from its first text up
/// to, but not including, its second text.
const NEEDLESS: [(&str, &str); 9] = [
    // Every browser that can run the module has `encodeInto`.
    (
        "if (!('encodeInto' in cachedTextEncoder))",
        "let WASM_VECTOR_LEN",
    ),
    // `ts/store/core.ts` passes the module itself, not an object that contains it.
    ("if (module !== undefined) {", "const imports"),
    // `ts/store/core.ts` also loads it only once.
    (
        "(module_or_path) {\n    if (wasm !== undefined)",
        "(module_or_path) {\n\n",
    ),
    ("if (module_or_path !== undefined) {", "const imports"),
    // Every browser with WebAssembly has these.
    (
        "typeof Request === 'function' && ",
        "module_or_path instanceof",
    ),
    ("typeof URL === 'function' && ", "module_or_path instanceof"),
    ("typeof Response === 'function' && ", "module instanceof"),
    // The browser's own error says the same.
    ("\"`WebAssembly.instantiateStreaming` failed", "e);"),
    // Strings are always passed with the function that allocates memory.
    ("if (realloc === undefined)", "let len = arg.length"),
];

/// Beginnings of those parts that only a module has to which JavaScript passes texts.
const OF_TEXTS: [&str; 2] = [
    "if (!('encodeInto' in cachedTextEncoder))",
    "if (realloc === undefined)",
];

/// The generated JavaScript without the code that is never run.
fn trimmed(glue: &str) -> Result<String> {
    let mut glue = glue.to_owned();
    let takes_texts = glue.contains("cachedTextEncoder");
    for (from, to) in NEEDLESS {
        if !takes_texts && OF_TEXTS.contains(&from) {
            continue;
        }
        let missing = || format!("the generated JavaScript has changed: no {from:?} … {to:?}");
        let start = glue.find(from).ok_or_else(missing)?;
        let end = start + glue[start..].find(to).ok_or_else(missing)?;
        glue.replace_range(start..end, "");
    }
    Ok(glue)
}

/// Fails if the module imports from `env`: it could not run, because a crate expected an operating
/// system.
fn check_imports(wasm: &[u8]) -> Result<()> {
    for payload in Parser::new(0).parse_all(wasm) {
        if let Payload::ImportSection(imports) = payload? {
            for import in imports.into_imports() {
                let import = import?;
                if import.module == "env" {
                    return Err(format!("the module imports `{}` from `env`", import.name).into());
                }
            }
        }
    }
    Ok(())
}

fn check_size(file: &Path, limit: usize) -> Result<()> {
    let bytes = fs::read(file)?;
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&bytes)?;
    let compressed = gzip.finish()?.len();
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    println!(
        "{name}: {} bytes, {compressed} compressed (limit {limit})",
        bytes.len()
    );
    if compressed > limit {
        return Err(
            format!("{name} is too large: {compressed} bytes compressed, limit {limit}").into(),
        );
    }
    Ok(())
}

fn fingerprint(root: &Path) -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for input in INPUTS {
        hash_path(&root.join(input), &mut hasher)?;
    }
    Ok(hasher.finish())
}

fn hash_path(path: &Path, hasher: &mut DefaultHasher) -> Result<()> {
    if path.is_dir() {
        let mut entries = fs::read_dir(path)?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<Vec<_>>>()?;
        entries.sort();
        for entry in entries {
            hash_path(&entry, hasher)?;
        }
    } else {
        path.file_name().hash(hasher);
        fs::read(path)?.hash(hasher);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module_importing(module: &str, name: &str) -> Vec<u8> {
        let mut section = vec![1, module.len() as u8];
        section.extend(module.as_bytes());
        section.push(name.len() as u8);
        section.extend(name.as_bytes());
        section.extend([0, 0]);
        let mut wasm = b"\0asm\x01\0\0\0".to_vec();
        wasm.extend([1, 4, 1, 0x60, 0, 0]);
        wasm.extend([2, section.len() as u8]);
        wasm.extend(section);
        wasm
    }

    #[test]
    fn workspace_is_the_one_that_xtask_runs_in() {
        let compiled_in = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let other = compiled_in.join("target/another-workspace");
        fs::create_dir_all(other.join("xtask")).unwrap();
        fs::create_dir_all(other.join("web-demo/src")).unwrap();
        fs::write(other.join("xtask/Cargo.toml"), "").unwrap();
        for (package, current, expected) in [
            (Some(other.join("xtask")), compiled_in, &*other),
            (None, &*other.join("web-demo/src"), &*other),
            // Simulates a cargo that runs another package.
            (Some(PathBuf::from("/elsewhere/tool")), &*other, &*other),
            (Some(compiled_in.join("xtask")), &*other, compiled_in),
        ] {
            assert_eq!(workspace(package, current).unwrap(), expected);
        }
        assert!(workspace(None, Path::new("/")).is_err());
    }

    #[test]
    fn a_module_that_needs_an_operating_system_is_refused() {
        assert!(check_imports(&module_importing("env", "time")).is_err());
        assert!(
            check_imports(&module_importing("./pvwire_wasm_bg.js", "__wbindgen_throw")).is_ok()
        );
    }
}
