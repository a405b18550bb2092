//! Which input gives a formula its connection state.

/// The connection of an input's PV. `T` is a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Link<T> {
    /// Connected: formulas compute with its value.
    Connected {
        /// Its server has stopped answering: the value may be outdated.
        is_silent: bool,
        /// Start of the connection state, if it is known.
        since: Option<T>,
    },
    /// Not connected.
    Gone,
    /// Its name was refused, for this reason.
    Refused(String),
}

impl<T> Link<T> {
    /// Why a formula that follows the input `name` is refused; `None` if it is not.
    #[must_use]
    pub fn refusal(&self, name: &str) -> Option<String> {
        match self {
            Self::Refused(reason) => Some([name, ": ", reason].concat()),
            Self::Connected { .. } | Self::Gone => None,
        }
    }
}

/// Index of the input that gives its formula the connection state: the first one that is not
/// connected, otherwise one whose server doesn't answer, otherwise the one that was connected last.
/// Inputs without a state yet are `None`.
pub fn leader<'a, T: Ord + 'a>(
    inputs: impl IntoIterator<Item = Option<&'a Link<T>>>,
) -> Option<usize> {
    let mut leader = None;
    for (at, input) in inputs.into_iter().enumerate() {
        match input {
            None => {}
            Some(Link::Gone | Link::Refused(_)) => return Some(at),
            Some(Link::Connected { is_silent, since }) => {
                let rank = (is_silent, since);
                if leader.is_none_or(|(_, highest)| rank > highest) {
                    leader = Some((at, rank));
                }
            }
        }
    }
    leader.map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GONE: Link<u8> = Link::Gone;

    fn connected(is_silent: bool, since: u8) -> Link<u8> {
        let since = Some(since);
        Link::Connected { is_silent, since }
    }

    fn leader_of(inputs: &[Link<u8>]) -> Option<usize> {
        leader(inputs.iter().map(Some))
    }

    #[test]
    fn first_input_that_is_not_connected_leads() {
        let refused = Link::Refused("no such name".to_owned());
        assert_eq!(leader_of(&[connected(true, 9), GONE, refused]), Some(1));
        let named = Link::<u8>::Refused("no such name".to_owned()).refusal("A");
        assert_eq!(named.as_deref(), Some("A: no such name"));
        assert_eq!(GONE.refusal("A"), None);
    }

    #[test]
    fn silent_input_leads_before_the_one_connected_last() {
        let inputs = [connected(false, 9), connected(true, 3), connected(true, 5)];
        assert_eq!(leader_of(&inputs), Some(2));
        assert_eq!(leader_of(&inputs[..1]), Some(0));
        // The first of equal ones.
        assert_eq!(
            leader_of(&[connected(false, 4), connected(false, 4)]),
            Some(0)
        );
        assert_eq!(leader_of(&[]), None);
        assert_eq!(leader([None, Some(&connected(false, 4))]), Some(1));
    }
}
