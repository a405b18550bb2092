//! Removes the text of panics from a compiled module. A module for browsers has no place to print it:
//! a panic ends in the instruction `unreachable`, and JavaScript sees only a `RuntimeError`. The code
//! that writes the text and the places in source files that it names take up to 4 kB, compressed.

use std::error::Error;
use std::ops::Range;

use wasmparser::{
    BinaryReader, CodeSectionReader, Data, DataKind, DataSectionReader, KnownCustom, Name,
    Operator, Parser, Payload, TypeRef,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The standard library's panic handler, to which all panics lead.
const HANDLER: &str = "rust_begin_unwind";

/// Ends of the mangled names of functions that only panic.
const PANICS: [&str; 16] = [
    HANDLER,
    "9panicking9panic_fmt",
    "9panicking5panic",
    "9panicking18panic_bounds_check",
    "23panic_const_div_by_zero",
    "23panic_const_rem_by_zero",
    "16slice_index_fail",
    "16slice_error_fail",
    "17len_mismatch_fail",
    "13assert_failed",
    "13unwrap_failed",
    "13expect_failed",
    "18panic_access_error",
    "7raw_vec12handle_error",
    "17capacity_overflow",
    "18handle_alloc_error",
];

/// Part of the mangled names of what the panic handler calls to write a text. A table of functions
/// keeps it.
const MESSAGE: &str = "9panicking13panic_handler";

/// Parts of the mangled names of `std::fmt` and of what implements its traits. A table of functions
/// keeps these too, though only panics use them in a module whose own code doesn't format anything.
const FORMATTING: [&str; 5] = [
    "4core3fmt",
    "5alloc3fmt",
    "core..fmt",
    "3fmt5Debug",
    "3fmt7Display",
];

/// End of the names of functions that write an integer for `ToString`, without a formatter.
const DIGITS: &str = "4__fmt";

/// A body without local variables: `unreachable`, `end`.
const UNREACHABLE: [u8; 3] = [0, 0, 0x0b];

/// The module with functions that only panic replaced by `unreachable`, and without the names and
/// places of source files in its data. The module must still have the names of its functions.
pub(crate) fn removed(wasm: &[u8]) -> Result<Vec<u8>> {
    let panics = panics(wasm)?;
    let mut without = wasm.get(..8).unwrap_or_default().to_vec();
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        let Some((id, range)) = payload.as_section() else {
            continue;
        };
        let mut section = wasm[range].to_vec();
        match payload {
            Payload::CodeSectionStart { range, .. } => {
                section = code(wasm, range, &panics)?;
            }
            Payload::DataSection(data) => remove_places(&data, &mut section)?,
            _ => {}
        }
        without.push(id);
        push_number(section.len(), &mut without);
        without.extend(section);
    }
    Ok(without)
}

/// Indexes of the functions that only panic, without those that are imported, and of those that only
/// write the texts of panics.
fn panics(wasm: &[u8]) -> Result<Vec<usize>> {
    let functions = Functions::of(wasm)?;
    let mut found = Vec::new();
    let mut formatting = Vec::new();
    let mut has_handler = false;
    for (at, name) in &functions.names {
        has_handler |= name.ends_with(HANDLER);
        if PANICS.iter().any(|end| name.ends_with(end)) || name.contains(MESSAGE) {
            found.push(*at);
        } else if FORMATTING.iter().any(|part| name.contains(part)) && !name.ends_with(DIGITS) {
            formatting.push(*at);
        }
    }
    if !has_handler {
        return Err(
            format!("the module has no function {HANDLER}: rustc names it otherwise").into(),
        );
    }
    let removable = |at: &usize| found.contains(at) || formatting.contains(at);
    let used = (functions.calls.iter())
        .find(|(caller, called)| !removable(caller) && formatting.contains(called));
    match used {
        Some((caller, _)) => println!("std::fmt is kept: {} uses it", functions.name(*caller)),
        None => found.extend(formatting),
    }
    Ok(found)
}

/// Functions that are not imported, by their place in the code section.
#[derive(Default)]
struct Functions<'a> {
    names: Vec<(usize, &'a str)>,
    /// Which function calls which by its name.
    calls: Vec<(usize, usize)>,
}

impl<'a> Functions<'a> {
    fn of(wasm: &'a [u8]) -> Result<Self> {
        let mut functions = Self::default();
        let mut imported = 0;
        let mut bodies = 0;
        for payload in Parser::new(0).parse_all(wasm) {
            match payload? {
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        imported += usize::from(matches!(import?.ty, TypeRef::Func(_)));
                    }
                }
                Payload::CodeSectionEntry(body) => {
                    for operator in body.get_operators_reader()? {
                        if let Operator::Call { function_index } = operator? {
                            let called = (function_index as usize).checked_sub(imported);
                            functions
                                .calls
                                .extend(called.map(|called| (bodies, called)));
                        }
                    }
                    bodies += 1;
                }
                Payload::CustomSection(section) => {
                    let KnownCustom::Name(names) = section.as_known() else {
                        continue;
                    };
                    for name in names {
                        let Name::Function(named) = name? else {
                            continue;
                        };
                        for function in named {
                            let function = function?;
                            let at = (function.index as usize).checked_sub(imported);
                            functions.names.extend(at.map(|at| (at, function.name)));
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(functions)
    }

    fn name(&self, at: usize) -> &'a str {
        let named = self.names.iter().find(|(place, _)| *place == at);
        named.map_or("?", |(_, name)| name)
    }
}

/// The code section with these functions replaced.
fn code(wasm: &[u8], range: Range<usize>, panics: &[usize]) -> Result<Vec<u8>> {
    let bodies = CodeSectionReader::new(BinaryReader::new(&wasm[range.clone()], range.start))?;
    let mut section = Vec::with_capacity(range.len());
    push_number(bodies.count() as usize, &mut section);
    for (at, body) in bodies.into_iter().enumerate() {
        let body = if panics.contains(&at) {
            &UNREACHABLE
        } else {
            &wasm[body?.range()]
        };
        push_number(body.len(), &mut section);
        section.extend(body);
    }
    Ok(section)
}

/// One piece of memory that the module initialises.
struct Piece<'a> {
    /// Its address in memory.
    address: usize,
    bytes: &'a [u8],
    /// Its place in the section.
    at: usize,
}

/// Fills the places of panics, and the names of files that they refer to, with zeros, which compress
/// to almost nothing. A place is `core::panic::Location`: address and length of the file's name,
/// line and column, which only the text of a panic reads.
fn remove_places(data: &DataSectionReader<'_>, section: &mut [u8]) -> Result<()> {
    let start = data.range().start;
    let mut pieces = Vec::new();
    for piece in data.clone() {
        let piece = piece?;
        let Some(address) = address(&piece)? else {
            continue;
        };
        pieces.push(Piece {
            address,
            bytes: piece.data,
            at: piece.range.end - piece.data.len() - start,
        });
    }
    for piece in &pieces {
        let unaligned = piece.address.wrapping_neg() % 4;
        for at in (unaligned..piece.bytes.len().saturating_sub(15)).step_by(4) {
            let word = |nth: usize| {
                let from = at + 4 * nth;
                piece.bytes[from..from + 4]
                    .iter()
                    .rev()
                    .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
            };
            let (line, column) = (word(2), word(3));
            let is_place = (1..100_000).contains(&line) && (1..1000).contains(&column);
            let file = file_name(&pieces, word(0), word(1)).filter(|_| is_place);
            if let Some(file) = file {
                section[piece.at + at..piece.at + at + 16].fill(0);
                section[file].fill(0);
            }
        }
    }
    Ok(())
}

/// The address of a piece of memory, if it is constant.
fn address(piece: &Data<'_>) -> Result<Option<usize>> {
    let DataKind::Active { offset_expr, .. } = &piece.kind else {
        return Ok(None);
    };
    Ok(match offset_expr.get_operators_reader().read()? {
        Operator::I32Const { value } => Some(value as usize),
        _ => None,
    })
}

/// The place in the section of a text at this address, if it is the name of a source file.
fn file_name(pieces: &[Piece<'_>], address: usize, len: usize) -> Option<Range<usize>> {
    pieces.iter().find_map(|piece| {
        let from = address.checked_sub(piece.address)?;
        let text = piece.bytes.get(from..from.checked_add(len)?)?;
        let is_name = text.ends_with(b".rs")
            && text
                .iter()
                .all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(byte));
        is_name.then(|| piece.at + from..piece.at + from + len)
    })
}

/// Appends a number as LEB128.
pub(crate) fn push_number(mut number: usize, to: &mut Vec<u8>) {
    while number > 0x7f {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(id: u8, content: &[u8]) -> Vec<u8> {
        let mut section = vec![id];
        push_number(content.len(), &mut section);
        section.extend(content);
        section
    }

    const BEGINS_UNWIND: &str = "_RNvCs_7___rustc17rust_begin_unwind";

    /// A body that drops a number.
    const DROPS: [u8; 5] = [0, 0x41, 7, 0x1a, 0x0b];

    /// A module of functions with these names and bodies, and of this memory from address 16 on.
    fn module(functions: &[(&str, &[u8])], memory: &[u8]) -> Vec<u8> {
        let count = functions.len() as u8;
        let mut code = vec![count];
        let mut named = vec![count];
        for (at, (name, body)) in (0_u8..).zip(functions) {
            code.push(body.len() as u8);
            code.extend(*body);
            named.push(at);
            named.extend(section(0, name.as_bytes())[1..].iter());
        }
        let types = [&[count][..], &[0].repeat(functions.len())].concat();
        let mut data = vec![1, 0, 0x41, 16, 0x0b];
        data.extend(section(0, memory)[1..].iter());
        let custom = [&[4][..], b"name", &section(1, &named)].concat();
        [
            b"\0asm\x01\0\0\0".to_vec(),
            section(1, &[1, 0x60, 0, 0]),
            section(3, &types),
            section(5, &[1, 0, 1]),
            section(10, &code),
            section(11, &data),
            section(0, &custom),
        ]
        .concat()
    }

    #[test]
    fn panics_keep_neither_code_nor_places() {
        let mut memory = b"src/lib.rs\0\0".to_vec();
        for word in [16_u32, 10, 5, 9] {
            memory.extend(word.to_le_bytes());
        }
        memory.extend(b"kept");
        let without = removed(&module(
            &[("pvwire_core::apply", &DROPS), (BEGINS_UNWIND, &DROPS)],
            &memory,
        ));
        let without = without.unwrap();
        for payload in Parser::new(0).parse_all(&without) {
            if let Payload::DataSection(data) = payload.unwrap() {
                let piece = data.into_iter().next().unwrap().unwrap();
                assert_eq!(piece.data, [&[0; 28][..], b"kept"].concat());
            }
        }
        assert_eq!(bodies(&without), [&DROPS[..], &UNREACHABLE]);
    }

    fn bodies(wasm: &[u8]) -> Vec<&[u8]> {
        let payloads = Parser::new(0).parse_all(wasm);
        let bodies = payloads.filter_map(|payload| match payload.unwrap() {
            Payload::CodeSectionEntry(body) => Some(&wasm[body.range()]),
            _ => None,
        });
        bodies.collect()
    }

    #[test]
    fn formatting_is_removed_unless_the_code_of_the_module_uses_it() {
        let calls_the_last = [0, 0x10, 2, 0x0b];
        let written = |bodies_of: [&[u8]; 2]| {
            let functions = [
                ("pvwire_core::apply", bodies_of[0]),
                (BEGINS_UNWIND, bodies_of[1]),
                ("_RNvNtCs_4core3fmt5write", &DROPS),
            ];
            let without = removed(&module(&functions, b"")).unwrap();
            bodies(&without)[2] != UNREACHABLE
        };
        assert!(!written([&DROPS, &calls_the_last]));
        assert!(written([&calls_the_last, &DROPS]));
    }

    #[test]
    fn a_module_without_a_panic_handler_is_refused() {
        let error = removed(&module(&[("apply", &DROPS)], b"")).unwrap_err();
        assert!(error.to_string().contains(HANDLER), "{error}");
    }
}
