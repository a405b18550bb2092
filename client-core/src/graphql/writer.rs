//! Writes the selected fields of one PV as JSON.

use std::hash::{Hash, Hasher};

use super::{Dialect, Pv};
use crate::select::execute::{Groups, Program, Results, Units};
use crate::store::part;

/// Fields as long as a value.
const WHOLE_VALUES: [&str; 12] = [
    "string",
    "text",
    "array",
    "float64Array",
    "stringArray",
    "base64",
    "structure",
    "structures",
    "labels",
    "columns",
    "dimensions",
    "attributes",
];

/// The fields that a document selects of a PV. Equal selections give equal results, whatever
/// document they come from: a host can use them as keys.
#[derive(Debug)]
pub struct Selection {
    plan: String,
    dialect: Dialect,
    pub(super) program: Program,
    pub(super) groups: Groups,
}

impl PartialEq for Selection {
    fn eq(&self, other: &Self) -> bool {
        self.dialect == other.dialect && self.plan == other.plan
    }
}

impl Eq for Selection {}

impl Hash for Selection {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.dialect.hash(state);
        self.plan.hash(state);
    }
}

impl Selection {
    pub(super) fn new(plan: &str, dialect: Dialect) -> Option<Self> {
        let program = match dialect {
            Dialect::Pvwire => Program::new(plan, true),
            Dialect::Coniql => Program::coniql(plan),
        };
        let program = program.ok()?;
        let mut groups = program.groups();
        if dialect == Dialect::Coniql {
            // Value and time are shown only while the PV is connected.
            for group in &mut groups {
                if group.mask & (part::VALUE | part::TIME) != 0 {
                    group.mask |= part::CONNECTION;
                }
            }
        }
        Some(Self {
            plan: plan.to_owned(),
            dialect,
            program,
            groups,
        })
    }

    /// Which server's forms its fields have.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The parts of a PV that it reads, see [`part`]. A change of other parts changes no result.
    #[must_use]
    pub fn mask(&self) -> u32 {
        self.groups.iter().fold(0, |all, group| all | group.mask)
    }

    /// Whether it shows the description of a record, which Channel Access serves as a separate PV: the host
    /// has to ask for it.
    #[must_use]
    pub fn shows_description(&self) -> bool {
        let is_description = |line: &str| line.split(' ').nth(2) == Some("description");
        self.dialect == Dialect::Pvwire && self.plan.lines().any(is_description)
    }

    /// Number of its fields that may show all of a value, see
    /// [`Limits::whole_values`](super::Limits::whole_values).
    #[must_use]
    pub fn whole_values(&self) -> usize {
        let lines = self.plan.lines();
        let names = lines.filter_map(|line| line.split(' ').nth(2));
        names.filter(|name| WHOLE_VALUES.contains(name)).count()
    }

    /// About how many bytes the whole values take that it shows of a PV, see [`Program::length`].
    #[must_use]
    pub fn length(&self, pv: &impl Pv) -> usize {
        self.program.length(pv)
    }

    /// Number of its fields.
    #[must_use]
    pub fn fields(&self) -> usize {
        self.plan.lines().filter(|line| *line != "}").count()
    }
}

/// Writes channels; holds memory that it uses again.
#[derive(Debug)]
pub struct Writer {
    pub(super) results: Results,
}

impl Writer {
    /// A writer. `offset` is local time's offset from UTC in seconds at a time in seconds past the
    /// POSIX epoch; only Coniql's dialect shows local time.
    #[must_use]
    pub fn new(offset: fn(i64) -> i32) -> Self {
        let mut results = Results::new(Units::Utf8);
        results.offset = Some(offset);
        Self { results }
    }

    /// Appends the selected fields of a PV as a JSON object.
    pub fn write(&mut self, selection: &Selection, pv: &impl Pv, out: &mut Vec<u8>) {
        out.push(b'{');
        for (nth, group) in selection.groups.iter().enumerate() {
            if nth > 0 {
                out.push(b',');
            }
            (selection.program).push_group(*group, pv, &mut self.results, out);
        }
        out.push(b'}');
    }
}
