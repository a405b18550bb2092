//! Checks that fields with the same key can be merged in the result, through fragments too.
//! Compares each pair of fields once.

use crate::select::error::{DocumentError, fill};
use crate::select::schema::{Ty, id};
use crate::select::tree::{Document, Visited, has_twins, kind};

/// What a pair of fields costs, in steps of the validation.
const PAIR: usize = 8;

/// What a conflict costs, in steps of the validation: its message repeats those of the fields inside.
const CONFLICT: usize = 1_000;

/// A field and the type of the object that it belongs to.
#[derive(Clone, Copy)]
struct Asked {
    at: u32,
    hash: u32,
    /// The fragment of the set that contains it, 0 if it is not in a fragment.
    through: u32,
}

struct Conflict {
    field: u32,
    reason: String,
    first: Vec<u32>,
    second: Vec<u32>,
}

pub(crate) struct Overlaps<'a> {
    document: &'a Document,
    /// Pairs of fields whose inner fields were compared, and whether as parts of different objects.
    compared: Vec<(u32, u32)>,
    conflicts: Vec<Conflict>,
    /// Fields of the set that is being checked, and its fragments.
    fields: Vec<Asked>,
    visited: Visited,
}

impl<'a> Overlaps<'a> {
    pub(crate) fn new(document: &'a Document) -> Self {
        Self {
            document,
            compared: Vec::new(),
            conflicts: Vec::new(),
            // Enough for most sets.
            fields: Vec::with_capacity(32),
            visited: Visited::default(),
        }
    }

    /// Reports the fields of a set that can't be merged.
    pub(crate) fn within(&mut self, of: u32, errors: &mut Vec<DocumentError>) {
        let document = self.document;
        let mut own = std::mem::take(&mut self.fields);
        let mut visited = std::mem::take(&mut self.visited);
        own.clear();
        visited.clear();
        self.collect(of, 0, &mut visited, &mut own);
        if has_twins(own.iter().map(|field| field.hash)) {
            // The fields within one fragment are compared where the fragment is defined.
            self.fields(&own, &own, false);
        }
        self.fields = own;
        self.visited = visited;
        for conflict in std::mem::take(&mut self.conflicts) {
            let mut places = conflict.first;
            places.extend_from_slice(&conflict.second);
            let key = document.str(document.node(conflict.field).key);
            let template = "Fields \"%\" conflict because %. Use different aliases on the fields to fetch both if this was intentional.";
            errors.push(DocumentError::new(
                &places,
                template,
                &[key, &conflict.reason],
            ));
        }
    }

    /// Collects the fields that a set selects, directly and through fragments; the fields of each
    /// fragment are kept together.
    fn collect(&self, of: u32, through: u32, visited: &mut Visited, fields: &mut Vec<Asked>) {
        let document = self.document;
        let mut spreads: Vec<u32> = Vec::new();
        for (at, node) in document.children(of) {
            match node.kind {
                kind::FIELD => fields.push(Asked {
                    at,
                    hash: node.hash,
                    through,
                }),
                kind::SPREAD => spreads.push(document.fragment(node)),
                kind::INLINE => self.collect(at, through, visited, fields),
                _ => {}
            }
        }
        for fragment in &spreads {
            if through == 0 {
                visited.clear();
            }
            if document.is_spent() {
                return;
            }
            if *fragment != 0 && visited.insert(document, *fragment) {
                let through = if through == 0 { *fragment } else { through };
                self.collect(*fragment, through, visited, fields);
            }
        }
    }

    /// Compares fields that have the same key, in the order of the first field of each key. If
    /// `first` and `second` are the same set, compares each pair once.
    fn fields(&mut self, first: &[Asked], second: &[Asked], exclusive: bool) {
        let document = self.document;
        let within = std::ptr::eq(first, second);
        let same = |one: &Asked, other: &Asked| {
            one.hash == other.hash && document.same_key(one.at, other.at)
        };
        for (nth, key) in first.iter().enumerate() {
            // Comparisons of hashes are short.
            document.spend(nth / 32 + 1);
            if document.is_spent() {
                return;
            }
            let mut is_first = true;
            for before in first.iter().take(nth) {
                is_first &= !same(before, key);
            }
            for (nth, one) in first.iter().enumerate().skip(nth) {
                if !is_first || document.is_spent() || !same(one, key) {
                    continue;
                }
                for other in second.iter().skip(if within { nth + 1 } else { 0 }) {
                    document.spend(1);
                    let apart = !within || one.through == 0 || one.through != other.through;
                    if document.is_spent() {
                        break;
                    }
                    if apart && same(one, other) {
                        self.pair(*one, *other, exclusive);
                    }
                }
            }
        }
    }

    fn pair(&mut self, one: Asked, other: Asked, exclusive: bool) {
        let document = self.document;
        document.spend(PAIR);
        let (first, second) = (document.node(one.at), document.node(other.at));
        let (name, other_name) = (document.name(first), document.name(second));
        let known = first.ty != id::UNKNOWN && second.ty != id::UNKNOWN;
        let apart = known && first.ty != second.ty;
        let exclusive = exclusive || apart;
        let ty = first.field.map(|field| field.ty);
        let other_ty = second.field.map(|field| field.ty);
        let (mut places, mut other_places) = (vec![first.at], vec![second.at]);
        let mut reason = String::new();
        if !exclusive && name != other_name {
            reason = fill("\"%\" and \"%\" are different fields", &[name, other_name]);
        } else if !exclusive && !self.same_arguments(one.at, other.at) {
            reason.push_str("they have differing arguments");
        } else if let (Some(ty), Some(other_ty)) = (ty, other_ty)
            && conflicting(ty, other_ty)
        {
            let words = [ty.to_text(), other_ty.to_text()];
            let template = "they return conflicting types \"%\" and \"%\"";
            reason = fill(template, &[&words[0], &words[1]]);
        } else if one.at != other.at && first.inner_at != 0 && second.inner_at != 0 {
            let pair = (one.at, other.at << 1 | u32::from(exclusive));
            document.spend(self.compared.len() / 16);
            if self.compared.contains(&pair) {
                return;
            }
            self.compared.push(pair);
            let before = std::mem::take(&mut self.conflicts);
            let (mut inner, mut other_inner) = (Vec::new(), Vec::new());
            let mut visited = std::mem::take(&mut self.visited);
            visited.clear();
            self.collect(one.at, 0, &mut visited, &mut inner);
            visited.clear();
            self.collect(other.at, 0, &mut visited, &mut other_inner);
            self.visited = visited;
            self.fields(&inner, &other_inner, exclusive);
            for conflict in std::mem::replace(&mut self.conflicts, before) {
                let key = document.str(document.node(conflict.field).key);
                let and = if reason.is_empty() { "" } else { " and " };
                let template = "%subfields \"%\" conflict because %";
                reason.push_str(&fill(template, &[and, key, &conflict.reason]));
                places.extend_from_slice(&conflict.first);
                other_places.extend_from_slice(&conflict.second);
            }
        }
        if !reason.is_empty() {
            document.spend(CONFLICT + reason.len());
            self.conflicts.push(Conflict {
                field: one.at,
                reason,
                first: places,
                second: other_places,
            });
        }
    }

    fn same_arguments(&self, one: u32, other: u32) -> bool {
        let document = self.document;
        let mut surplus = 0;
        for (_, node) in document.children(other) {
            surplus += i32::from(node.kind == kind::ARGUMENT);
        }
        for (_, node) in document.children(one) {
            if node.kind == kind::ARGUMENT {
                let found = document.argument(other, document.name(node));
                let (mut value, mut other_value) = (String::new(), String::new());
                document.push_value(node.child, false, &mut value);
                document.push_value(found, false, &mut other_value);
                document.spend((value.len() + other_value.len()) / 8);
                if found == 0 || value != other_value {
                    return false;
                }
                surplus -= 1;
            }
        }
        surplus == 0
    }
}

fn conflicting(one: Ty, other: Ty) -> bool {
    if one.wraps & 3 != other.wraps & 3 {
        return true;
    }
    if one.wraps != 0 {
        return conflicting(one.inner(), other.inner());
    }
    one.name != other.name && !(one.is_object() && other.is_object())
}
