//! Directories: where names of PVs are known from before a client opens them.
//!
//! A [`Directory`] lists names and opens nothing; a `Source` opens PVs and need not know names.

use std::sync::Arc;

use pvwire_schema::limits::MAX_NAME_BYTES;

/// Between two names in the text of a list; no name contains it.
const SEPARATOR: char = '\n';

/// Where a name is known from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The relay has found the PV.
    Relay,
    /// A pvAccess server lists it.
    Server,
    /// A file of the operator lists it.
    File,
    /// ChannelFinder lists it.
    ChannelFinder,
    /// An archiver has its past.
    Archiver,
}

impl Origin {
    /// As answers name it.
    #[must_use]
    pub fn token(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Server => "server",
            Self::File => "file",
            Self::ChannelFinder => "channelfinder",
            Self::Archiver => "archiver",
        }
    }
}

/// A place where names of PVs are known from.
pub trait Directory: Send + Sync {
    /// Kind of the place.
    fn origin(&self) -> Origin;

    /// All names that it knows now, in any number of lists. Doesn't wait for the network or a file.
    fn lists(&self) -> Vec<Arc<NameList>>;
}

/// Names of one protocol, in alphabetical order without regard to case.
#[derive(Debug)]
pub struct NameList {
    scheme: String,
    /// The names, each followed by a separator.
    text: String,
    /// The same with ASCII letters in lower case, so that indices are equal.
    lower: String,
    /// Where each name begins, and the length of `text`.
    starts: Vec<u32>,
    /// What is known of the names, one after the other.
    abouts: String,
    /// Where what is known of each name ends; empty if nothing is known of any.
    about_ends: Vec<u32>,
}

/// Whether a name can be listed: a client could open it.
fn is_listed(name: &str) -> bool {
    let is_bad = |c: char| c.is_whitespace() || c.is_control();
    !name.is_empty() && name.len() <= MAX_NAME_BYTES && !name.contains(is_bad)
}

impl NameList {
    /// The names that clients could open, each once. Names beyond `u32::MAX` bytes in all are left out.
    #[must_use]
    pub fn new<N: AsRef<str>>(scheme: &str, names: impl IntoIterator<Item = N>) -> Self {
        Self::described(scheme, names.into_iter().map(|name| (name, "")))
    }

    /// The same, each name with what is known of it: an object of JSON, or nothing.
    #[must_use]
    pub fn described<N: AsRef<str>, A: AsRef<str>>(
        scheme: &str,
        names: impl IntoIterator<Item = (N, A)>,
    ) -> Self {
        let names = names.into_iter();
        let mut names: Vec<_> = names.filter(|(name, _)| is_listed(name.as_ref())).collect();
        names.sort_by_cached_key(|(name, _)| {
            let name = name.as_ref();
            (name.to_ascii_lowercase(), name.to_owned())
        });
        names.dedup_by(|(one, _), (other, _)| one.as_ref() == other.as_ref());
        let bytes = |(name, _): &(N, A)| name.as_ref().len() + 1;
        let mut list = Self {
            scheme: scheme.to_owned(),
            text: String::with_capacity(names.iter().map(bytes).sum()),
            lower: String::new(),
            starts: Vec::with_capacity(names.len() + 1),
            abouts: String::new(),
            about_ends: Vec::new(),
        };
        list.starts.push(0);
        for (name, about) in &names {
            let (name, about) = (name.as_ref(), about.as_ref());
            let end = u32::try_from(list.text.len() + name.len() + 1);
            let about_end = u32::try_from(list.abouts.len() + about.len());
            let (Ok(end), Ok(about_end)) = (end, about_end) else {
                break;
            };
            list.text.push_str(name);
            list.text.push(SEPARATOR);
            list.starts.push(end);
            list.abouts.push_str(about);
            list.about_ends.push(about_end);
        }
        if list.abouts.is_empty() {
            list.about_ends = Vec::new();
        }
        list.lower = list.text.to_ascii_lowercase();
        list
    }

    /// Protocol of the names, such as `ca`.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Whether it has no names.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let indices = self.starts.len() + self.about_ends.len();
        self.text.len() + self.lower.len() + self.abouts.len() + 4 * indices
    }

    /// What is known of a name, as an object of JSON; empty for nothing.
    #[must_use]
    pub fn about(&self, index: usize) -> &str {
        let end = |index: usize| self.about_ends.get(index).map_or(0, |end| *end as usize);
        let start = index.checked_sub(1).map_or(0, end);
        &self.abouts[start..end(index)]
    }

    /// The names, each followed by a line feed, with ASCII letters in lower case.
    #[must_use]
    pub fn lower_text(&self) -> &str {
        &self.lower
    }

    /// Index of the name that has this byte of the text.
    #[must_use]
    pub fn at(&self, byte: usize) -> usize {
        self.starts.partition_point(|start| *start as usize <= byte) - 1
    }

    /// Where this name begins in the text.
    #[must_use]
    pub fn begin(&self, index: usize) -> usize {
        self.starts[index] as usize
    }

    /// Where the name after this one begins in the text.
    #[must_use]
    pub fn end(&self, index: usize) -> usize {
        self.starts[index + 1] as usize
    }

    /// A name.
    #[must_use]
    pub fn name(&self, index: usize) -> &str {
        self.part(&self.text, index)
    }

    /// A name with ASCII letters in lower case.
    #[must_use]
    pub fn lower(&self, index: usize) -> &str {
        self.part(&self.lower, index)
    }

    /// All names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.name(index))
    }

    fn part<'a>(&self, text: &'a str, index: usize) -> &'a str {
        &text[self.starts[index] as usize..self.end(index) - SEPARATOR.len_utf8()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_keeps_what_is_known_of_it() {
        let list = NameList::described("ca", [("c", ""), ("B", "{2}"), ("a", "{1}"), ("D", "{4}")]);
        let abouts: Vec<_> = (0..list.len()).map(|index| list.about(index)).collect();
        assert_eq!(abouts, ["{1}", "{2}", "", "{4}"]);
        assert!(list.bytes() > NameList::new("ca", ["c", "B", "a", "D"]).bytes() + 9);
        assert_eq!(NameList::new("ca", ["a", "b"]).about(1), "");
    }

    #[test]
    fn list_has_each_name_once_in_order_and_none_that_no_client_could_open() {
        let long = "x".repeat(MAX_NAME_BYTES + 1);
        let names = ["b", "B", "a:2", "", "a b", "a\nc", "A:1", "b", &long, "µ"];
        let list = NameList::new("ca", names);
        assert_eq!(
            list.names().collect::<Vec<_>>(),
            ["A:1", "a:2", "B", "b", "µ"]
        );
        let lower: Vec<_> = (0..list.len()).map(|index| list.lower(index)).collect();
        assert_eq!(lower, ["a:1", "a:2", "b", "b", "µ"]);
        for (index, name) in list.names().enumerate() {
            let at = list.end(index) - 1;
            assert_eq!((list.at(at), list.at(at - name.len())), (index, index));
        }
        assert!(NameList::new("ca", [""; 0]).is_empty());
    }
}
