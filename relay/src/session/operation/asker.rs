//! Who asks for an operation that another relay may carry out.

use super::{Action, Operation};
use crate::ingest::OnBehalf;

impl Operation {
    /// Adds who asks, for another relay that may carry it out.
    pub(super) fn name_asker(&mut self) {
        let by = || {
            Some(Box::new(OnBehalf {
                user: self.caller.identity.user.clone(),
                groups: self.caller.identity.groups.clone(),
                address: self.caller.peer.address.clone(),
                origin: self.caller.peer.origin.clone(),
            }))
        };
        match &mut self.action {
            Some(Action::Put(put)) => put.by = by(),
            Some(Action::Call(call)) => call.by = by(),
            None => {}
        }
    }
}
