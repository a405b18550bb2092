//! Plans the result of an operation once its variables are known: a tree of fields as text, which
//! JavaScript turns into functions.

use crate::select::error::{DocumentError, Locations, push_number, push_quoted};
use crate::select::schema::{self, Field, TYPENAME, id};
use crate::select::tree::{Document, MAX_STEPS, Visited, has_twins, kind};
use crate::select::values::{Given, push_arguments};

/// A selected field and the hash of its key. The index is 0 after it was merged into an earlier
/// field.
#[derive(Clone, Copy)]
struct Asked {
    at: u32,
    hash: u32,
}

struct Planner<'a> {
    document: &'a Document,
    locations: Locations<'a>,
    given: &'a [Given],
    fields: u32,
    /// Steps taken; more than [`MAX_STEPS`] end the plan.
    steps: usize,
    /// Maximum length of the plan. A variable may be used many times.
    max_length: usize,
    /// Fields of the objects that are being planned; those of the innermost object come last.
    asked: Vec<Asked>,
    /// Fragments that contributed fields to the innermost object.
    visited: Visited,
    out: String,
    /// The first error.
    error: Option<DocumentError>,
}

/// The plan of an operation: `query`, `mutation` or `subscription` in the first line, then its root
/// fields. A bare selection has only the fields.
pub(crate) fn plan(
    document: &Document,
    operation: u32,
    given: &[Given],
) -> (String, Option<DocumentError>) {
    let mut planner = Planner {
        document,
        locations: Locations::new(&document.text),
        given,
        fields: 0,
        steps: 0,
        max_length: max_length(document, given),
        // Enough for most documents.
        asked: Vec::with_capacity(64),
        visited: Visited::default(),
        out: String::with_capacity(document.text.len() * 3),
        error: None,
    };
    let root = document.node(operation).ty;
    planner.out.push_str(match root {
        id::MUTATION => "mutation\n",
        id::SUBSCRIPTION => "subscription\n",
        id::CHANNEL => "",
        _ => "query\n",
    });
    planner.asked.push(Asked {
        at: operation,
        hash: 0,
    });
    planner.object(0, root, root != id::CHANNEL);
    (planner.out, planner.error)
}

/// How long a plan may become: each text in it may occur some times.
fn max_length(document: &Document, given: &[Given]) -> usize {
    const TIMES: usize = 16;
    const LEAST: usize = 1 << 20;
    let given = given.iter().map(Given::length).sum::<usize>();
    LEAST + TIMES * (document.text.len() + given)
}

impl Planner<'_> {
    fn spend(&mut self, steps: usize) {
        self.steps += steps;
        if self.steps > MAX_STEPS as usize || self.out.len() > self.max_length {
            let message = "The operation is too complex.";
            self.fail(Some(DocumentError::new(&[], message, &[])));
        }
    }

    fn fail(&mut self, error: Option<DocumentError>) {
        if self.error.is_none() {
            self.error = error;
        }
    }

    fn asked(&self, at: usize) -> Asked {
        self.asked
            .get(at)
            .copied()
            .unwrap_or(Asked { at: 0, hash: 0 })
    }

    /// Plans the object whose fields are in the selection sets of the nodes from index `nodes` on.
    /// `root` is true for the query, mutation or subscription itself.
    fn object(&mut self, nodes: usize, object: u8, root: bool) {
        let start = self.asked.len();
        self.visited.clear();
        for at in nodes..start {
            self.collect(self.asked(at).at);
        }
        let end = self.asked.len();
        let own = self.asked.get(start..end).unwrap_or_default();
        let has_twins = has_twins(own.iter().map(|asked| asked.hash));
        for at in start..end {
            let first = self.asked(at);
            if first.at == 0 || self.error.is_some() {
                continue;
            }
            self.asked.push(first);
            if has_twins {
                self.spend((end - at) / 32);
                for other in at + 1..end {
                    self.gather(first, other);
                }
            }
            let field = self.document.node(first.at).field;
            match field {
                Some(field) if root => self.root(first.at, end, field, object),
                Some(field) => self.field(first.at, end, field, object),
                None => {}
            }
            self.asked.truncate(end);
        }
        self.asked.truncate(start);
    }

    /// Merges a field with the first field of the same key.
    fn gather(&mut self, first: Asked, other: usize) {
        let Some(asked) = self.asked.get_mut(other) else {
            return;
        };
        if asked.hash == first.hash && asked.at != 0 && self.document.same_key(first.at, asked.at) {
            let same = *asked;
            asked.at = 0;
            self.asked.push(same);
        }
    }

    fn collect(&mut self, of: u32) {
        let document = self.document;
        for (at, selection) in document.children(of) {
            if !selection.is_selection() || !self.is_included(at) || self.error.is_some() {
                continue;
            }
            match selection.kind {
                kind::FIELD => {
                    self.fields += 1;
                    if self.fields > document.max_fields {
                        let message = "The result would have too many fields.";
                        self.fail(Some(DocumentError::new(&[selection.at], message, &[])));
                    }
                    self.asked.push(Asked {
                        at,
                        hash: selection.hash,
                    });
                }
                kind::SPREAD => {
                    let fragment = document.fragment(selection);
                    self.spend(1);
                    if self.visited.insert(document, fragment) {
                        self.collect(fragment);
                    }
                }
                _ => self.collect(at),
            }
        }
    }

    fn is_included(&mut self, at: u32) -> bool {
        self.document.count(at, kind::DIRECTIVE) == 0
            || !self.says(at, "skip", "{\"if\":true}")
                && !self.says(at, "include", "{\"if\":false}")
    }

    fn says(&mut self, at: u32, name: &str, what: &str) -> bool {
        let directive = self.document.find(at, kind::DIRECTIVE, name);
        let mut arguments = String::new();
        if let Some(known) = schema::directive(name)
            && directive != 0
        {
            let error = push_arguments(
                self.document,
                known.arguments,
                directive,
                self.given,
                &mut arguments,
            );
            self.fail(error);
        }
        arguments == what
    }

    /// `{ KEY FIELD PLACES ARGUMENTS` and the lines of its contents, `= …` for a leaf, `! KEY FIELD
    /// PLACES MESSAGE` for a field that can't be answered. PLACES are `line:column`, separated by
    /// commas. The nodes from `nodes` on are the fields that were merged into one.
    fn root(&mut self, first: u32, nodes: usize, field: &Field, object: u8) {
        let document = self.document;
        let mut arguments = String::new();
        let wrong = push_arguments(document, field.arguments, first, self.given, &mut arguments);
        let mut places: Vec<u32> = Vec::new();
        for same in self.asked.get(nodes..).unwrap_or_default() {
            places.push(document.node(same.at).at);
        }
        let is_object = field.ty.is_object();
        let mut sign = if is_object { "{ " } else { "= " };
        if let Some(wrong) = &wrong {
            sign = "! ";
            places.clone_from(&wrong.places);
            arguments.clear();
            push_quoted(&wrong.message, &mut arguments);
        }
        self.spend(self.given.len());
        self.head(sign, first, field, object);
        let mut between = "";
        for place in places {
            let (line, column) = self.locations.of(place);
            self.out.push_str(between);
            push_number(line, &mut self.out);
            self.out.push(':');
            push_number(column, &mut self.out);
            between = ",";
        }
        self.out.push(' ');
        self.out.push_str(&arguments);
        self.inner(nodes, is_object && wrong.is_none(), field);
    }

    fn head(&mut self, sign: &str, at: u32, field: &Field, object: u8) {
        let key = self.document.str(self.document.node(at).key);
        for word in [sign, key, " ", field.name] {
            self.out.push_str(word);
        }
        if field.name == TYPENAME {
            self.out.push(':');
            self.out.push_str(schema::named(object).name);
        }
        self.out.push(' ');
    }

    /// `{ KEY FIELD MASK` and `}` around an object, `= KEY FIELD MASK` for a leaf; followed by the
    /// arguments if the field takes any. MASK contains the parts of the PV that the field itself
    /// reads.
    fn field(&mut self, first: u32, nodes: usize, field: &Field, object: u8) {
        let is_object = field.ty.is_object();
        self.head(if is_object { "{ " } else { "= " }, first, field, object);
        push_number(u32::from(field.mask), &mut self.out);
        if !field.arguments.is_empty() {
            self.spend(self.given.len());
            self.out.push(' ');
            let wrong = push_arguments(
                self.document,
                field.arguments,
                first,
                self.given,
                &mut self.out,
            );
            self.fail(wrong);
        }
        self.inner(nodes, is_object, field);
    }

    fn inner(&mut self, nodes: usize, is_object: bool, field: &Field) {
        self.out.push('\n');
        if is_object {
            self.object(nodes, field.ty.name, false);
            self.out.push_str("}\n");
        }
    }
}
