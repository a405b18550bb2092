//! Says what the compressed bytes of the modules are, by area of the source. Decompressing tells which
//! compressed byte became which bytes of the module, and the names of the functions say the rest.

use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress};
use wasmparser::{KnownCustom, Name, Parser, Payload, TypeRef};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Areas by the beginnings of functions' names; the first one that fits counts.
const AREAS: &[(&str, &[&str])] = &[
    (
        "tables, images and base64 of documents",
        &[
            "pvwire_core::select::execute::apart",
            "pvwire_core::select::execute::elements::Held",
            "pvwire_core::select::execute::value",
        ],
    ),
    (
        "executing selections",
        &["pvwire_core::select::execute", "pvwire_executor"],
    ),
    (
        "language of plain selections",
        &["pvwire_core::select::plain"],
    ),
    ("language of documents", &["pvwire_core::select"]),
    (
        "introspection",
        &[
            "pvwire_core::graphql::introspection",
            "pvwire_core::graphql::sdl",
        ],
    ),
    ("carrying out documents", &["pvwire_core::graphql"]),
    (
        "formulas and local PVs",
        &["pvwire_core::formula", "pvwire_core::local"],
    ),
    ("numbers and times as text", &["pvwire_core::format"]),
    (
        "requests",
        &["pvwire_schema::encode", "pvwire_core::ingest::requests"],
    ),
    ("decoding frames", &["pvwire_schema"]),
    (
        "applying and storing updates",
        &["pvwire_core::ingest", "pvwire_core::store"],
    ),
    (
        "generic code of Rust's libraries, allocator",
        &[
            "core", "alloc", "std", "bytes", "talc", "__rust", "T as", "A as",
        ],
    ),
];

/// Everything that belongs to no other area: exports and what wasm-bindgen adds.
const INTERFACE: &str = "interface to JavaScript";

const DATA: &str = "texts and tables";

const OTHER: &str = "types, names of imports and exports, other sections";

/// Writes the profile of these modules, whose functions have names.
pub(crate) fn write(root: &Path, modules: &[(&str, Vec<u8>)], to: &Path) -> Result<()> {
    let mut columns = Vec::new();
    for (_, module) in modules {
        columns.push(by_area(module)?);
    }
    let mut names: Vec<&str> = AREAS.iter().map(|(area, _)| *area).collect();
    names.extend([INTERFACE, DATA, OTHER]);
    let mut text = String::from(
        "# Compressed bytes of the modules, by area\n\n\
         Written by `cargo run -p xtask -- wasm-sizes`. A function's bytes are those of the compressed \
         module that became it; inlined functions count as the function that contains them. \
         The compressor has the modules without the names that this needs.\n\n",
    );
    writeln!(text, "Commit {}.\n", commit(root)?)?;
    let header: Vec<&str> = modules.iter().map(|(name, _)| *name).collect();
    writeln!(text, "| Area | {} |", header.join(" | "))?;
    writeln!(text, "|---|{}", "--:|".repeat(modules.len()))?;
    names.sort_by_key(|area| {
        let bytes = |column: &Vec<(String, f64)>| of(column, area);
        -(columns.iter().map(bytes).sum::<f64>() as i64)
    });
    for area in names {
        let cells = columns.iter().map(|column| of(column, area));
        let cells: Vec<String> = cells.map(|bytes| format!("{:.0}", bytes.abs())).collect();
        writeln!(text, "| {area} | {} |", cells.join(" | "))?;
    }
    let sums = columns
        .iter()
        .map(|column| column.iter().map(|(_, bytes)| bytes).sum());
    let sums: Vec<String> = sums.map(|bytes: f64| format!("{bytes:.0}")).collect();
    writeln!(text, "| all | {} |", sums.join(" | "))?;
    fs::write(to, text)?;
    Ok(())
}

fn of(column: &[(String, f64)], area: &str) -> f64 {
    let found = column.iter().filter(|(name, _)| name == area);
    found.map(|(_, bytes)| bytes).sum()
}

/// The commit and its date.
fn commit(root: &Path) -> Result<String> {
    let output = Command::new("git")
        .current_dir(root)
        .args([
            "log",
            "-1",
            "--format=%h, date %cd UTC",
            "--date=format-local:%Y-%m-%d %H:%M",
        ])
        .env("TZ", "UTC")
        .output()?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Compressed bytes per area.
fn by_area(wasm: &[u8]) -> Result<Vec<(String, f64)>> {
    let pieces = Pieces::of(wasm)?;
    let cost = costs(&pieces.module)?;
    let mut areas = Vec::new();
    let mut sum = 0.0;
    for (area, from, to) in &pieces.all {
        let bytes = cost[*to] - cost[*from];
        sum += bytes;
        areas.push((area.clone(), bytes));
    }
    let all = cost.last().copied().unwrap_or_default();
    areas.push((OTHER.to_owned(), all - sum));
    Ok(areas)
}

/// The module without names, and its functions and data with their areas.
struct Pieces {
    module: Vec<u8>,
    all: Vec<(String, usize, usize)>,
}

impl Pieces {
    fn of(wasm: &[u8]) -> Result<Self> {
        let mut imported = 0;
        let mut bodies = Vec::new();
        let mut all = Vec::new();
        let mut names = std::collections::HashMap::new();
        let mut end = wasm.len();
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::CodeSectionEntry(body) => bodies.push(body.range()),
                Payload::DataSection(data) => {
                    let range = data.range();
                    all.push((DATA.to_owned(), range.start, range.end));
                }
                Payload::CustomSection(section) => {
                    if let KnownCustom::Name(subsections) = section.as_known() {
                        // The last section, which the modules for browsers don't have.
                        end = end.min(section.range().start);
                        for name in subsections {
                            if let Name::Function(functions) = name? {
                                for function in functions {
                                    let function = function?;
                                    names.insert(function.index as usize, function.name);
                                }
                            }
                        }
                    }
                }
                _ => {}
            }
        }
        for (at, body) in bodies.into_iter().enumerate() {
            let name = names.get(&(imported + at)).copied().unwrap_or_default();
            all.push((area(name).to_owned(), body.start, body.end));
        }
        let module = wasm.get(..end).unwrap_or(wasm).to_vec();
        Ok(Self { module, all })
    }
}

fn area(name: &str) -> &'static str {
    // Before it is the function's place.
    let name =
        name.trim_start_matches(|letter: char| !letter.is_ascii_alphabetic() && letter != '_');
    let fits = |beginnings: &&[&str]| beginnings.iter().any(|begin| name.starts_with(begin));
    let known = AREAS.iter().find(|(_, beginnings)| fits(beginnings));
    // The exports of the client's module begin with `core_`.
    known
        .filter(|_| !name.starts_with("core_"))
        .map_or(INTERFACE, |(area, _)| area)
}

/// For each byte of a text how many compressed bytes those before it have.
fn costs(text: &[u8]) -> Result<Vec<f64>> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(text)?;
    let compressed = encoder.finish()?;
    let mut decoder = Decompress::new(true);
    let mut costs = vec![0.0; text.len() + 1];
    let mut buffer = vec![0; 1 << 16];
    let (mut made, mut waiting) = (0, 0.0);
    for byte in compressed.chunks(1) {
        waiting += 1.0;
        let before = decoder.total_out();
        decoder.decompress(byte, &mut buffer, FlushDecompress::None)?;
        let new = (decoder.total_out() - before) as usize;
        for nth in 1..=new {
            costs[made + nth] = costs[made] + waiting * nth as f64 / new as f64;
        }
        if new > 0 {
            made += new;
            waiting = 0.0;
        }
    }
    // The checksum at the end.
    costs[text.len()] += waiting;
    Ok(costs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_the_areas_of_their_source() {
        for (name, expected) in [
            (
                "000012pvwire_core::select::execute::apart::table",
                "tables, images and base64 of documents",
            ),
            (
                "000013<pvwire_core::select::execute::pv::SlotPv as x>::y",
                "executing selections",
            ),
            (
                "000014core::ptr::drop_in_place<pvwire_core::store::Store>",
                "generic code of Rust's libraries, allocator",
            ),
            ("000015core_add", INTERFACE),
        ] {
            assert_eq!(area(name), expected, "{name}");
        }
    }

    #[test]
    fn what_repeats_costs_less() {
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let mut text: Vec<u8> = (0..4000).map(|_| random()).collect();
        text.extend([7; 4000]);
        let costs = costs(&text).unwrap();
        assert!(costs[4000] > 3000.0);
        assert!(costs[8000] - costs[4000] < 300.0);
    }
}
