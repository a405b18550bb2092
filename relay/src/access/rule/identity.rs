//! The user that a client has logged in as.

use std::fmt;

/// Who asks, as far as the relay knows. Without a user: anybody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Name, as the relay's operator knows it.
    pub user: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(formatter, "user {user:?}"),
            None => formatter.write_str("somebody without a name"),
        }
    }
}
