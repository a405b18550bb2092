//! Executes compiled selections over a store: which fields are read again after a change, which
//! objects are missing, and the results as cells.
//!
//! A [`Program`] is a plan as instructions. [`execute`] runs one for one slot and appends cells to
//! [`Results`], which a browser turns into objects and [`Value`] into a tree. Nothing is kept between
//! two runs: the caller says which parts changed, and keeps what it made of the results.

mod apart;
mod elements;
mod fields;
mod held;
mod lists;
mod readers;
mod results;
#[cfg(test)]
mod tests;
mod tree;
mod value;

pub use self::elements::Elements;
pub use self::fields::CONSTANTS;
pub use self::held::Held;
pub use self::readers::settled;
pub use self::results::{Cell, Results, Units};
pub use self::tree::value;
pub use self::value::Value;

use crate::store::{Slot, Store};

use self::fields::{Presence, Read, presence, read_of};
use self::readers::Reader;

/// Every part, including those that no field reads: everything is read.
pub const ALL_PARTS: u32 = u32::MAX;

/// One instruction.
#[derive(Debug)]
struct Step {
    /// Parts that it reads; for an object those of its fields too.
    mask: u32,
    key: Box<str>,
    action: Action,
}

#[derive(Debug)]
enum Action {
    /// Reads a field.
    Read(Read),
    /// The name of the object's type.
    Name(Box<str>),
    /// An object: its fields are the steps up to this one.
    Object(Presence, usize),
    /// An object of a structure: a table, an image, or numbers as base64. Its fields are the lines of
    /// a plan.
    Apart(Read, Box<str>),
}

/// A selection of one PV's fields, as instructions.
#[derive(Debug, Default)]
pub struct Program {
    steps: Vec<Step>,
    needs: u8,
}

/// What a program needs to know of an array, beyond its number of elements.
pub mod needs {
    /// Its first ten elements, or all characters of a long string.
    pub const TEXT: u8 = 1;
    /// All characters.
    pub const CHARACTERS: u8 = 2;
    /// All elements.
    pub const ELEMENTS: u8 = 4;
}

/// A field that the program's schema lacks: its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownField(pub String);

impl Program {
    /// Compiles the plan of a selection, as [`selection`](super::selection) returns it. `graphql`
    /// selects GraphQL's form of the fields that have two.
    ///
    /// # Errors
    /// When the plan has a field that PVs don't have, or only PVs of GraphQL have.
    pub fn new(plan: &str, graphql: bool) -> Result<Self, UnknownField> {
        let mut compiler = Compiler {
            lines: plan.lines(),
            program: Self::default(),
            graphql,
        };
        compiler.object("")?;
        Ok(compiler.program)
    }

    /// A combination of the numbers in [`needs`].
    #[must_use]
    pub fn needs(&self) -> u8 {
        self.needs
    }
}

struct Compiler<'a> {
    lines: std::str::Lines<'a>,
    program: Program,
    graphql: bool,
}

impl Compiler<'_> {
    /// Compiles the lines up to the end of an object; returns the parts that it reads.
    fn object(&mut self, path: &str) -> Result<u32, UnknownField> {
        let mut all = 0;
        while let Some(line) = self.lines.next() {
            let mut words = line.splitn(5, ' ');
            let mut word = || words.next().unwrap_or_default();
            let (sign, key, name, mask, arguments) = (word(), word(), word(), word(), word());
            if sign != "{" && sign != "=" {
                break;
            }
            let mut mask = mask.parse().unwrap_or(0);
            let at = self.program.steps.len();
            let action = match name.split_once(':') {
                Some((_, named)) => Action::Name(named.into()),
                None => self.action(path, name, arguments)?,
            };
            let is_object = matches!(action, Action::Object(..));
            let is_apart = matches!(action, Action::Apart(..));
            self.program.steps.push(Step {
                mask,
                key: key.into(),
                action,
            });
            if is_object {
                let inner = if path.is_empty() {
                    name.to_owned()
                } else {
                    [path, ".", name].concat()
                };
                mask |= self.object(&inner)?;
                let end = self.program.steps.len();
                if let Some(step) = self.program.steps.get_mut(at) {
                    step.mask = mask;
                    step.action = Action::Object(presence(&inner), end);
                }
            } else if sign == "{" && !is_apart {
                return Err(UnknownField([path, ".", name].concat()));
            }
            all |= mask;
        }
        Ok(all)
    }

    fn action(&mut self, path: &str, name: &str, arguments: &str) -> Result<Action, UnknownField> {
        let Some(read) = read_of(path, name, arguments, self.graphql) else {
            return Err(UnknownField([path, ".", name].concat()));
        };
        self.program.needs |= read.needs();
        Ok(match read {
            Read::Object => Action::Object(Presence::Always, 0),
            Read::Base64(_) | Read::Table | Read::NdArray => {
                Action::Apart(read, self.skip_object().into())
            }
            _ => Action::Read(read),
        })
    }

    /// The lines up to the end of an object.
    fn skip_object(&mut self) -> String {
        let mut text = String::new();
        let mut depth = 1;
        for line in self.lines.by_ref() {
            match line.as_bytes().first() {
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

/// What a program reads besides the store.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// When the relay was last heard from if it doesn't answer; NaN otherwise. Milliseconds past the
    /// POSIX epoch.
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
pub fn execute(
    program: &Program,
    store: &Store,
    slot: Slot,
    parts: u32,
    surroundings: Surroundings<'_>,
    results: &mut Results,
) {
    let reader = Reader {
        store,
        slot,
        at: slot as usize,
        surroundings,
    };
    run(program, 0, program.steps.len(), parts, &reader, results);
}

fn run(
    program: &Program,
    from: usize,
    to: usize,
    parts: u32,
    reader: &Reader<'_>,
    results: &mut Results,
) {
    let mut at = from;
    while at < to {
        let Some(step) = program.steps.get(at) else {
            return;
        };
        at += 1;
        let affected = parts == ALL_PARTS || step.mask & parts != 0;
        match &step.action {
            Action::Read(read) if affected => reader.read(*read, results),
            Action::Apart(_, _) if affected => results.mark(Cell::Apart),
            Action::Read(_) | Action::Apart(..) | Action::Name(_) => {}
            Action::Object(presence, end) => {
                let inside = if *presence == Presence::Always {
                    Some(parts)
                } else if !affected {
                    None
                } else if reader.is_present(*presence) {
                    results.mark(Cell::Present);
                    Some(ALL_PARTS)
                } else {
                    results.mark(Cell::Null);
                    None
                };
                if let Some(inside) = inside.filter(|_| affected) {
                    run(program, at, *end, inside, reader, results);
                }
                at = *end;
            }
        }
    }
}
