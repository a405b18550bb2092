//! The subjects of a site: `pvwire.SITE.members`, `pvwire.SITE.MEMBER.ask.KIND.ASKER`,
//! `pvwire.SITE.MEMBER.answer.REQUEST` and `pvwire.SITE.MEMBER.shard.SHARD`.

use crate::bus::Kind;
use crate::member::{MemberId, Site};

/// Writes the subjects of one member's messages.
#[derive(Clone, Debug)]
pub struct Subjects {
    site: Site,
    me: MemberId,
}

impl Subjects {
    /// The subjects of a member of a site.
    pub fn new(site: Site, me: MemberId) -> Self {
        Self { site, me }
    }

    /// The subjects of another member of the site.
    #[must_use]
    pub fn of(&self, me: MemberId) -> Self {
        Self::new(self.site.clone(), me)
    }

    /// The member.
    pub fn me(&self) -> MemberId {
        self.me
    }

    /// Where all members announce themselves.
    pub fn members(&self) -> String {
        format!("pvwire.{}.members", self.site)
    }

    /// Where another member gets this member's requests.
    pub fn ask(&self, to: MemberId, kind: Kind) -> String {
        format!("pvwire.{}.{to}.ask.{}.{}", self.site, kind.token(), self.me)
    }

    /// Where this member gets requests.
    pub fn requests(&self) -> String {
        format!("pvwire.{}.{}.ask.*.*", self.site, self.me)
    }

    /// Where this member gets the answer to a request.
    pub fn answer(&self, request: u64) -> String {
        format!("pvwire.{}.{}.answer.{request}", self.site, self.me)
    }

    /// Where this member gets all answers.
    pub fn answers(&self) -> String {
        format!("pvwire.{}.{}.answer.*", self.site, self.me)
    }

    /// Where a member publishes a shard.
    pub fn shard(&self, owner: MemberId, shard: u16) -> String {
        format!("pvwire.{}.{owner}.shard.{shard}", self.site)
    }

    /// Where this member publishes a shard.
    pub fn own_shard(&self, shard: u16) -> String {
        self.shard(self.me, shard)
    }
}

/// The kind of a request and the member that asks, from the request's subject.
pub fn request(subject: &str) -> Option<(Kind, MemberId)> {
    let mut parts = subject.rsplit('.');
    let from = parts.next()?.parse().ok()?;
    let kind = parts.next()?;
    let kind = Kind::ALL.into_iter().find(|each| each.token() == kind)?;
    Some((kind, from))
}

/// The number of a request, from its answer's subject.
pub fn answered(subject: &str) -> Option<u64> {
    subject.rsplit('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_names_its_kind_and_its_sender() {
        let subjects = Subjects::new(Site::default(), MemberId(0xab));
        let subject = subjects.ask(MemberId(2), Kind::Operation);
        let expected = "pvwire.default.0000000000000002.ask.operation.00000000000000ab";
        assert_eq!(subject, expected);
        assert_eq!(request(&subject), Some((Kind::Operation, MemberId(0xab))));
        assert_eq!(answered(&subjects.answer(12)), Some(12));
    }

    #[test]
    fn foreign_subject_names_nothing() {
        for foreign in [
            "",
            ".",
            "a.b",
            "x.operation.12",
            "x.unknown.0000000000000002",
        ] {
            assert_eq!(request(foreign), None, "{foreign}");
        }
        assert_eq!(answered("a.b"), None);
    }
}
