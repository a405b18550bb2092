//! Shortens the names of a module's exports: a page loads each twice, in the module and in the
//! generated JavaScript.

use std::error::Error;

use wasmparser::{Parser, Payload};

use crate::panics::push_number;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The export that the package itself uses.
const KEPT: &str = "memory";

/// The old and the new name of each export.
type Names = Vec<(String, String)>;

/// The module with short names for its exports.
pub(crate) fn shortened(wasm: &[u8]) -> Result<(Vec<u8>, Names)> {
    let mut module = wasm.get(..8).unwrap_or_default().to_vec();
    let mut names = Vec::new();
    for payload in Parser::new(0).parse_all(wasm) {
        let payload = payload?;
        let Some((id, range)) = payload.as_section() else {
            continue;
        };
        let mut section = wasm[range].to_vec();
        if let Payload::ExportSection(exports) = payload {
            section.clear();
            push_number(exports.count() as usize, &mut section);
            for export in exports {
                let export = export?;
                let name = if export.name == KEPT {
                    KEPT.to_owned()
                } else {
                    let short = short(names.len());
                    names.push((export.name.to_owned(), short.clone()));
                    short
                };
                push_number(name.len(), &mut section);
                section.extend(name.as_bytes());
                section.push(export.kind as u8);
                push_number(export.index as usize, &mut section);
            }
        }
        module.push(id);
        push_number(section.len(), &mut module);
        module.extend(section);
    }
    Ok((module, names))
}

/// The name of this number: `a` to `Z`, `aa` …
fn short(number: usize) -> String {
    const LETTERS: &[u8; 52] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    let last = char::from(LETTERS[number % LETTERS.len()]);
    match number / LETTERS.len() {
        0 => last.to_string(),
        before => format!("{}{last}", short(before - 1)),
    }
}

/// A text with the short names: each name follows `before` and ends where no further letter follows.
pub(crate) fn replaced(text: &str, before: &str, names: &[(String, String)]) -> String {
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(before) {
        let (head, tail) = rest.split_at(at + before.len());
        replaced.push_str(head);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
        let end = tail.find(|letter| !is_name(letter)).unwrap_or(tail.len());
        let (name, after) = tail.split_at(end);
        let short = names.iter().find(|(old, _)| old == name);
        replaced.push_str(short.map_or(name, |(_, new)| new));
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_get_short_names_in_the_module_and_in_its_javascript() {
        let module = [
            &b"\0asm\x01\0\0\0"[..],
            &[1, 4, 1, 0x60, 0, 0],
            &[3, 2, 1, 0],
            &[5, 3, 1, 0, 1],
            &[7, 23, 2, 6],
            b"memory",
            &[2, 0, 10],
            b"core_error",
            &[0, 0],
            &[10, 4, 1, 2, 0, 0x0b],
        ]
        .concat();
        let (module, names) = shortened(&module).unwrap();
        assert_eq!(names, [("core_error".to_owned(), "a".to_owned())]);
        let mut exported = Vec::new();
        for payload in Parser::new(0).parse_all(&module) {
            if let Payload::ExportSection(exports) = payload.unwrap() {
                exported.extend(exports.into_iter().map(|export| export.unwrap().name));
            }
        }
        assert_eq!(exported, ["memory", "a"]);
        assert_eq!(
            replaced(
                "wasm.core_error(); wasm.core_errors; wasm.memory; core_error",
                "wasm.",
                &names
            ),
            "wasm.a(); wasm.core_errors; wasm.memory; core_error"
        );
    }

    #[test]
    fn names_differ() {
        let names: std::collections::HashSet<String> = (0..4000).map(short).collect();
        assert_eq!(names.len(), 4000);
        assert_eq!((&*short(51), &*short(52), &*short(53)), ("Z", "aa", "ab"));
    }
}
