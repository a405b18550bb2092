//! What clients may have of each PV under the name that they wrote, beyond the lives of its forms.
//!
//! When the rules change a client's right to write a PV, the client comes from one form to another and doesn't notice:
//! it still has every key of earlier values. A form without clients is gone at once, so what they have is kept for a
//! while longer.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use pvwire_pvws::Received;

use crate::ingest::Form;

/// Number of sweeps for which a spelling without a form is kept: about half a minute. A client with many PVs comes to
/// its new forms in several requests.
const KEPT_SWEEPS: u64 = 30;

/// Maximum memory of the spellings without a form, in bytes.
const MOST_LEFT_BYTES: usize = 32 << 20;

/// A form, compared by its spelling alone.
#[derive(Debug)]
struct Spelling(Arc<Form>);

impl Borrow<str> for Spelling {
    fn borrow(&self) -> &str {
        &self.0.spelling
    }
}

impl Hash for Spelling {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.spelling.hash(state);
    }
}

impl PartialEq for Spelling {
    fn eq(&self, other: &Self) -> bool {
        self.0.spelling == other.0.spelling
    }
}

impl Eq for Spelling {}

#[derive(Debug, Default)]
struct Kept {
    received: Received,
    /// Number of its forms.
    forms: usize,
    /// The sweep in which the last form was gone.
    left: u64,
}

/// All spellings.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    kept: HashMap<Spelling, Kept>,
    /// Spellings whose last form was gone in this sweep, in order. Another form may have come since.
    left: VecDeque<(u64, Arc<Form>)>,
    left_bytes: usize,
    sweeps: u64,
}

/// About the memory of a spelling without a form.
fn bytes(form: &Form) -> usize {
    size_of::<(Spelling, Kept, Form)>() + form.spelling.len()
}

/// No client writes a formula, so none comes from one of its forms to another.
fn is_formula(form: &Form) -> bool {
    ["=", "eq://"]
        .iter()
        .any(|prefix| form.spelling.starts_with(prefix))
}

impl Spellings {
    /// A form has come.
    pub(super) fn add(&mut self, form: &Arc<Form>) {
        let spelling = Spelling(Arc::clone(form));
        self.kept.entry(spelling).or_default().forms += 1;
    }

    /// What clients may have under the spelling of a form.
    pub(super) fn received(&self, form: &Form) -> Received {
        let kept = self.kept.get(&*form.spelling);
        kept.map_or_else(Received::default, |kept| kept.received)
    }

    /// Clients of a form have received this.
    pub(super) fn note(&mut self, form: &Form, received: Received) {
        if let Some(kept) = self.kept.get_mut(&*form.spelling) {
            kept.received.add(received);
        }
    }

    /// A form is gone.
    pub(super) fn remove(&mut self, form: Arc<Form>) {
        let Some(kept) = self.kept.get_mut(&*form.spelling) else {
            return;
        };
        kept.forms -= 1;
        if kept.forms > 0 {
            return;
        }
        if !kept.received.has_value() || is_formula(&form) {
            self.kept.remove(&*form.spelling);
            return;
        }
        kept.left = self.sweeps;
        self.left_bytes += bytes(&form);
        self.left.push_back((self.sweeps, form));
    }

    /// Forgets spellings that have had no form for a while; returns whether any are left.
    pub(super) fn sweep(&mut self) -> bool {
        self.sweeps += 1;
        let now = self.sweeps;
        while let Some((left, form)) = self.left.pop_front_if(|(left, _)| {
            now - *left > KEPT_SWEEPS || self.left_bytes > MOST_LEFT_BYTES
        }) {
            self.left_bytes -= bytes(&form);
            let kept = self.kept.get(&*form.spelling);
            if kept.is_some_and(|kept| kept.forms == 0 && kept.left == left) {
                self.kept.remove(&*form.spelling);
            }
        }
        if self.kept.capacity() / 4 > self.kept.len() {
            self.kept.shrink_to_fit();
        }
        if self.left.is_empty() {
            self.left = VecDeque::new();
        }
        !self.kept.is_empty()
    }
}
