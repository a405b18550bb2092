//! The keys `screens` and `screens_access`: folders of displays, and who may read them.

use std::fmt;

/// A folder whose files are served below `/screens/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenFolder {
    /// First part of its files' paths; empty for none.
    pub prefix: String,
    /// The folder.
    pub path: String,
}

impl ScreenFolder {
    /// Reads `[PREFIX=]DIR`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let named = text.split_once('=').filter(|(prefix, _)| is_prefix(prefix));
        let (prefix, path) = named.unwrap_or(("", text));
        (!path.is_empty()).then(|| Self {
            prefix: prefix.to_owned(),
            path: path.to_owned(),
        })
    }
}

impl fmt::Display for ScreenFolder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.prefix.as_str() {
            "" => formatter.write_str(&self.path),
            prefix => write!(formatter, "{prefix}={}", self.path),
        }
    }
}

/// A prefix is one part of a path, without characters that addresses encode.
fn is_prefix(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

/// The users and groups that may read the folder with a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenAccess {
    /// The folder's prefix; empty for the folder without one.
    pub prefix: String,
    /// Users, `@` and a group, or `*` for every user who has logged in.
    pub readers: Vec<String>,
}

impl ScreenAccess {
    /// Reads `PREFIX=READER,…`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (prefix, readers) = text.split_once('=')?;
        let readers: Vec<_> = readers
            .split(',')
            .map(|name| name.trim().to_owned())
            .collect();
        let are_named = readers
            .iter()
            .all(|name| !name.trim_start_matches('@').is_empty());
        ((prefix.is_empty() || is_prefix(prefix)) && are_named).then(|| Self {
            prefix: prefix.to_owned(),
            readers,
        })
    }
}

impl fmt::Display for ScreenAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}={}", self.prefix, self.readers.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_and_readers_show_as_they_are_written() {
        for (text, prefix) in [
            ("/epics/screens", ""),
            ("ops=/epics/ops", "ops"),
            ("ops=screens/a=b", "ops"),
            ("/with=sign", ""),
            ("./a b=c", ""),
        ] {
            let folder = ScreenFolder::read(text).unwrap();
            assert_eq!(
                (folder.prefix.as_str(), folder.to_string()),
                (prefix, text.to_owned())
            );
        }
        assert_eq!(ScreenFolder::read("ops="), None);
        for text in ["ops=alice,@operators", "=*", "a-b_1=@x"] {
            assert_eq!(ScreenAccess::read(text).unwrap().to_string(), text);
        }
        for text in ["ops", "ops=", "ops=a,,b", "o/ps=a", "ops=@"] {
            assert_eq!(ScreenAccess::read(text), None, "{text}");
        }
    }
}
