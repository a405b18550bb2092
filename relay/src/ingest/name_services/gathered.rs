//! The names of one reading of a service, on their way into lists.

use std::sync::Arc;

use thiserror::Error;

use super::page::placed;
use crate::ingest::directory::NameList;

/// Names in a list. A longer list would take twice its memory while its names are put in order.
const LIST_NAMES: usize = 10_000;

/// Memory of all lists, in bytes.
const MAX_BYTES: usize = 128 << 20;

/// Memory of what is known of all names, in bytes; names beyond it are listed without.
const MAX_ABOUT_BYTES: usize = 64 << 20;

/// A service has more names than the relay holds.
#[derive(Debug, Error)]
#[error(
    "has more names than the {MAX_BYTES} bytes of the relay hold: the relay's operator limits them, for ChannelFinder by \
     a query in the option channelfinder, as ?pvStatus=Active&~name=SR:*, for an archiver by its pattern in the option \
     archiver"
)]
pub(super) struct TooManyNames;

/// All names so far.
#[derive(Debug)]
pub(super) struct Gathered {
    default_scheme: String,
    ca: Vec<(String, String)>,
    pva: Vec<(String, String)>,
    lists: Vec<Arc<NameList>>,
    bytes: usize,
    about_bytes: usize,
}

impl Gathered {
    pub(super) fn new(default_scheme: &str) -> Self {
        Self {
            default_scheme: default_scheme.to_owned(),
            ca: Vec::new(),
            pva: Vec::new(),
            lists: Vec::new(),
            bytes: 0,
            about_bytes: 0,
        }
    }

    /// A name, and what is known of it. Names of other protocols are left out.
    pub(super) fn add(&mut self, name: &str, mut about: String) -> Result<(), TooManyNames> {
        let Some((scheme, name)) = placed(name, &self.default_scheme) else {
            return Ok(());
        };
        if self.about_bytes + about.len() > MAX_ABOUT_BYTES {
            about = String::new();
        }
        self.about_bytes += about.len();
        // A list has a name twice, and two indices of it.
        self.bytes += 2 * (name.len() + 1) + about.len() + 8;
        if self.bytes > MAX_BYTES {
            return Err(TooManyNames);
        }
        let names = match scheme {
            "pva" => &mut self.pva,
            _ => &mut self.ca,
        };
        names.push((name.into_owned(), about));
        if names.len() == LIST_NAMES {
            self.make_lists();
        }
        Ok(())
    }

    /// Makes lists of the names that are in none yet.
    fn make_lists(&mut self) {
        for (scheme, names) in [("ca", &mut self.ca), ("pva", &mut self.pva)] {
            if !names.is_empty() {
                let list = NameList::described(scheme, std::mem::take(names));
                self.lists.push(Arc::new(list));
            }
        }
    }

    /// All names.
    pub(super) fn into_lists(mut self) -> Vec<Arc<NameList>> {
        self.make_lists();
        self.lists
    }
}
