//! Does a document fit the schema? The rules of the GraphQL specification, told in the order and the
//! words of its reference implementation.

use crate::error::{DocumentError, fill};
use crate::overlap::Overlaps;
use crate::schema::{self, Field, Kind, Parameter, Ty, id};
use crate::suggest::{Names, did_you_mean};
use crate::tree::{Document, Node, kind};
use crate::values::problem;

/// `$name` where a value stands.
struct Usage {
    at: u32,
    /// What may stand there, if that is known.
    ty: Option<Ty>,
    has_default: bool,
    /// The definition that it stands in.
    within: u32,
}

/// Fields of a type that lead to other types, which have them too.
const LISTS: &[&str] = &["fields", "interfaces", "possibleTypes", "inputFields"];

/// How many of them may not stand in each other: what is shown grows by a factor with each.
const MAX_LISTS: u32 = 3;

/// Most nodes that are looked at for them: no document of a reader has so many.
const BUDGET: u32 = 1_000_000;

struct Validator<'a> {
    document: &'a Document,
    errors: Vec<DocumentError>,
    usages: Vec<Usage>,
    overlaps: Overlaps<'a>,
    within: u32,
    /// Fragments that the search for cycles has been in.
    followed: Vec<u32>,
    /// The usages are known.
    has_usages: bool,
    /// Fragments that operations use.
    used: Vec<u32>,
    /// Fragments that were looked through for lists of the schema, and in how many lists they stood.
    looked_through: Vec<(u32, u32)>,
    budget: u32,
}

/// Everything that is wrong with a document that follows the grammar.
pub(crate) fn validate(document: &Document) -> Vec<DocumentError> {
    let mut validator = Validator {
        document,
        errors: Vec::new(),
        usages: Vec::new(),
        overlaps: Overlaps::new(document),
        within: 0,
        followed: Vec::new(),
        has_usages: false,
        used: Vec::new(),
        looked_through: Vec::new(),
        budget: BUDGET,
    };
    validator.document();
    validator.errors
}

/// The type if it is an object's.
fn object(ty: u8) -> Option<u8> {
    (schema::named(ty).kind == Kind::Object).then_some(ty)
}

impl<'a> Validator<'a> {
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
        // What is said when an operation is left needs what stands in fragments after it: first the
        // variables are found, then that is said, with all the rest in order if there is any.
        let said = self.errors.len();
        let mut look = true;
        for in_order in [false, true] {
            for (at, node) in document.children(0) {
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

    /// Says that a definition has the name of one before it.
    fn unique_definition(&mut self, at: u32, template: &str) {
        let document = self.document;
        let node = document.node(at);
        for (other, before) in document.children(0) {
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

    /// Says that children of one kind have one name: all of them at once, or with `each` every one
    /// after the first for itself.
    fn unique(&mut self, parent: u32, kind: u8, each: bool, template: &str) {
        let document = self.document;
        if document.count(parent, kind) < 2 {
            return;
        }
        for (at, node) in document.children(parent) {
            if node.kind != kind {
                continue;
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
        let mut operations = 0;
        for (_, other) in document.children(0) {
            operations += u32::from(other.is_operation());
        }
        if node.name.is_empty() && operations > 1 {
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

    /// A subscription selects one field, whatever fragments it is in.
    fn single_field(&mut self, at: u32, node: &Node) {
        let document = self.document;
        let mut fields = Vec::new();
        self.fields_of(at, &mut Vec::new(), &mut fields);
        let Some(first) = fields.first().copied() else {
            return;
        };
        let is_hidden = |field: u32| document.name(document.node(field)).starts_with("__");
        if fields.len() == 1 && !is_hidden(first) {
            return;
        }
        let name = document.name(node);
        let who = if name.is_empty() {
            String::from("Anonymous Subscription")
        } else {
            fill("Subscription \"%\"", &[name])
        };
        // Fields of one key stand together, in the order of their first.
        let mut extra: Vec<u32> = Vec::new();
        let mut hidden: Vec<DocumentError> = Vec::new();
        let mut done: Vec<u32> = Vec::new();
        for field in &fields {
            if done.contains(field) {
                continue;
            }
            let mut places: Vec<u32> = Vec::new();
            for other in &fields {
                if document.same_key(*field, *other) {
                    done.push(*other);
                    places.push(document.node(*other).at);
                }
            }
            if is_hidden(*field) {
                let template = "% must not select an introspection top level field.";
                hidden.push(DocumentError::new(&places, template, &[&who]));
            }
            if !document.same_key(*field, first) {
                extra.append(&mut places);
            }
        }
        if !extra.is_empty() {
            let template = "% must select only one top level field.";
            self.errors
                .push(DocumentError::new(&extra, template, &[&who]));
        }
        self.errors.append(&mut hidden);
    }

    /// Fields that a set selects, through its fragments; those that are always left out are not.
    fn fields_of(&self, of: u32, visited: &mut Vec<u32>, fields: &mut Vec<u32>) {
        let document = self.document;
        for (at, node) in document.children(of) {
            let says = |directive: &str, value: &str| {
                let directive = document.find(at, kind::DIRECTIVE, directive);
                document.name(document.node(document.argument(directive, "if"))) == value
            };
            if !node.is_selection() || says("skip", "true") || says("include", "false") {
                continue;
            }
            let name = document.name(node);
            match node.kind {
                kind::FIELD => fields.push(at),
                kind::SPREAD => {
                    let fragment = document.fragment(name);
                    if !visited.contains(&fragment) {
                        visited.push(fragment);
                        if document.str(document.node(fragment).key) == "Subscription" {
                            self.fields_of(fragment, visited, fields);
                        }
                    }
                }
                _ => {
                    if name.is_empty() || name == "Subscription" {
                        self.fields_of(at, visited, fields);
                    }
                }
            }
        }
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
        // Behind the brackets of a list stands the name.
        self.known_type(node.ty, node.key.start, document.str(node.key));
        let default = document.node(node.child);
        if node.child != 0 && default.kind != kind::DIRECTIVE {
            self.value(node.child, input, false);
        }
        self.directives(at, "VARIABLE_DEFINITION");
    }

    fn known_type(&mut self, ty: u8, at: u32, name: &str) {
        if ty == id::UNKNOWN {
            let hint = did_you_mean("", name, &Names::Types(schema::TYPES));
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

    /// Fragments that a node spreads, those of inner sets after its own.
    fn spreads(&self, of: u32) -> Vec<u32> {
        let mut spreads = Vec::new();
        for (definition, spread) in &self.document.spreads {
            if *definition == of {
                spreads.push(*spread);
            }
        }
        if spreads.len() < 2 {
            return spreads;
        }
        spreads.clear();
        let mut open = vec![of];
        while let Some(of) = open.pop() {
            for (at, node) in self.document.children(of) {
                match node.kind {
                    kind::SPREAD => spreads.push(at),
                    kind::FIELD | kind::INLINE => open.push(at),
                    _ => {}
                }
            }
        }
        spreads
    }

    /// The fragment that a spread names, 0 when there is none.
    fn spread_fragment(&self, spread: u32) -> u32 {
        let document = self.document;
        document.fragment(document.name(document.node(spread)))
    }

    /// Follows a fragment's spreads; each fragment is followed once in a document, from the first
    /// that leads to it. The path holds a fragment and its spread that leads on in turn.
    fn cycles(&mut self, fragment: u32, path: &mut Vec<u32>) {
        if self.followed.contains(&fragment) {
            return;
        }
        self.followed.push(fragment);
        let document = self.document;
        for spread in self.spreads(fragment) {
            let next = self.spread_fragment(spread);
            if next == 0 {
                continue;
            }
            path.push(fragment);
            path.push(spread);
            let mut via = String::new();
            let mut places: Vec<u32> = Vec::new();
            for step in path.chunks_exact(2) {
                if places.is_empty() && step[0] != next {
                    continue;
                }
                let node = document.node(step[1]);
                places.push(node.at);
                if step[1] != spread {
                    via.push_str(if places.len() == 1 { " via " } else { ", " });
                    via.push_str(&fill("\"%\"", &[document.name(node)]));
                }
            }
            if places.is_empty() {
                self.cycles(next, path);
            } else {
                let name = document.name(document.node(spread));
                let template = "Cannot spread fragment \"%\" within itself%.";
                self.errors
                    .push(DocumentError::new(&places, template, &[name, &via]));
            }
            path.truncate(path.len() - 2);
        }
    }

    /// A definition and all fragments that it uses, directly or through others.
    fn reached(&self, definition: u32) -> Vec<u32> {
        let mut reached = vec![definition];
        let mut at = 0;
        while let Some(definition) = reached.get(at).copied() {
            for spread in self.spreads(definition) {
                let fragment = self.spread_fragment(spread);
                if fragment != 0 && !reached.contains(&fragment) {
                    reached.push(fragment);
                }
            }
            at += 1;
        }
        reached
    }

    fn unused_fragments(&mut self) {
        let document = self.document;
        for (_, node) in document.children(0) {
            let name = document.name(node);
            // Of two with one name both are used, or neither.
            if node.kind == kind::FRAGMENT && !self.used.contains(&document.fragment(name)) {
                self.say(node.at, "Fragment \"%\" is never used.", &[name]);
            }
        }
    }

    /// Says what is wrong with the use of an operation's variables.
    fn leave_operation(&mut self, operation: u32) {
        let document = self.document;
        let node = document.node(operation);
        let reached = self.reached(operation);
        let of = |with: &str| match document.name(node) {
            "" => String::new(),
            name => fill(" % operation \"%\"", &[with, name]),
        };
        let mut undefined = Vec::new();
        let mut misplaced = Vec::new();
        let mut used: Vec<u32> = Vec::new();
        for definition in &reached {
            for usage in &self.usages {
                if usage.within != *definition {
                    continue;
                }
                let name = document.name(document.node(usage.at));
                let place = document.node(usage.at).at;
                let at = document.find(operation, kind::VARIABLE, name);
                let variable = document.node(at);
                used.push(at);
                if at == 0 {
                    undefined.push(DocumentError::new(
                        &[place, node.at],
                        "Variable \"$%\" is not defined%.",
                        &[name, &of("by")],
                    ));
                } else if let (Some(ty), Some(expected)) = (document.ty(variable), usage.ty) {
                    let default = document.node(variable.child).kind;
                    let has_default =
                        !matches!(default, 0 | kind::DIRECTIVE | kind::NULL) || usage.has_default;
                    if !fits(ty, has_default, expected) {
                        misplaced.push(DocumentError::new(
                            &[variable.at, place],
                            "Variable \"$%\" of type \"%\" used in position expecting type \"%\".",
                            &[name, &ty.to_text(), &expected.to_text()],
                        ));
                    }
                }
            }
        }
        self.errors.append(&mut undefined);
        for (_, variable) in document.children(operation) {
            let name = document.name(variable);
            // Of two with one name both are used, or neither.
            let first = document.find(operation, kind::VARIABLE, name);
            if variable.kind == kind::VARIABLE && !used.contains(&first) {
                let words = [name, &of("in")];
                self.say(variable.at, "Variable \"$%\" is never used%.", &words);
            }
        }
        self.errors.append(&mut misplaced);
        self.used.extend(reached);
    }

    /// What is selected by a node.
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
            let name = document.name(node);
            match node.kind {
                kind::FIELD => self.field(at, node),
                kind::SPREAD => {
                    let fragment = document.fragment(name);
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

    /// A fragment can only stand in an object of its own type.
    fn possible(&mut self, fragment: &str, on: Option<u8>, parent: Option<u8>, at: u32) {
        if let (Some(on), Some(parent)) = (on, parent)
            && on != parent
        {
            let which = if fragment.is_empty() {
                String::new()
            } else {
                fill(" \"%\"", &[fragment])
            };
            let template = "Fragment% cannot be spread here as objects of type \"%\" can never be of type \"%\".";
            let words = [&which, schema::named(parent).name, schema::named(on).name];
            self.say(at, template, &words);
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
            let ty = schema::named(parent);
            let hint = did_you_mean("", name, &Names::Fields(ty.fields));
            let template = "Cannot query field \"%\" on type \"%\".%";
            self.say(node.at, template, &[name, ty.name, &hint]);
        }
        // Most fields have neither arguments nor directives: what is selected comes after those.
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

    /// Whether there are too many lists of the schema in each other below a node that is in so many.
    fn is_deep(&mut self, of: u32, lists: u32) -> bool {
        let document = self.document;
        for (at, node) in document.children(of) {
            let name = document.name(node);
            self.budget = self.budget.saturating_sub(1);
            let (inner, lists) = match node.kind {
                kind::FIELD => (at, lists + u32::from(LISTS.contains(&name))),
                kind::INLINE => (at, lists),
                kind::SPREAD => {
                    let fragment = document.fragment(name);
                    let mut before = self.looked_through.iter();
                    if before.any(|(same, within)| *same == fragment && *within >= lists) {
                        continue;
                    }
                    self.looked_through.push((fragment, lists));
                    (fragment, lists)
                }
                _ => continue,
            };
            if lists == MAX_LISTS || self.budget == 0 || (inner != 0 && self.is_deep(inner, lists))
            {
                return true;
            }
        }
        false
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

    fn required_arguments(&mut self, of: u32, parameters: &[Parameter], owner: [&str; 2]) {
        let document = self.document;
        for parameter in parameters {
            let required = parameter.ty.is_required() && parameter.default.is_empty();
            if required && document.argument(of, parameter.name) == 0 {
                let template =
                    "%%\" argument \"%\" of type \"%\" is required, but it was not provided.";
                let words = [owner[0], owner[1], parameter.name, &parameter.ty.to_text()];
                self.say(document.node(of).at, template, &words);
            }
        }
    }

    fn unique_arguments(&mut self, of: u32) {
        let template = "There can be only one argument named \"%\".";
        self.unique(of, kind::ARGUMENT, false, template);
    }

    fn unique_directives(&mut self, of: u32) {
        let template = "The directive \"@%\" can only be used once at this location.";
        self.unique(of, kind::DIRECTIVE, true, template);
    }

    fn directives(&mut self, of: u32, location: &str) {
        let document = self.document;
        for (at, node) in document.children(of) {
            if node.kind != kind::DIRECTIVE {
                continue;
            }
            let name = document.name(node);
            let known = schema::directive(name);
            let mut parameters: &[Parameter] = &[];
            if let Some(known) = known {
                parameters = known.arguments;
                if !known.locations.contains(&location) {
                    let template = "Directive \"@%\" may not be used on %.";
                    self.say(node.at, template, &[name, location]);
                }
                self.known_arguments(at, parameters, ("", name));
            } else {
                self.say(node.at, "Unknown directive \"@%\".", &[name]);
            }
            self.unique_arguments(at);
            self.arguments(at, parameters, None);
            self.required_arguments(at, parameters, ["Directive \"@", name]);
        }
    }

    fn known_arguments(&mut self, of: u32, parameters: &'static [Parameter], owner: (&str, &str)) {
        for (_, node) in self.document.children(of) {
            if node.kind == kind::ARGUMENT {
                self.known_argument(node, parameters, owner);
            }
        }
    }

    fn known_argument(
        &mut self,
        node: &Node,
        parameters: &'static [Parameter],
        owner: (&str, &str),
    ) {
        let name = self.document.name(node);
        if find(parameters, name).is_none() {
            let hint = did_you_mean("", name, &Names::Parameters(parameters));
            let template = if owner.0.is_empty() {
                "Unknown argument \"%\" on directive \"%@%\".%"
            } else {
                "Unknown argument \"%\" on field \"%.%\".%"
            };
            let words = [name, owner.0, owner.1, &hint];
            self.say(node.name.start, template, &words);
        }
    }

    /// Checks the values of arguments; their names too if there is an owner to name: the object and the
    /// field, or a directive.
    fn arguments(
        &mut self,
        of: u32,
        parameters: &'static [Parameter],
        owner: Option<(&str, &str)>,
    ) {
        let document = self.document;
        for (_, node) in document.children(of) {
            if node.kind != kind::ARGUMENT {
                continue;
            }
            if let Some(owner) = owner {
                self.known_argument(node, parameters, owner);
            }
            let parameter = find(parameters, document.name(node));
            let has_default = parameter.is_some_and(|parameter| !parameter.default.is_empty());
            self.value(
                node.child,
                parameter.map(|parameter| parameter.ty),
                has_default,
            );
        }
    }

    fn value(&mut self, at: u32, ty: Option<Ty>, has_default: bool) {
        let document = self.document;
        let node = document.node(at);
        let list = ty.map(Ty::nullable).filter(|ty| ty.is_list());
        match node.kind {
            kind::USE if self.has_usages => {}
            kind::USE => self.usages.push(Usage {
                at,
                ty,
                has_default,
                within: self.within,
            }),
            kind::NULL => {
                if let Some(ty) = ty
                    && ty.is_required()
                {
                    let template = "Expected value of type \"%\", found null.";
                    self.say(node.at, template, &[&ty.to_text()]);
                }
            }
            kind::LIST if list.is_some() => {
                for (item, _) in document.children(at) {
                    self.value(item, list.map(Ty::inner), false);
                }
            }
            _ => {
                let problem = ty.map_or_else(String::new, |ty| problem(document, at, ty, false));
                if !problem.is_empty() {
                    self.say(node.at, "%", &[&problem]);
                }
                // No type of the schema is an object to write: what is in one is looked through.
                self.unique(
                    at,
                    kind::ARGUMENT,
                    true,
                    "There can be only one input field named \"%\".",
                );
                for (item, inner) in document.children(at) {
                    let item = if inner.kind == kind::ARGUMENT {
                        inner.child
                    } else {
                        item
                    };
                    self.value(item, None, false);
                }
            }
        }
    }
}

fn find(parameters: &'static [Parameter], name: &str) -> Option<&'static Parameter> {
    parameters.iter().find(|parameter| parameter.name == name)
}

/// Whether a variable may stand where a type is expected.
fn fits(variable: Ty, has_default: bool, place: Ty) -> bool {
    if place.is_required() && !variable.is_required() {
        return has_default && is_subtype(variable, place.inner());
    }
    is_subtype(variable, place)
}

fn is_subtype(ty: Ty, of: Ty) -> bool {
    if ty.is_required() {
        return is_subtype(ty.inner(), of.nullable());
    }
    ty.wraps & 3 == of.wraps & 3
        && ty.name == of.name
        && (ty.wraps == 0 || is_subtype(ty.inner(), of.inner()))
}
