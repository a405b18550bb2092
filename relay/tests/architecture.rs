//! Checks that the tests named in ARCHITECTURE.md, fidelity.md, pvws.md and coniql.md exist.

use std::fs;
use std::path::Path;

/// Every "`file`: test" in one cell of a table.
fn named(cell: &str) -> Vec<(&str, &str)> {
    let tests = cell.split("<br>").map(|test| {
        let (file, name) = test.trim().split_once(": ").expect("a file and a test");
        (file.trim_matches('`'), name)
    });
    tests.collect()
}

/// The cells of the rows that begin with this text.
fn cells<'a>(text: &'a str, begin: &'a str) -> impl Iterator<Item = Vec<&'a str>> {
    let rows = text.lines().filter(move |line| line.starts_with(begin));
    rows.map(|row| row.trim_matches('|').split(" | ").map(str::trim).collect())
}

fn read(file: &str) -> String {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(workspace.join(file)).unwrap_or_default()
}

fn all_exist(tests: &[(&str, &str)], at_least: usize) {
    assert!(
        tests.len() >= at_least,
        "only {} tests were read",
        tests.len()
    );
    for (file, name) in tests {
        assert!(read(file).contains(name), "{file} has no test {name:?}");
    }
}

#[test]
fn tests_named_for_the_invariants_exist() {
    let text = read("ARCHITECTURE.md");
    let rows = cells(&text, "| **");
    let tests: Vec<_> = rows.flat_map(|row| named(row[row.len() - 1])).collect();
    all_exist(&tests, 13);
}

#[test]
fn tests_named_for_what_a_screen_shows_exist() {
    let text = read("docs/reference/fidelity.md");
    let (mut tests, mut numbers) = (Vec::new(), Vec::new());
    for row in cells(&text, "| ").skip(1) {
        let [number, _, _, levels @ ..] = &row[..] else {
            panic!("a row without its columns: {row:?}");
        };
        assert_eq!(levels.len(), 3, "{row:?}");
        numbers.push(*number);
        let levels = levels
            .iter()
            .filter(|cell| !["–", "not yet"].contains(cell));
        tests.extend(levels.flat_map(|cell| named(cell)));
    }
    let expected: Vec<String> = (1..=42).map(|number| number.to_string()).collect();
    assert_eq!(numbers[..42], expected);
    all_exist(&tests, 40);
}

#[test]
fn tests_named_for_clients_of_coniql_exist() {
    let text = read("docs/reference/coniql.md");
    let rows = cells(&text, "| ").filter(|row| row[row.len() - 1].starts_with('`'));
    let tests: Vec<_> = rows.flat_map(|row| named(row[row.len() - 1])).collect();
    all_exist(&tests, 12);
}

#[test]
fn tests_named_for_clients_of_pvws_exist() {
    let text = read("docs/reference/pvws.md");
    let rows = cells(&text, "| ").filter(|row| row[row.len() - 1].starts_with('`'));
    let tests: Vec<_> = rows.flat_map(|row| named(row[row.len() - 1])).collect();
    all_exist(&tests, 27);
}
