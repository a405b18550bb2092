//! Operations whose results are written as JSON: what a host answers and what is known at once.

use std::sync::Arc;

use super::Dialect;
use super::introspection;
use super::limits::Limits;
use super::operation::{Answer, Arguments, Asked, OperationOf, RootOf, channels};
use super::put_value::parsed;
use super::respond::ChannelRequestOf;
use super::writer::Selection;
use crate::select::error::{DocumentError, fill, push_number};

/// An operation with its variables.
pub type Operation = OperationOf<Arc<Selection>>;

/// A field of the query, mutation or subscription itself.
pub type Root = RootOf<Arc<Selection>>;

/// A channel of a response that the host writes.
pub type ChannelRequest<'a> = ChannelRequestOf<'a, Arc<Selection>>;

impl Operation {
    /// Reads a plan, see [`Documents::plan`](crate::select::Documents::plan).
    pub(super) fn new(plan: &str, dialect: Dialect, limits: Limits) -> Result<Self, DocumentError> {
        // Bytes for the answers to introspection.
        let mut room = limits.introspection;
        let operation = Self::read(plan, dialect, limits.response, |asked| {
            answer(&asked, dialect, &mut room).ok_or_else(|| {
                let template = "The result of introspection has more than % bytes.";
                too_much(template, limits.introspection)
            })
        })?;
        operation.check(limits)?;
        Ok(operation)
    }

    fn check(&self, limits: Limits) -> Result<(), DocumentError> {
        let (mut names, mut cost) = (0_usize, 0_usize);
        for root in self.roots() {
            let count = root.request().names().len();
            let fields = root.selection().map_or(0, |selection| selection.fields());
            names += count;
            cost = cost.saturating_add(count.saturating_mul(fields));
        }
        let mut selections = self.roots().iter().filter_map(Root::selection);
        if selections.any(|selection| selection.whole_values() > limits.whole_values) {
            let template =
                "The operation reads the whole value of a PV too often; the maximum is %.";
            return Err(too_much(template, limits.whole_values));
        }
        if names > limits.names {
            let template = "The operation names too many PVs; the maximum is %.";
            return Err(too_much(template, limits.names));
        }
        if cost > limits.cost {
            let template = "The operation reads too many fields of all its PVs; the maximum is %.";
            return Err(too_much(template, limits.cost));
        }
        Ok(())
    }
}

/// The error for exceeding a limit.
fn too_much(template: &str, limit: usize) -> DocumentError {
    let mut number = String::new();
    push_number(u32::try_from(limit).unwrap_or(u32::MAX), &mut number);
    DocumentError::new(&[], template, &[&number])
}

/// The answer to a field. `room` is the number of bytes for introspection; `None` if it
/// needs more.
fn answer(asked: &Asked<'_>, dialect: Dialect, room: &mut usize) -> Option<Answer<Arc<Selection>>> {
    let Asked {
        name,
        arguments,
        inner,
    } = asked;
    let known = match *name {
        "__schema" => introspection::schema(dialect, inner, *room),
        "__type" => introspection::named(dialect, &arguments.text("name"), inner, *room),
        "history" => {
            return Some(Answer::Problem {
                message: "The past is answered in pages only, by pvwire/graphql.".to_owned(),
                code: Some("NOT_SUPPORTED"),
                is_never_null: false,
            });
        }
        name => return Some(selected(name, arguments, inner, dialect)),
    }?;
    *room -= known.len();
    Some(Answer::Known(known))
}

fn selected(
    name: &str,
    arguments: &Arguments,
    inner: &str,
    dialect: Dialect,
) -> Answer<Arc<Selection>> {
    let Some(selection) = Selection::new(inner, dialect) else {
        return Answer::Problem {
            message: fill("\"%\" can't be answered.", &[name]),
            code: None,
            is_never_null: false,
        };
    };
    channels(name, arguments, Arc::new(selection), dialect, parsed)
}
