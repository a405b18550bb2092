//! Executes compiled selections over a store: reads the fields that a change affects, detects
//! missing objects, and writes the results as cells.
//!
//! A [`Program`] is a plan as instructions. [`execute`] runs one for one slot and appends cells to
//! [`Results`], which a browser turns into objects and [`Value`] into a tree. Nothing is kept
//! between two runs: the caller says which parts changed, and keeps what it made of the results.

mod apart;
#[cfg(feature = "graphql")]
mod coniql;
mod elements;
pub(in crate::select) mod fields;
mod held;
#[cfg(feature = "graphql")]
mod json;
mod length;
pub(crate) mod lines;
mod lists;
mod pv;
mod readers;
mod results;
#[cfg(test)]
mod tests;
mod tree;
mod value;

pub use self::elements::Elements;
pub use self::fields::CONSTANTS;
pub(crate) use self::fields::{severity_of, state_of, status_of, value_type_of};
pub use self::held::Held;
#[cfg(feature = "graphql")]
pub(crate) use self::json::{Group, Groups};
pub use self::pv::{Pv, Sample, SlotPv, Snapshot};
#[cfg(feature = "graphql")]
pub(crate) use self::readers::is_settled;
pub use self::readers::settled;
pub use self::results::{Cell, Results, Units};
pub(crate) use self::results::{Cells, Content};
pub use self::tree::value;
pub use self::value::Value;

use self::fields::{Form, Parent, Presence, Read, read_of};
use self::lines::{Line, Lines};
use self::readers::Reader;

/// Every part, including those that no field reads: everything is read.
pub const ALL_PARTS: u32 = u32::MAX;

/// One instruction.
#[derive(Debug)]
struct Step {
    /// Parts that it reads; for an object those of its fields too.
    mask: u32,
    /// Where its key starts and ends in the keys of the program.
    key: (u32, u32),
    action: Action,
}

#[derive(Debug)]
enum Action {
    /// Reads a field.
    Read(Read),
    /// The name of the object's type.
    Name(Box<[u8]>),
    /// An object: its fields are the steps up to this one.
    Object(Presence, usize),
    /// An object of a structure: a table, an image, or numbers as base64. Its fields are the lines
    /// of a plan.
    Apart(Read, Box<[u8]>),
}

/// What a program does for some parts, see [`Program::prepare`].
#[derive(Clone, Copy, Debug, Default)]
pub struct Prepared(usize);

impl Step {
    /// Whether something is done for it when everything is read.
    #[cfg(feature = "graphql")]
    fn has_operation(&self) -> bool {
        !matches!(
            self.action,
            Action::Name(_) | Action::Object(Presence::Always, _)
        )
    }
}

/// What is done with a PV whose changed parts are known: nothing in it has to be passed over.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Read(Read),
    /// An object that can be missing; its end.
    Present(Presence, u32),
    /// The index of a step that makes an object apart.
    Apart(u32),
}

/// A selection of one PV's fields, as instructions.
#[derive(Debug, Default)]
pub struct Program {
    steps: Vec<Step>,
    /// The keys of all steps: one text needs less memory, and less time, than one for each.
    keys: Vec<u8>,
    needs: u8,
    /// The operations for [`ALL_PARTS`].
    all: Vec<Operation>,
    /// Those for other parts that [`Program::prepare`] was called for.
    some: Vec<(u32, Vec<Operation>)>,
}

/// What a program needs to know of an array in addition to its number of elements.
pub mod needs {
    /// Its first ten elements, or all characters of a long string.
    pub const TEXT: u8 = 1;
    /// All characters.
    pub const CHARACTERS: u8 = 2;
    /// All elements.
    pub const ELEMENTS: u8 = 4;
    /// The content of a structure.
    pub const STRUCTURE: u8 = 8;
}

/// The name of a field that the program's schema lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField(pub String);

impl Program {
    /// Compiles the plan of a selection, as [`selection`](super::selection) returns it. `graphql`
    /// selects GraphQL's form of the fields that have two.
    ///
    /// # Errors
    /// When the plan has a field that PVs don't have, or only PVs of GraphQL have.
    pub fn new(plan: &str, graphql: bool) -> Result<Self, UnknownField> {
        let form = if graphql {
            Form::Graphql
        } else {
            Form::Selection
        };
        Self::compile(plan, form)
    }

    /// Compiles the plan of a GraphQL document's selection; its fields have Coniql's forms.
    #[cfg(feature = "graphql")]
    pub(crate) fn coniql(plan: &str) -> Result<Self, UnknownField> {
        Self::compile(plan, Form::Coniql)
    }

    fn compile(plan: &str, form: Form) -> Result<Self, UnknownField> {
        let mut compiler = Compiler {
            lines: Lines::new(plan.as_bytes()),
            program: Self {
                // Enough for most selections.
                steps: Vec::with_capacity(16),
                keys: Vec::with_capacity(plan.len() / 2),
                ..Self::default()
            },
            form,
        };
        compiler.object(Parent::Channel)?;
        let mut program = compiler.program;
        program.steps.shrink_to_fit();
        program.all = program.operations(ALL_PARTS);
        Ok(program)
    }

    /// Finds out what is to be done for these parts. The result stays valid as long as the program.
    pub fn prepare(&mut self, parts: u32) -> Prepared {
        let known = self.some.iter().position(|(other, _)| *other == parts);
        Prepared(known.unwrap_or_else(|| {
            let operations = self.operations(parts);
            self.some.push((parts, operations));
            self.some.len() - 1
        }))
    }

    /// What is to be done for these parts. Inside an object that can be missing everything is read.
    fn operations(&self, parts: u32) -> Vec<Operation> {
        let mut operations = Vec::new();
        // Objects that can be missing: where each ends, and its place among the operations.
        let mut open: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        loop {
            while let Some((_, place)) = open.pop_if(|(end, _)| *end <= at) {
                let after = operations.len() as u32;
                if let Some(Operation::Present(_, end)) = operations.get_mut(place) {
                    *end = after;
                }
            }
            let Some(step) = self.steps.get(at) else {
                return operations;
            };
            let affected = parts == ALL_PARTS || !open.is_empty() || step.mask & parts != 0;
            match &step.action {
                Action::Object(_, end) if !affected => {
                    at = *end;
                    continue;
                }
                Action::Read(read) if affected => operations.push(Operation::Read(*read)),
                Action::Apart(..) if affected => operations.push(Operation::Apart(at as u32)),
                Action::Object(Presence::Always, _)
                | Action::Read(_)
                | Action::Apart(..)
                | Action::Name(_) => {}
                Action::Object(presence, end) => {
                    open.push((*end, operations.len()));
                    operations.push(Operation::Present(*presence, 0));
                }
            }
            at += 1;
        }
    }

    /// A combination of the numbers in [`needs`].
    #[must_use]
    pub fn needs(&self) -> u8 {
        self.needs
    }

    fn key(&self, step: &Step) -> &[u8] {
        let (start, end) = step.key;
        let key = self.keys.get(start as usize..end as usize);
        key.unwrap_or_default()
    }
}

struct Compiler<'a> {
    lines: Lines<'a>,
    program: Program,
    form: Form,
}

impl<'a> Compiler<'a> {
    /// Compiles the lines up to the end of an object; returns the parts that it reads.
    fn object(&mut self, parent: Parent) -> Result<u32, UnknownField> {
        let mut all = 0;
        while let Some(line) = self.lines.next().filter(|line| line.is_field()) {
            let at = self.program.steps.len();
            let mut mask = line.mask;
            let (action, inner) = self.action(parent, &line)?;
            let key = self.key(line.key);
            self.program.steps.push(Step { mask, key, action });
            if let Some(inner) = inner {
                mask |= self.object(inner)?;
                let end = self.program.steps.len();
                if let Some(step) = self.program.steps.get_mut(at) {
                    step.mask = mask;
                    step.action = Action::Object(self.form.presence(inner), end);
                }
            }
            all |= mask;
        }
        Ok(all)
    }

    /// Keeps a key.
    fn key(&mut self, key: &[u8]) -> (u32, u32) {
        let keys = &mut self.program.keys;
        let start = keys.len() as u32;
        keys.extend(key.iter().copied());
        (start, keys.len() as u32)
    }

    /// What a field does, and for an object with fields in the program which one it is.
    fn action(
        &mut self,
        parent: Parent,
        line: &Line<'a>,
    ) -> Result<(Action, Option<Parent>), UnknownField> {
        if let Some(named) = line.type_name() {
            return Ok((Action::Name(named.into()), None));
        }
        let Some(read) = read_of(parent, line.name, line.arguments, self.form) else {
            return Err(UnknownField(line.name_text()));
        };
        self.program.needs |= read.needs();
        Ok(match read {
            Read::Object(inner) => (Action::Object(Presence::Always, 0), Some(inner)),
            Read::Base64(_) | Read::Table | Read::NdArray => {
                (Action::Apart(read, self.lines.skip_object().into()), None)
            }
            _ => (Action::Read(read), None),
        })
    }
}

/// What a program reads besides the store.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Time of the relay's last message if the relay doesn't answer, in milliseconds past the POSIX
    /// epoch; NaN otherwise.
    pub heard_ms: f64,
    /// The slot's value if it is an array or a structure.
    pub elements: Option<Elements<'a>>,
}

impl Default for Surroundings<'_> {
    fn default() -> Self {
        Self {
            heard_ms: f64::NAN,
            elements: None,
        }
    }
}

/// Reads again what `parts` affect and appends its cells, in the order of the program: one or more
/// per field, and one per object that can be missing. Inside such an object everything is read.
pub fn execute(program: &Program, pv: &impl Pv, parts: u32, results: &mut Results) {
    let own;
    let operations = if parts == ALL_PARTS {
        &program.all
    } else {
        own = program.operations(parts);
        &own
    };
    run(program, operations, 0, &Reader { pv }, results);
}

/// Does the same for parts that the program was prepared for.
#[inline(always)]
pub fn execute_prepared(
    program: &Program,
    prepared: Prepared,
    pv: &impl Pv,
    results: &mut Results,
) {
    if let Some((_, operations)) = program.some.get(prepared.0) {
        run(program, operations, 0, &Reader { pv }, results);
    }
}

/// Carries out the operations from one on; the ends in them count from the first.
fn run<P: Pv>(
    program: &Program,
    operations: &[Operation],
    from: usize,
    reader: &Reader<'_, P>,
    results: &mut Results,
) {
    let mut at = from;
    while let Some(operation) = operations.get(at) {
        at += 1;
        match *operation {
            Operation::Read(read) => reader.read(read, results),
            Operation::Present(presence, _) if reader.is_present(presence) => {
                results.mark(Cell::Present);
            }
            Operation::Present(_, end) => {
                results.mark(Cell::Null);
                at = end as usize;
            }
            Operation::Apart(step) => {
                let action = program.steps.get(step as usize).map(|step| &step.action);
                if let Some(Action::Apart(read, plan)) = action {
                    reader.apart(*read, plan, results);
                }
            }
        }
    }
}
