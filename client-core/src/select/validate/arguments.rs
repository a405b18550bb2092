//! Rules about arguments, directives, variables and their values.

use super::{Usage, Validator};
use crate::select::error::{DocumentError, fill};
use crate::select::schema::{self, Parameter, Ty};
use crate::select::suggest::Names;
use crate::select::tree::{Node, kind};
use crate::select::values::problem;

impl Validator<'_> {
    /// Reports errors in the use of an operation's variables.
    pub(super) fn leave_operation(&mut self, operation: u32) {
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
        let variables = document.count(operation, kind::VARIABLE) as usize;
        for definition in &reached {
            document.spend(self.usages.len());
            for usage in &self.usages {
                if usage.within != *definition || document.is_spent() {
                    continue;
                }
                document.spend(variables);
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
            if variable.is_selection() || self.is_over() {
                break;
            }
            document.spend(variables + used.len());
            let name = document.name(variable);
            // Two variables with the same name are both used or both unused.
            let first = document.find(operation, kind::VARIABLE, name);
            if variable.kind == kind::VARIABLE && !used.contains(&first) {
                let words = [name, &of("in")];
                self.say(variable.at, "Variable \"$%\" is never used%.", &words);
            }
        }
        self.errors.append(&mut misplaced);
        for definition in reached {
            self.used.insert(document, definition);
        }
    }

    pub(super) fn required_arguments(
        &mut self,
        of: u32,
        parameters: &[Parameter],
        owner: [&str; 2],
    ) {
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

    pub(super) fn unique_arguments(&mut self, of: u32) {
        let template = "There can be only one argument named \"%\".";
        self.unique(of, kind::ARGUMENT, false, template);
    }

    pub(super) fn unique_directives(&mut self, of: u32) {
        let template = "The directive \"@%\" can only be used once at this location.";
        self.unique(of, kind::DIRECTIVE, true, template);
    }

    pub(super) fn directives(&mut self, of: u32, location: &str) {
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
            let hint = self
                .document
                .suggest("", name, &Names::Parameters(parameters));
            let template = if owner.0.is_empty() {
                "Unknown argument \"%\" on directive \"%@%\".%"
            } else {
                "Unknown argument \"%\" on field \"%.%\".%"
            };
            let words = [name, owner.0, owner.1, &hint];
            self.say(node.name.start, template, &words);
        }
    }

    /// Validates the values of arguments, and their names if there is an owner to report: the
    /// object and the field, or a directive.
    pub(super) fn arguments(
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

    pub(super) fn value(&mut self, at: u32, ty: Option<Ty>, has_default: bool) {
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
                // The schema has no input object types: only the contents of the object are
                // validated.
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

/// Whether a variable may be used where a type is expected.
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
