//! The parsed document: one table of nodes that refer to each other by index.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::select::error::{DocumentError, push_quoted};
use crate::select::schema::{Field, Schema, Ty, id};
use crate::select::suggest::{Names, did_you_mean};

/// The kind of a node.
pub(crate) mod kind {
    /// Operations come first, see [`super::Node::is_operation`].
    pub(crate) const QUERY: u8 = 1;
    pub(crate) const MUTATION: u8 = 2;
    pub(crate) const SUBSCRIPTION: u8 = 3;
    /// A bare selection set, of one PV.
    pub(crate) const CHANNEL: u8 = 4;
    pub(crate) const FRAGMENT: u8 = 5;
    /// Part of a schema, which can't be executed.
    pub(crate) const TYPE_SYSTEM: u8 = 6;
    /// The definition of a variable.
    pub(crate) const VARIABLE: u8 = 7;
    pub(crate) const DIRECTIVE: u8 = 8;
    /// `name: value`, of a field, a directive or an object.
    pub(crate) const ARGUMENT: u8 = 9;
    /// The kinds that can occur in a selection set are consecutive, see
    /// [`super::Node::is_selection`].
    pub(crate) const FIELD: u8 = 10;
    pub(crate) const SPREAD: u8 = 11;
    pub(crate) const INLINE: u8 = 12;
    /// Values have the kinds of their first tokens and these.
    pub(crate) const NULL: u8 = 13;
    pub(crate) const BOOLEAN: u8 = 14;
    pub(crate) const ENUM: u8 = 15;
    /// `$name` used as a value.
    pub(crate) const USE: u8 = b'$';
    pub(crate) const LIST: u8 = b'[';
    pub(crate) const OBJECT: u8 = b'{';
    pub(crate) const INT: u8 = b'0';
    pub(crate) const FLOAT: u8 = b'1';
    pub(crate) const STRING: u8 = b'"';
    /// A string between triple quotation marks.
    pub(crate) const BLOCK: u8 = b'\'';
}

/// A run of a document's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) const fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// One part of a document. Its children are in the order of the text.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Node {
    pub(crate) kind: u8,
    /// For an operation the root type; for a field the type of its parent object; for a fragment
    /// its type condition; for a variable its type. [`id::UNKNOWN`] if the schema has no such type.
    pub(crate) ty: u8,
    /// Wrappers around the name of a variable's type, see [`Ty`].
    pub(crate) wraps: u16,
    pub(crate) at: u32,
    /// Start of its selection set, or of a variable's type.
    pub(crate) inner_at: u32,
    /// The name; for an inline fragment its type; for a value its text.
    pub(crate) name: Span,
    /// A field's alias or otherwise its name; the type of a fragment or variable.
    pub(crate) key: Span,
    /// Hash of a field's key, or of the name of a fragment or spread, so that few texts have to be compared.
    pub(crate) hash: u32,
    /// The definition of a field in the schema.
    pub(crate) field: Option<&'static Field>,
    pub(crate) child: u32,
    pub(crate) last: u32,
    pub(crate) next: u32,
}

impl Node {
    pub(crate) const fn is_operation(&self) -> bool {
        self.kind <= kind::CHANNEL
    }

    pub(crate) const fn is_selection(&self) -> bool {
        matches!(self.kind, kind::FIELD..=kind::INLINE)
    }

    pub(crate) const fn is_string(&self) -> bool {
        matches!(self.kind, kind::STRING | kind::BLOCK)
    }
}

/// Maximum number of steps that validation may take: comparisons of names, and visits of nodes that were visited before.
/// Beyond it a document is refused, because its validation would delay others: some rules compare each part with each
/// other one. A document with a thousand aliased PVs takes 20,000.
pub(crate) const MAX_STEPS: u32 = 2_000_000;

/// Maximum number of errors whose message suggests names. Each suggestion takes as long as many other rules together.
const MAX_SUGGESTIONS: u32 = 10;

/// A text and its nodes; the first node is the whole document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    pub(crate) text: String,
    pub(crate) nodes: Vec<Node>,
    /// Uses of fragments: the definition and the spread in it, in the order of the text.
    pub(crate) spreads: Vec<(u32, u32)>,
    /// Fragments by name, with open addressing: at least half of the slots are free, 0.
    pub(crate) fragments: Vec<u32>,
    /// Its errors.
    pub(crate) errors: Vec<DocumentError>,
    pub(crate) schema: Schema,
    /// Maximum number of fields of a result.
    pub(crate) max_fields: u32,
    /// Steps that validation has taken.
    pub(crate) steps: AtomicU32,
    /// Suggestions that were made.
    pub(crate) suggestions: AtomicU32,
}

/// A text without the quotation marks around it, if there are any.
pub(crate) fn unquoted(text: &str) -> &str {
    let inner = text.get(1..text.len().saturating_sub(1));
    inner.filter(|_| text.starts_with('"')).unwrap_or(text)
}

/// Which nodes were visited.
#[derive(Default)]
pub(crate) struct Visited {
    /// By node: the round in which it was visited last.
    rounds: Vec<u32>,
    round: u32,
}

impl Visited {
    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        self.round += 1;
    }

    /// Whether a node was visited.
    pub(crate) fn contains(&self, at: u32) -> bool {
        self.rounds.get(at as usize) == Some(&self.round)
    }

    /// Marks a node of a document. Returns whether it was not visited before.
    pub(crate) fn insert(&mut self, document: &Document, at: u32) -> bool {
        if self.rounds.is_empty() {
            self.rounds.resize(document.nodes.len(), 0);
            self.round += 1;
        }
        let round = self.round;
        (self.rounds.get_mut(at as usize))
            .is_some_and(|last| std::mem::replace(last, round) != round)
    }
}

/// Whether two of these hashes are equal. May also say so where they are not but collide often.
pub(crate) fn has_twins(hashes: impl ExactSizeIterator<Item = u32>) -> bool {
    // Open addressing: at least half of the slots are free, 0.
    let mut slots = vec![0; (hashes.len() * 2).next_power_of_two()];
    let mask = slots.len() - 1;
    let mut probes = hashes.len() * 16;
    for hash in hashes {
        let mut slot = hash as usize & mask;
        while let Some(other) = slots.get_mut(slot) {
            if *other == 0 {
                *other = hash;
                break;
            }
            if *other == hash || probes == 0 {
                return true;
            }
            probes -= 1;
            slot = (slot + 1) & mask;
        }
    }
    false
}

/// The children of a node, one after the other.
pub(crate) struct Children<'a> {
    document: &'a Document,
    next: u32,
}

impl<'a> Iterator for Children<'a> {
    type Item = (u32, &'a Node);

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.next == 0 {
            return None;
        }
        let at = self.next;
        let node = self.document.node(at);
        self.next = node.next;
        Some((at, node))
    }
}

static NOTHING: Node = Node {
    kind: 0,
    ty: id::UNKNOWN,
    wraps: 0,
    at: 0,
    inner_at: 0,
    name: Span { start: 0, end: 0 },
    key: Span { start: 0, end: 0 },
    hash: 0,
    field: None,
    child: 0,
    last: 0,
    next: 0,
};

impl Document {
    #[inline(always)]
    pub(crate) fn node(&self, at: u32) -> &Node {
        self.nodes.get(at as usize).unwrap_or(&NOTHING)
    }

    #[inline(always)]
    pub(crate) fn children(&self, of: u32) -> Children<'_> {
        Children {
            document: self,
            next: self.node(of).child,
        }
    }

    /// Makes a node the last child of another.
    pub(crate) fn adopt(&mut self, parent: u32, child: u32) {
        let last = self.node(parent).last;
        let before = if last == 0 { parent } else { last };
        if let Some(node) = self.nodes.get_mut(before as usize) {
            if last == 0 {
                node.child = child;
            } else {
                node.next = child;
            }
        }
        if let Some(node) = self.nodes.get_mut(parent as usize) {
            node.last = child;
        }
    }

    #[inline(always)]
    pub(crate) fn str(&self, span: Span) -> &str {
        let text = self.text.get(span.start as usize..span.end as usize);
        text.unwrap_or_default()
    }

    #[inline(never)]
    pub(crate) fn name(&self, node: &Node) -> &str {
        self.str(node.name)
    }

    /// The first child of this kind and name. Selections come last and are never searched.
    #[inline(never)]
    pub(crate) fn find(&self, parent: u32, kind: u8, name: &str) -> u32 {
        for (at, node) in self.children(parent) {
            if node.is_selection() {
                break;
            }
            if node.kind == kind && self.name(node) == name {
                return at;
            }
        }
        0
    }

    /// The number of children of this kind, among those before the selections.
    pub(crate) fn count(&self, parent: u32, kind: u8) -> u32 {
        let mut count = 0;
        for (_, node) in self.children(parent) {
            if node.is_selection() {
                break;
            }
            count += u32::from(node.kind == kind);
        }
        count
    }

    /// Makes the table of the fragments by name. Of equal names the first counts.
    pub(crate) fn list_fragments(&mut self) {
        let mut fragments = Vec::new();
        for (at, node) in self.children(0) {
            if node.kind == kind::FRAGMENT {
                fragments.push(at);
            }
        }
        if fragments.is_empty() {
            return;
        }
        self.fragments = vec![0; (fragments.len() * 2).next_power_of_two()];
        for at in fragments {
            let (slot, found) = self.fragment_slot(self.node(at));
            if let (Some(free), 0) = (self.fragments.get_mut(slot), found) {
                *free = at;
            }
        }
    }

    /// The fragment that has the name of a fragment or of a spread, 0 if it is not defined.
    pub(crate) fn fragment(&self, named: &Node) -> u32 {
        self.fragment_slot(named).1
    }

    /// The slot of a name in the table, and the fragment in it; 0 if the slot is free.
    fn fragment_slot(&self, named: &Node) -> (usize, u32) {
        let mask = self.fragments.len().wrapping_sub(1);
        let mut slot = named.hash as usize & mask;
        let mut steps = 1;
        while let Some(at) = self.fragments.get(slot).copied() {
            let node = self.node(at);
            let is_same = node.hash == named.hash && self.name(node) == self.name(named);
            if at == 0 || is_same {
                self.spend(steps);
                return (slot, at);
            }
            slot = (slot + 1) & mask;
            steps += 1;
        }
        (0, 0)
    }

    /// Counts steps of the validation.
    pub(crate) fn spend(&self, steps: usize) {
        let before = self.steps.load(Relaxed);
        self.steps
            .store(before.saturating_add(steps as u32), Relaxed);
    }

    /// Whether validation has taken all the steps that it may.
    pub(crate) fn is_spent(&self) -> bool {
        self.steps.load(Relaxed) > MAX_STEPS
    }

    /// Begins a validation.
    pub(crate) fn begin_validation(&self) {
        self.steps.store(0, Relaxed);
        self.suggestions.store(0, Relaxed);
    }

    /// ` Did you mean "…"?` for the first errors of a validation; otherwise, and if no name is similar, an empty string.
    pub(crate) fn suggest(&self, what: &str, word: &str, names: &Names) -> String {
        let before = self.suggestions.load(Relaxed);
        if before >= MAX_SUGGESTIONS {
            return String::new();
        }
        self.suggestions.store(before + 1, Relaxed);
        did_you_mean(what, word, names)
    }

    /// The value of a field's or directive's argument, 0 if it isn't given.
    pub(crate) fn argument(&self, of: u32, name: &str) -> u32 {
        match self.find(of, kind::ARGUMENT, name) {
            0 => 0,
            at => self.node(at).child,
        }
    }

    /// The type of a variable, if the schema has it.
    pub(crate) fn ty(&self, variable: &Node) -> Option<Ty> {
        let known = variable.ty != id::UNKNOWN;
        known.then_some(Ty {
            name: variable.ty,
            wraps: variable.wraps,
        })
    }

    pub(crate) fn same_key(&self, one: u32, other: u32) -> bool {
        let (one, other) = (self.node(one), self.node(other));
        one.hash == other.hash && self.str(one.key) == self.str(other.key)
    }

    /// The content of a string.
    pub(crate) fn string(&self, value: &Node) -> String {
        crate::select::string_value::decode(self.name(value), value.kind == kind::BLOCK)
    }

    /// A value as messages show it: in GraphQL's notation, or with `json` in JavaScript's.
    pub(crate) fn push_value(&self, at: u32, json: bool, to: &mut String) {
        let value = self.node(at);
        let list = value.kind == kind::LIST;
        if !list && value.kind != kind::OBJECT {
            if value.kind == kind::STRING && !json {
                push_quoted(&self.string(value), to);
            } else {
                if value.kind == kind::USE {
                    to.push('$');
                }
                to.push_str(self.name(value));
            }
            return;
        }
        let blank = if json && !list && value.child != 0 {
            " "
        } else {
            ""
        };
        to.push_str(if list { "[" } else { "{" });
        to.push_str(blank);
        let mut between = "";
        for (item, node) in self.children(at) {
            to.push_str(between);
            between = ", ";
            if list {
                self.push_value(item, json, to);
            } else {
                to.push_str(unquoted(self.name(node)));
                to.push_str(": ");
                self.push_value(node.child, json, to);
            }
        }
        to.push_str(blank);
        to.push_str(if list { "]" } else { "}" });
    }
}
