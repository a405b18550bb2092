//! Executes the selections of a flush in one call. JavaScript writes what is to be executed into the
//! module's memory and reads the cells and the text there; `ts/store/results.ts` is its other half.
//!
//! A crate of its own, because what runs for every update is compiled for speed, and everything else in
//! the module for size.

#![forbid(unsafe_code)]

use std::cell::Cell;
use std::mem::ManuallyDrop;

use pvwire_core::select::execute::{
    Elements, Held, Program, Results, Surroundings, Units, execute,
};
use pvwire_core::store::Store;
use pvwire_schema::types::ValueType;

/// Numbers per execution: the program with its flags, the slot, and the parts to read.
const ENTRY: usize = 3;

/// Numbers per array or structure: its type with [`TEXT`], its number of elements, and how many bytes
/// of it are at hand.
const RECORD: usize = 3;

/// Flag of an execution: its slot's value is an array or a structure, of which there is a record.
const WITH_ELEMENTS: u32 = 1 << 31;

/// Flag of an execution: the relay's silence doesn't affect its slot.
const WITHOUT_RELAY: u32 = 1 << 30;

/// Flag of a record: its characters are one text.
const TEXT: u32 = 1 << 8;

/// Flag of a record: the structure is held here.
const HELD: u32 = 1 << 9;

/// The programs of the page's selections.
#[derive(Debug, Default)]
struct Programs {
    all: Vec<Program>,
    /// Released numbers.
    free: Vec<u32>,
}

thread_local! {
    // Never dropped: it lives as long as the page.
    static PROGRAMS: Cell<ManuallyDrop<Programs>> = const {
        Cell::new(ManuallyDrop::new(Programs { all: Vec::new(), free: Vec::new() }))
    };
}

/// Keeps a program. Returns 16 times its number, plus what it needs.
pub fn keep(program: Program) -> u32 {
    let mut programs = PROGRAMS.take();
    let needs = u32::from(program.needs());
    let number = programs.free.pop().unwrap_or(programs.all.len() as u32);
    match programs.all.get_mut(number as usize) {
        Some(place) => *place = program,
        None => programs.all.push(program),
    }
    PROGRAMS.set(programs);
    number << 4 | needs
}

/// Drops a program that nothing executes any more.
pub fn release(number: u32) {
    let mut programs = PROGRAMS.take();
    if let Some(place) = programs.all.get_mut(number as usize) {
        *place = Program::default();
        programs.free.push(number);
    }
    PROGRAMS.set(programs);
}

/// What is executed, and the results.
#[derive(Debug)]
pub struct Execution {
    /// An [`ENTRY`] for each execution, then a [`RECORD`] for each that has [`WITH_ELEMENTS`].
    entries: Vec<u32>,
    /// The bytes of the arrays, one after another.
    elements: Vec<u8>,
    results: Results,
    /// Addresses and numbers of the cells, the bytes of text and the starts of its pieces.
    outcome: [usize; 6],
}

impl Default for Execution {
    fn default() -> Self {
        let mut results = Results::new(Units::Utf16);
        results.whole = true;
        Self {
            entries: Vec::new(),
            elements: Vec::new(),
            results,
            outcome: [0; 6],
        }
    }
}

impl Execution {
    /// Makes room for numbers and returns their address.
    pub fn reserve_entries(&mut self, numbers: usize) -> usize {
        if self.entries.len() < numbers {
            self.entries.resize(numbers, 0);
        }
        self.entries.as_ptr() as usize
    }

    /// Makes room for the bytes of arrays and returns their address.
    pub fn reserve_elements(&mut self, bytes: usize) -> usize {
        if self.elements.len() < bytes {
            self.elements.resize(bytes, 0);
        }
        self.elements.as_ptr() as usize
    }

    /// Carries out the first `count` executions over a store. Returns the address of the outcome.
    pub fn run(&mut self, store: &Store, held: &Held, count: usize, heard_ms: f64) -> usize {
        let programs = PROGRAMS.take();
        self.results.clear();
        let (entries, records) = self
            .entries
            .split_at_checked(count * ENTRY)
            .unwrap_or_default();
        let mut records = records.chunks_exact(RECORD);
        let mut bytes = &self.elements[..];
        for entry in entries.chunks_exact(ENTRY) {
            let &[program, slot, parts] = entry else {
                continue;
            };
            let mut surroundings = Surroundings {
                heard_ms,
                elements: None,
            };
            if program & WITHOUT_RELAY != 0 {
                surroundings.heard_ms = f64::NAN;
            }
            if program & WITH_ELEMENTS != 0
                && let Some(&[value_type, count, length]) = records.next()
            {
                let (own, rest) = bytes.split_at_checked(length as usize).unwrap_or_default();
                bytes = rest;
                surroundings.elements = if value_type & HELD == 0 {
                    Some(Elements {
                        value_type: ValueType::from_number(value_type as u8),
                        count,
                        bytes: own,
                        is_text: value_type & TEXT != 0,
                        node: None,
                    })
                } else {
                    held.structure(slot).map(Elements::structure)
                };
            }
            let number = program & !(WITH_ELEMENTS | WITHOUT_RELAY);
            if let Some(program) = programs.all.get(number as usize) {
                execute(program, store, slot, parts, surroundings, &mut self.results);
            }
        }
        PROGRAMS.set(programs);
        let (cells, text, starts) = (
            self.results.cells(),
            self.results.text(),
            self.results.starts(),
        );
        self.outcome = [
            cells.as_ptr() as usize,
            cells.len(),
            text.as_ptr() as usize,
            text.len(),
            starts.as_ptr() as usize,
            starts.len(),
        ];
        self.outcome.as_ptr() as usize
    }
}
