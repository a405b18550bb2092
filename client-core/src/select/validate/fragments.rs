//! Rules about fragments: cycles, unused fragments, impossible spreads, and fields selected through
//! fragments.

use super::Validator;
use crate::select::error::{DocumentError, fill};
use crate::select::schema;
use crate::select::tree::{Node, Visited, kind};

/// Fields of a type that lead to other types, which have these fields too.
const LISTS: &[&str] = &["fields", "interfaces", "possibleTypes", "inputFields"];

/// Maximum nesting of these lists: the result grows by a factor with each level.
const MAX_LISTS: u32 = 3;

impl Validator<'_> {
    /// A subscription must select a single field, also counting those in fragments.
    pub(super) fn single_field(&mut self, at: u32, node: &Node) {
        let document = self.document;
        let mut fields = Vec::new();
        self.fields_of(at, &mut Visited::default(), &mut fields);
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
        // Fields with the same key are consecutive, in the order of the first field of each key.
        let mut extra: Vec<u32> = Vec::new();
        let mut hidden: Vec<DocumentError> = Vec::new();
        let mut done: Vec<u32> = Vec::new();
        for field in &fields {
            document.spend(fields.len());
            if document.is_spent() {
                return;
            }
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

    /// The fields that a set selects, including those in its fragments, but not those that are
    /// always skipped.
    fn fields_of(&self, of: u32, visited: &mut Visited, fields: &mut Vec<u32>) {
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
                    let fragment = document.fragment(node);
                    if visited.insert(document, fragment)
                        && document.str(document.node(fragment).key) == "Subscription"
                    {
                        self.fields_of(fragment, visited, fields);
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

    /// Fragments that a node spreads; those of inner sets come after its own.
    fn spreads(&self, of: u32) -> Vec<u32> {
        let all = self.document.spreads.as_slice();
        let from = all.partition_point(|(definition, _)| *definition < of);
        let rest = all.get(from..).unwrap_or_default();
        let end = rest.partition_point(|(definition, _)| *definition == of);
        let own = rest.get(..end).unwrap_or_default();
        let mut spreads = Vec::new();
        if own.len() < 2 {
            spreads.extend(own.iter().map(|(_, spread)| *spread));
            return spreads;
        }
        let mut open = vec![of];
        while let Some(of) = open.pop() {
            for (at, node) in self.document.children(of) {
                self.document.spend(1);
                match node.kind {
                    kind::SPREAD => spreads.push(at),
                    kind::FIELD | kind::INLINE => open.push(at),
                    _ => {}
                }
            }
        }
        spreads
    }

    /// The fragment that a spread refers to, 0 if it is not defined.
    fn spread_fragment(&self, spread: u32) -> u32 {
        self.document.fragment(self.document.node(spread))
    }

    /// Follows a fragment's spreads; each fragment is followed once per document, from the first
    /// one that leads to it. The path contains each fragment and the spread that leads on from it.
    pub(super) fn cycles(&mut self, fragment: u32, path: &mut Vec<u32>) {
        if self.is_over() || !self.followed.insert(self.document, fragment) {
            return;
        }
        let document = self.document;
        for spread in self.spreads(fragment) {
            let next = self.spread_fragment(spread);
            if next == 0 {
                continue;
            }
            path.push(fragment);
            path.push(spread);
            document.spend(path.len());
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
    pub(super) fn reached(&self, definition: u32) -> Vec<u32> {
        let mut reached = vec![definition];
        let mut visited = Visited::default();
        let mut at = 0;
        while let Some(definition) = reached.get(at).copied() {
            for spread in self.spreads(definition) {
                let fragment = self.spread_fragment(spread);

                if fragment != 0 && visited.insert(self.document, fragment) {
                    reached.push(fragment);
                }
            }
            at += 1;
        }
        reached
    }

    pub(super) fn unused_fragments(&mut self) {
        let document = self.document;
        for (_, node) in document.children(0) {
            let name = document.name(node);
            if self.is_over() {
                return;
            }
            // Two fragments with the same name are both used or both unused.
            if node.kind == kind::FRAGMENT && !self.used.contains(document.fragment(node)) {
                self.say(node.at, "Fragment \"%\" is never used.", &[name]);
            }
        }
    }

    /// A fragment can only be used in an object of the same type.
    pub(super) fn possible(&mut self, fragment: &str, on: Option<u8>, parent: Option<u8>, at: u32) {
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

    /// Whether too many lists of the schema are nested below a node that is itself inside `lists`
    /// of them.
    pub(super) fn is_deep(&mut self, of: u32, lists: u32) -> bool {
        let document = self.document;
        for (at, node) in document.children(of) {
            let name = document.name(node);
            self.budget = self.budget.saturating_sub(1);
            let (inner, lists) = match node.kind {
                kind::FIELD => (at, lists + u32::from(LISTS.contains(&name))),
                kind::INLINE => (at, lists),
                kind::SPREAD => {
                    let fragment = document.fragment(node);
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
}
