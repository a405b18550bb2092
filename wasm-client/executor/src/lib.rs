//! Executes selections, those of a flush in one call, and lists whom to tell of changes. JavaScript
//! reads cells, text and list in the module's memory; `ts/store/results.ts` is the other half.
//!
//! A separate crate, because what runs for every update is compiled for speed, and everything else in the
//! module for size.

#![forbid(unsafe_code)]

mod watchers;

pub use self::watchers::Watchers;

use std::cell::Cell;
use std::mem::ManuallyDrop;

use pvwire_core::select::execute::{
    Elements, Held, Prepared, Program, Pv, Results, SlotPv, Surroundings, Units, execute,
    execute_prepared,
};
use pvwire_core::store::{Slot, Store, kind};
use pvwire_schema::types::ValueType;

/// Numbers per execution: the program with its flags, the slot, and the parts to read.
const ENTRY: usize = 3;

/// Numbers per array or structure: its type with [`TEXT`], its number of elements, and how many bytes
/// of it are at hand.
const RECORD: usize = 3;

/// Flag of an execution: its slot's value is an array or a structure, of which there is a record.
const WITH_ELEMENTS: u32 = 1 << 31;

/// Numbers per watcher in the list of a flush: its number with flags, and the parts that changed.
const TOLD: usize = 2;

/// Flag of a watcher in the list of a flush: its next result is among the cells.
const EXECUTED: u32 = 1 << 31;

/// Flag of a watcher: its result must be made with the elements of an array or a structure.
const WANTS_ELEMENTS: u32 = 1 << 30;

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
    /// Whom the last flush tells: a watcher with its flags, and the parts that changed.
    told: Vec<u32>,
    /// Addresses and numbers of the cells, the bytes of text, the starts of its pieces, and the
    /// numbers of `told`; then the parts that changed of any slot.
    outcome: [usize; 9],
}

impl Default for Execution {
    fn default() -> Self {
        let mut results = Results::new(Units::Utf16);
        results.whole = true;
        Self {
            entries: Vec::new(),
            elements: Vec::new(),
            results,
            told: Vec::new(),
            outcome: [0; 9],
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
    pub fn run(
        &mut self,
        store: &Store,
        held: &Held,
        watchers: &Watchers,
        count: usize,
        heard_ms: f64,
    ) -> usize {
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
            let mut elements = None;
            if program & WITH_ELEMENTS != 0
                && let Some(&[value_type, count, length]) = records.next()
            {
                let (own, rest) = bytes.split_at_checked(length as usize).unwrap_or_default();
                bytes = rest;
                elements = if value_type & HELD == 0 {
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
            let pv = pv_of(store, watchers, slot, heard_ms, elements);
            let number = program & !WITH_ELEMENTS;
            if let Some(program) = programs.all.get(number as usize) {
                execute(program, &pv, parts, &mut self.results);
            }
        }
        PROGRAMS.set(programs);
        self.told.clear();
        self.outcome(0)
    }

    /// Starts a new flush: lists the watchers that read what changed since the last one, and makes
    /// the next results of those whose last results were read. Returns the address of the outcome.
    pub fn flush(&mut self, store: &mut Store, watchers: &mut Watchers, heard_ms: f64) -> usize {
        watchers.begin();
        let mut programs = PROGRAMS.take();
        self.results.clear();
        self.told.resize(TOLD * watchers.len(), 0);
        let mut told = self.told.as_chunks_mut::<TOLD>().0.iter_mut();
        let (mut any, mut count) = (0, 0);
        // The last program and parts: mostly those of the next watcher too.
        let mut last = (usize::MAX, 0, Prepared::default());
        for slot in store.dirty() {
            let slot = *slot;
            let Some(parts) = store.pvs.get(slot as usize).map(|pv| pv.parts) else {
                continue;
            };
            any |= parts;
            let pv = pv_of(store, watchers, slot, heard_ms, None);
            let mut next = watchers.first(slot);
            while let Some(watcher) = watchers.get(next) {
                let number = next;
                next = watcher.next;
                if watcher.mask & parts == 0 {
                    continue;
                }
                let mut flags = 0;
                let at = watcher.program as usize >> 4;
                if watchers.take_read(number, watcher)
                    && let Some(program) = programs.all.get_mut(at)
                {
                    if program.needs() != 0 && matches!(pv.kind(), kind::ARRAY | kind::STRUCTURE) {
                        flags = WANTS_ELEMENTS;
                    } else {
                        flags = EXECUTED;
                        if (last.0, last.1) != (at, parts) {
                            last = (at, parts, program.prepare(parts));
                        }
                        execute_prepared(program, last.2, &pv, &mut self.results);
                    }
                }
                if let Some(place) = told.next() {
                    *place = [number | flags, parts];
                    count += TOLD;
                }
            }
        }
        self.told.truncate(count);
        PROGRAMS.set(programs);
        store.clear_dirty();
        self.outcome(any)
    }

    fn outcome(&mut self, changed: u32) -> usize {
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
            self.told.as_ptr() as usize,
            self.told.len(),
            changed as usize,
        ];
        self.outcome.as_ptr() as usize
    }
}

/// The PV of a slot. Only the silence of a relay that its values come from affects it.
#[inline(always)]
fn pv_of<'a>(
    store: &'a Store,
    watchers: &Watchers,
    slot: Slot,
    mut heard_ms: f64,
    elements: Option<Elements<'a>>,
) -> SlotPv<'a> {
    if !heard_ms.is_nan() && !watchers.needs_relay(slot) {
        heard_ms = f64::NAN;
    }
    SlotPv::new(store, slot, Surroundings { heard_ms, elements })
}
