//! Do the tests that ARCHITECTURE.md names for its invariants exist?

use std::fs;
use std::path::Path;

/// Every "`file`: test" of the table.
fn named(text: &str) -> Vec<(&str, &str)> {
    let rows = text.lines().filter(|line| line.starts_with("| **"));
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit_once(" | "));
    cells
        .flat_map(|(_, tests)| tests.split("<br>"))
        .map(|test| {
            let (file, name) = test.trim().split_once(": ").expect("a file and a test");
            (file.trim_matches('`'), name)
        })
        .collect()
}

#[test]
fn tests_named_for_the_invariants_exist() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(workspace.join("ARCHITECTURE.md")).unwrap();
    let tests = named(&text);
    assert!(tests.len() >= 13, "only {} tests were read", tests.len());
    for (file, name) in tests {
        let code = fs::read_to_string(workspace.join(file)).unwrap_or_default();
        assert!(code.contains(name), "{file} has no test {name:?}");
    }
}
