//! What is an operation to show, once its variables are known? The tree of fields in words, for
//! JavaScript to turn into functions.

use crate::mistake::{Mistake, location, push_number, push_quoted};
use crate::schema::{self, Field, TYPENAME, id};
use crate::tree::{Document, kind};
use crate::values::{Given, push_arguments};

/// Most fields of a result: each costs time with every update that is shown.
pub const MAX_FIELDS: u32 = 50_000;

struct Planner<'a> {
    document: &'a Document,
    given: &'a [Given],
    fields: u32,
    out: String,
    /// The first thing that is wrong.
    mistake: Option<Mistake>,
}

/// The plan of an operation: `query`, `mutation` or `subscription` in the first line, then its root
/// fields. A bare selection has but the fields.
pub(crate) fn plan(
    document: &Document,
    operation: u32,
    given: &[Given],
) -> (String, Option<Mistake>) {
    let mut planner = Planner {
        document,
        given,
        fields: 0,
        out: String::new(),
        mistake: None,
    };
    let (word, root) = match document.node(operation).kind {
        kind::MUTATION => ("mutation\n", id::MUTATION),
        kind::SUBSCRIPTION => ("subscription\n", id::SUBSCRIPTION),
        kind::CHANNEL => ("", id::CHANNEL),
        _ => ("query\n", id::QUERY),
    };
    planner.out.push_str(word);
    let asked = planner.collect(&[operation]);
    if root == id::CHANNEL {
        planner.fields(&asked, root);
    } else {
        planner.roots(&asked, root);
    }
    (planner.out, planner.mistake)
}

/// Fields of one key: those that stand from `at` on, if `at` is the first of them.
fn same(document: &Document, asked: &[u32], at: usize) -> Vec<u32> {
    let mut same: Vec<u32> = Vec::new();
    let Some(first) = asked.get(at) else {
        return same;
    };
    for (nth, other) in asked.iter().enumerate() {
        if document.same_key(*first, *other) {
            if nth < at {
                return Vec::new();
            }
            same.push(*other);
        }
    }
    same
}

impl Planner<'_> {
    fn fail(&mut self, mistake: Option<Mistake>) {
        if self.mistake.is_none() {
            self.mistake = mistake;
        }
    }

    /// Fields that the sets of these nodes select.
    fn collect(&mut self, nodes: &[u32]) -> Vec<u32> {
        let mut asked = Vec::new();
        let mut visited = Vec::new();
        for node in nodes {
            self.collect_into(*node, &mut visited, &mut asked);
        }
        asked
    }

    fn collect_into(&mut self, of: u32, visited: &mut Vec<u32>, asked: &mut Vec<u32>) {
        let document = self.document;
        for (at, selection) in document.children(of) {
            if !selection.is_selection() || !self.is_included(at) || self.mistake.is_some() {
                continue;
            }
            match selection.kind {
                kind::FIELD => {
                    self.fields += 1;
                    if self.fields > MAX_FIELDS {
                        let message = "The result would have too many fields.";
                        self.fail(Some(Mistake::new(&[selection.at], message, &[])));
                    }
                    asked.push(at);
                }
                kind::SPREAD => {
                    let fragment = document.fragment(document.name(selection));
                    if !visited.contains(&fragment) {
                        visited.push(fragment);
                        self.collect_into(fragment, visited, asked);
                    }
                }
                _ => self.collect_into(at, visited, asked),
            }
        }
    }

    fn is_included(&mut self, at: u32) -> bool {
        !self.says(at, "skip", "{\"if\":true}") && !self.says(at, "include", "{\"if\":false}")
    }

    fn says(&mut self, at: u32, name: &str, what: &str) -> bool {
        let directive = self.document.find(at, kind::DIRECTIVE, name);
        if directive == 0 {
            return false;
        }
        let mut arguments = String::new();
        if let Some(known) = schema::directive(name) {
            let mistake = push_arguments(
                self.document,
                known.arguments,
                directive,
                self.given,
                &mut arguments,
            );
            self.fail(mistake);
        }
        arguments == what
    }

    /// `{ KEY FIELD PLACES ARGUMENTS` and the lines of what is in it, `= …` for a leaf, `! KEY FIELD
    /// PLACES MESSAGE` for what can't be answered. PLACES are `line:column`, with commas between.
    fn roots(&mut self, asked: &[u32], root: u8) {
        let document = self.document;
        for at in 0..asked.len() {
            let same = same(document, asked, at);
            let Some(first) = same.first() else {
                continue;
            };
            let name = document.name(document.node(*first));
            let Some(field) = schema::field(Some(root), name) else {
                continue;
            };
            let mut arguments = String::new();
            let wrong = push_arguments(
                document,
                field.arguments,
                *first,
                self.given,
                &mut arguments,
            );
            let mut places: Vec<u32> = Vec::new();
            for at in &same {
                places.push(document.node(*at).at);
            }
            let is_object = field.ty.is_object();
            let mut sign = if is_object { "{ " } else { "= " };
            if let Some(wrong) = &wrong {
                sign = "! ";
                places.clone_from(&wrong.places);
                arguments.clear();
                push_quoted(&wrong.message, &mut arguments);
            }
            self.head(sign, *first, field, root);
            let mut between = "";
            for place in places {
                let (line, column) = location(&document.text, place);
                self.out.push_str(between);
                push_number(line, &mut self.out);
                self.out.push(':');
                push_number(column, &mut self.out);
                between = ",";
            }
            self.out.push(' ');
            self.out.push_str(&arguments);
            self.out.push('\n');
            if is_object && wrong.is_none() {
                let asked = self.collect(&same);
                self.fields(&asked, field.ty.name);
                self.out.push_str("}\n");
            }
        }
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

    /// `{ KEY FIELD MASK` and `}` around an object, `= KEY FIELD MASK` for a leaf; with the arguments
    /// at the end where a field takes any. MASK has the parts of the PV that the field itself reads.
    fn fields(&mut self, asked: &[u32], object: u8) {
        let document = self.document;
        for at in 0..asked.len() {
            let same = same(document, asked, at);
            let Some(first) = same.first() else {
                continue;
            };
            let name = document.name(document.node(*first));
            let Some(field) = schema::field(Some(object), name) else {
                continue;
            };
            let is_object = field.ty.is_object();
            self.head(if is_object { "{ " } else { "= " }, *first, field, object);
            push_number(u32::from(field.mask), &mut self.out);
            if !field.arguments.is_empty() {
                self.out.push(' ');
                let given = self.given;
                let wrong = push_arguments(document, field.arguments, *first, given, &mut self.out);
                self.fail(wrong);
            }
            self.out.push('\n');
            if is_object {
                let asked = self.collect(&same);
                self.fields(&asked, field.ty.name);
                self.out.push_str("}\n");
            }
        }
    }
}
