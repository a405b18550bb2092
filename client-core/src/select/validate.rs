//! Validates a document against the schema. Applies the rules of the GraphQL specification, in the
//! order and the words of its reference implementation.

mod arguments;
mod fragments;

use crate::select::error::{DocumentError, MAX_ERRORS};
use crate::select::overlap::Overlaps;
use crate::select::schema::{self, Field, Kind, Parameter, Ty, id};
use crate::select::suggest::Names;
use crate::select::tree::{Document, Node, Visited, kind};

/// `$name` used as a value.
struct Usage {
    at: u32,
    /// The type expected there, if it is known.
    ty: Option<Ty>,
    has_default: bool,
    /// The definition that contains it.
    within: u32,
}

/// Maximum number of nodes visited in the search for nested schema lists: applications' documents
/// have fewer.
const BUDGET: u32 = 1_000_000;

struct Validator<'a> {
    document: &'a Document,
    errors: Vec<DocumentError>,
    usages: Vec<Usage>,
    overlaps: Overlaps<'a>,
    within: u32,
    /// Fragments that the search for cycles has visited.
    followed: Visited,
    /// The usages were collected.
    has_usages: bool,
    /// Fragments that operations use.
    used: Visited,
    /// Fragments that were searched for nested schema lists, and the number of lists around them.
    looked_through: Vec<(u32, u32)>,
    budget: u32,
}

/// All errors of a document that follows the grammar.
pub(crate) fn validate(document: &Document) -> Vec<DocumentError> {
    let mut validator = Validator {
        document,
        errors: Vec::new(),
        usages: Vec::new(),
        overlaps: Overlaps::new(document),
        within: 0,
        followed: Visited::default(),
        has_usages: false,
        used: Visited::default(),
        looked_through: Vec::new(),
        budget: BUDGET,
    };
    document.begin_validation();
    validator.document();
    let mut errors = validator.errors;
    let aborted = if document.is_spent() {
        "Document is too complex. Validation aborted."
    } else if errors.len() > MAX_ERRORS {
        "Too many validation errors, error limit reached. Validation aborted."
    } else {
        return errors;
    };
    errors.truncate(MAX_ERRORS);
    errors.push(DocumentError::new(&[], aborted, &[]));
    errors
}

/// The type, if it is an object type.
fn object(ty: u8) -> Option<u8> {
    (schema::named(ty).kind == Kind::Object).then_some(ty)
}

impl Validator<'_> {
    /// Whether the document is refused already, and the rest of it need not be validated.
    fn is_over(&self) -> bool {
        self.errors.len() > MAX_ERRORS || self.document.is_spent()
    }

    fn say(&mut self, at: u32, template: &str, words: &[&str]) {
        self.errors.push(DocumentError::new(&[at], template, words));
    }

    fn document(&mut self) {
        let document = self.document;
        for (_, node) in document.children(0) {
            if node.kind == kind::TYPE_SYSTEM {
                let name = document.name(node);
                if name.is_empty() {
                    self.say(node.at, "The schema definition is not executable.", &[]);
                } else {
                    self.say(node.at, "The \"%\" definition is not executable.", &[name]);
                }
            }
        }
        // The errors reported at the end of an operation depend on fragments that follow it: the
        // first pass finds the variables, the second reports all errors in order, if there are any.
        let said = self.errors.len();
        let mut look = true;
        for in_order in [false, true] {
            for (at, node) in document.children(0) {
                if self.is_over() {
                    break;
                }
                self.within = at;
                if look && node.is_operation() {
                    self.operation(at, node);
                } else if look && node.kind == kind::FRAGMENT {
                    self.fragment(at, node);
                }
                if in_order && node.is_operation() {
                    self.leave_operation(at);
                }
            }
            if !in_order {
                if document.is_spent() {
                    return;
                }
                document.begin_validation();
                look = self.errors.len() > said;
                self.errors.truncate(said);
                self.followed.clear();
                if look {
                    self.overlaps = Overlaps::new(document);
                }
                self.has_usages = true;
            }
        }
        self.unused_fragments();
    }

    /// Reports a definition that has the name of an earlier one.
    fn unique_definition(&mut self, at: u32, template: &str) {
        let document = self.document;
        let node = document.node(at);
        for (other, before) in document.children(0) {
            document.spend(1);
            if other == at {
                return;
            }
            let same = before.is_operation() == node.is_operation()
                && !node.name.is_empty()
                && document.name(before) == document.name(node);
            if same {
                let places = [before.name.start, node.name.start];
                let error = DocumentError::new(&places, template, &[document.name(node)]);
                self.errors.push(error);
                return;
            }
        }
    }

    /// Reports children of one kind that share a name: all of them in one error, or with `each`
    /// every one after the first in a separate error.
    fn unique(&mut self, parent: u32, kind: u8, each: bool, template: &str) {
        let document = self.document;
        let count = document.count(parent, kind) as usize;
        if count < 2 {
            return;
        }
        for (at, node) in document.children(parent) {
            if node.kind != kind {
                continue;
            }
            document.spend(count);
            if self.is_over() {
                return;
            }
            let name = document.name(node);
            let is_first = document.find(parent, kind, name) == at;
            if is_first == each || (kind == kind::DIRECTIVE && schema::directive(name).is_none()) {
                continue;
            }
            let mut places: Vec<u32> = Vec::new();
            for (other, same) in document.children(parent) {
                let counts = !each || places.is_empty() || other == at;
                if counts && same.kind == kind && document.name(same) == name {
                    places.push(if kind == kind::DIRECTIVE {
                        same.at
                    } else {
                        same.name.start
                    });
                }
            }
            if places.len() > 1 {
                self.errors
                    .push(DocumentError::new(&places, template, &[name]));
            }
        }
    }

    fn operation(&mut self, at: u32, node: &Node) {
        let document = self.document;
        self.unique_definition(at, "There can be only one operation named \"%\".");
        // Counted for the anonymous ones alone, and no further than the second.
        let mut all = document
            .children(0)
            .filter(|(_, other)| other.is_operation());
        if node.name.is_empty() && all.nth(1).is_some() {
            let message = "This anonymous operation must be the only defined operation.";
            self.say(node.at, message, &[]);
        }
        let location = match node.kind {
            kind::MUTATION => "MUTATION",
            kind::SUBSCRIPTION => "SUBSCRIPTION",
            _ => "QUERY",
        };
        if node.kind == kind::SUBSCRIPTION {
            self.single_field(at, node);
        }
        let template = "There can be only one variable named \"$%\".";
        self.unique(at, kind::VARIABLE, false, template);
        self.unique_directives(at);
        for (at, variable) in document.children(at) {
            if variable.kind == kind::VARIABLE {
                self.variable(at, variable);
            }
        }
        self.directives(at, location);
        self.set(at, node);
    }

    fn variable(&mut self, at: u32, node: &Node) {
        let document = self.document;
        let ty = document.ty(node);
        let input = ty.filter(|ty| !ty.is_object());
        if let (Some(ty), None) = (ty, input) {
            let template = "Variable \"$%\" cannot be non-input type \"%\".";
            self.say(
                node.inner_at,
                template,
                &[document.name(node), &ty.to_text()],
            );
        }
        self.unique_directives(at);
        // The name follows the brackets of a list.
        self.known_type(node.ty, node.key.start, document.str(node.key));
        let default = document.node(node.child);
        if node.child != 0 && default.kind != kind::DIRECTIVE {
            self.value(node.child, input, false);
        }
        self.directives(at, "VARIABLE_DEFINITION");
    }

    fn known_type(&mut self, ty: u8, at: u32, name: &str) {
        if ty == id::UNKNOWN {
            let hint = self
                .document
                .suggest("", name, &Names::Types(self.document.schema.types()));
            self.say(at, "Unknown type \"%\".%", &[name, &hint]);
        }
    }

    fn fragment(&mut self, at: u32, node: &Node) {
        let document = self.document;
        let on = document.str(node.key);
        if object(node.ty).is_none() && node.ty != id::UNKNOWN {
            let template = "Fragment \"%\" cannot condition on non composite type \"%\".";
            self.say(node.key.start, template, &[document.name(node), on]);
        }
        self.unique_definition(at, "There can be only one fragment named \"%\".");
        self.cycles(at, &mut Vec::new());
        self.unique_directives(at);
        self.known_type(node.ty, node.key.start, on);
        self.directives(at, "FRAGMENT_DEFINITION");
        self.set(at, node);
    }

    /// Validates the selection set of a node.
    fn set(&mut self, of: u32, node: &Node) {
        let document = self.document;
        let mut parent = object(node.ty);
        if node.kind == kind::FIELD {
            parent = node.field.and_then(|field| object(field.ty.name));
        }
        if node.kind != kind::INLINE {
            self.overlaps.within(of, &mut self.errors);
        }
        for (at, node) in document.children(of) {
            if self.is_over() {
                return;
            }
            let name = document.name(node);
            match node.kind {
                kind::FIELD => self.field(at, node),
                kind::SPREAD => {
                    let fragment = document.fragment(node);
                    if fragment == 0 {
                        self.say(node.name.start, "Unknown fragment \"%\".", &[name]);
                    }
                    let on = object(document.node(fragment).ty);
                    self.possible(name, on, parent, node.at);
                    self.unique_directives(at);
                    self.directives(at, "FRAGMENT_SPREAD");
                }
                kind::INLINE => {
                    let on = object(node.ty);
                    if !name.is_empty() && on.is_none() && node.ty != id::UNKNOWN {
                        let template = "Fragment cannot condition on non composite type \"%\".";
                        self.say(node.name.start, template, &[name]);
                    }
                    self.possible("", on, parent, node.at);
                    self.unique_directives(at);
                    if !name.is_empty() {
                        self.known_type(node.ty, node.name.start, name);
                    }
                    self.directives(at, "INLINE_FRAGMENT");
                    self.set(at, node);
                }
                _ => {}
            }
        }
    }

    fn field(&mut self, at: u32, node: &Node) {
        let document = self.document;
        let name = document.name(node);
        let field = node.field;
        let parent = object(node.ty);
        if let Some(field) = field {
            self.leaf_or_object(node, name, field);
        } else if let Some(parent) = parent {
            let fields = document.schema.fields(parent);
            let hint = document.suggest("", name, &Names::Fields(fields));
            let template = "Cannot query field \"%\" on type \"%\".%";
            self.say(
                node.at,
                template,
                &[name, schema::named(parent).name, &hint],
            );
        }
        // Most fields have neither arguments nor directives; selections come after those.
        let is_bare = node.child == 0 || document.node(node.child).is_selection();
        if !is_bare {
            self.unique_directives(at);
            self.unique_arguments(at);
        }
        if matches!(name, "__schema" | "__type") && self.is_deep(at, 0) {
            self.looked_through.clear();
            self.say(node.at, "Maximum introspection depth exceeded", &[]);
        }
        let parameters: &[Parameter] = field.map_or(&[], |field| field.arguments);
        if !is_bare {
            let object = schema::named(parent.unwrap_or(id::INT)).name;
            self.arguments(at, parameters, field.map(|_| (object, name)));
            self.directives(at, "FIELD");
        }
        if node.inner_at != 0 {
            self.set(at, node);
        }
        self.required_arguments(at, parameters, ["Field \"", name]);
    }

    fn leaf_or_object(&mut self, node: &Node, name: &str, field: &Field) {
        let has_set = node.inner_at != 0;
        if has_set == field.ty.is_object() {
            return;
        }
        let ty = field.ty.to_text();
        if has_set {
            let template =
                "Field \"%\" must not have a selection since type \"%\" has no subfields.";
            self.say(node.inner_at, template, &[name, &ty]);
        } else {
            let template = "Field \"%\" of type \"%\" must have a selection of subfields. Did you mean \"% { ... }\"?";
            self.say(node.at, template, &[name, &ty, name]);
        }
    }
}
