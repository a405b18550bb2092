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

impl Identity {
    /// Whether a list of the operator names this user: by name, by `@` and a group, or by `*` for every user who has
    /// logged in. No list names anonymous clients.
    #[must_use]
    pub fn is_in(&self, list: &[String]) -> bool {
        let Some(user) = &self.user else {
            return false;
        };
        list.iter().any(|name| match name.strip_prefix('@') {
            Some(group) => self.groups.iter().any(|of| of == group),
            None => name == "*" || name == user,
        })
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.user {
            Some(user) => write!(formatter, "user {user:?}"),
            None => formatter.write_str("an anonymous client"),
        }
    }
}
