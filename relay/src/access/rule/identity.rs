//! The user that a client has logged in as.

use std::fmt;

/// A client's user and groups; without a user the client is anonymous.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Identity {
    /// User name.
    pub user: Option<String>,
    /// Groups that the user is in.
    pub groups: Vec<String>,
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(formatter, "user {user:?}"),
            None => formatter.write_str("an anonymous client"),
        }
    }
}
