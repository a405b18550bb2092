//! A member of the fleet: its id, its role, and what it announces.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// A relay process in the fleet: a random number, made when the process starts. A restarted relay is another
/// member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct MemberId(pub u64);

impl MemberId {
    /// A new id.
    ///
    /// # Errors
    ///
    /// The operating system has no random numbers.
    pub fn random() -> Result<Self, getrandom::Error> {
        getrandom::u64().map(Self)
    }
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl From<MemberId> for String {
    fn from(id: MemberId) -> Self {
        id.to_string()
    }
}

/// A text that is not a member's id.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a member's id: 16 hexadecimal digits in lower case")]
pub struct MemberIdError;

impl FromStr for MemberId {
    type Err = MemberIdError;

    fn from_str(text: &str) -> Result<Self, MemberIdError> {
        let digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 16 || !text.bytes().all(digit) {
            return Err(MemberIdError);
        }
        let number = u64::from_str_radix(text, 16).map_err(|_| MemberIdError)?;
        Ok(Self(number))
    }
}

impl TryFrom<String> for MemberId {
    type Error = MemberIdError;

    fn try_from(text: String) -> Result<Self, MemberIdError> {
        text.parse()
    }
}

/// What a member does in the fleet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It holds monitors and serves clients.
    #[default]
    Both,
    /// It holds monitors.
    Ingest,
    /// It serves clients.
    Edge,
}

impl Role {
    /// All roles.
    pub const ALL: [Self; 3] = [Self::Both, Self::Ingest, Self::Edge];

    /// Whether PVs may belong to a member of this role.
    pub fn ingests(self) -> bool {
        self != Self::Edge
    }

    /// The role as settings and metrics write it.
    pub fn token(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Ingest => "ingest",
            Self::Edge => "edge",
        }
    }
}

/// What a member announces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Presence {
    /// The oldest version of the messages between members that the member understands, [`VERSION`].
    pub version: u32,
    /// The newest such version, [`NEWEST`]; absent in announcements of members that understand `version` alone.
    #[serde(default)]
    pub newest: Option<u32>,
    /// The member.
    pub id: MemberId,
    /// The name of the process's place, such as `host:port`: the same after a restart.
    pub name: String,
    /// What the member does.
    pub role: Role,
    /// Where clients reach this relay; none when no client should.
    #[serde(default)]
    pub url: Option<String>,
    /// Grows whenever the set of members that own PVs changes, as the member sees it.
    pub term: u64,
    /// The member has listened long enough: PVs may belong to it.
    pub ready: bool,
    /// The member is about to go: no PV belongs to it any more.
    pub draining: bool,
    /// PVs that the member owns and serves.
    pub load: u64,
    /// Clients of the member.
    #[serde(default)]
    pub clients: u64,
    /// Milliseconds since the member started, by its own clock, when it announced this.
    pub uptime_millis: u64,
    /// How often members died lately, by name, as this member saw it. Entries without a recent death are left out.
    #[serde(default)]
    pub deaths: BTreeMap<String, u32>,
    /// The version of the member's program, such as `0.2.0`, for people; empty in announcements of members that don't say
    /// it.
    #[serde(default)]
    pub program: String,
}

/// The oldest version of the messages between members that this program understands. A member is heard if there is a
/// version that both understand.
pub const VERSION: u32 = 1;

/// The newest version that this program understands.
pub const NEWEST: u32 = 2;

/// The largest announcement that is read.
const MAX_BYTES: usize = 16 * 1024;

/// The longest name, URL or version of a member.
const MAX_TEXT: usize = 1024;

/// Why an announcement is not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PresenceError {
    /// It is longer than any announcement.
    #[error("an announcement of {bytes} bytes, expected at most {MAX_BYTES}")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// It is not the JSON of an announcement.
    #[error("not an announcement: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The member understands only versions that are too new for this one.
    #[error(
        "an announcement of version {version}, but this relay understands at most {NEWEST}: upgrade this relay"
    )]
    TooNew {
        /// The oldest version that it understands.
        version: u32,
    },
    /// The member understands only versions that are too old for this one.
    #[error(
        "an announcement of version {newest}, but this relay understands at least {VERSION}: upgrade the other relay"
    )]
    TooOld {
        /// The newest version that it understands.
        newest: u32,
    },
    /// A name or URL is too long.
    #[error("an announcement with a text of {bytes} bytes, expected at most {MAX_TEXT}")]
    LongText {
        /// Its length.
        bytes: usize,
    },
}

impl Presence {
    /// Whether the member understands this version.
    pub fn understands(&self, version: u32) -> bool {
        (self.version..=self.newest.unwrap_or(self.version)).contains(&version)
    }

    /// The announcement as it is sent.
    pub fn to_bytes(&self) -> Bytes {
        let json = serde_json::to_vec(self);
        Bytes::from(json.expect("an announcement has only texts as keys"))
    }

    /// Reads what another process sent.
    ///
    /// # Errors
    ///
    /// [`PresenceError`]: it is not an announcement, or of a member that shares no version with this one.
    pub fn parse(bytes: &[u8]) -> Result<Self, PresenceError> {
        if bytes.len() > MAX_BYTES {
            return Err(PresenceError::TooLong { bytes: bytes.len() });
        }
        /// The versions alone, which are read first: other versions may have other fields.
        #[derive(Deserialize)]
        struct Versions {
            version: u32,
            #[serde(default)]
            newest: Option<u32>,
        }
        let Versions { version, newest } = serde_json::from_slice(bytes)?;
        let newest = newest.unwrap_or(version);
        if version > NEWEST {
            return Err(PresenceError::TooNew { version });
        }
        if newest < VERSION {
            return Err(PresenceError::TooOld { newest });
        }
        let presence: Self = serde_json::from_slice(bytes)?;
        let texts = [
            Some(&presence.name),
            presence.url.as_ref(),
            Some(&presence.program),
        ];
        let longest = texts.into_iter().flatten().map(String::len).max();
        match longest {
            Some(bytes) if bytes > MAX_TEXT => Err(PresenceError::LongText { bytes }),
            _ => Ok(presence),
        }
    }
}

/// The name of a site: members of one site make one fleet. It is a part of each subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Site(String);

/// A text that can't be a site's name.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected a name of 1 to 64 letters, digits, '-' and '_'")]
pub struct SiteError;

impl FromStr for Site {
    type Err = SiteError;

    fn from_str(text: &str) -> Result<Self, SiteError> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if text.is_empty() || text.len() > 64 || !text.bytes().all(fits) {
            return Err(SiteError);
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Default for Site {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presence() -> Presence {
        Presence {
            version: VERSION,
            newest: Some(NEWEST),
            id: MemberId(0xfe),
            name: "host:8080".to_owned(),
            role: Role::Ingest,
            url: Some("https://relay.example/ws".to_owned()),
            term: 7,
            ready: true,
            draining: false,
            load: 1000,
            clients: 20,
            uptime_millis: 12,
            deaths: BTreeMap::from([("other:8080".to_owned(), 2)]),
            program: "0.2.0".to_owned(),
        }
    }

    #[test]
    fn announcement_is_read_as_it_was_written() {
        let bytes = presence().to_bytes();
        assert_eq!(Presence::parse(&bytes).unwrap(), presence());
    }

    #[test]
    fn id_is_sixteen_digits_and_survives_json() {
        let id = MemberId(u64::MAX - 1);
        assert_eq!(id.to_string(), "fffffffffffffffe");
        assert_eq!(id.to_string().parse(), Ok(id));
        for wrong in ["", "fe", "00000000000000FE", "+0000000000000fe"] {
            assert_eq!(wrong.parse::<MemberId>(), Err(MemberIdError), "{wrong}");
        }
    }

    #[test]
    fn versions_without_a_common_one_are_named_whatever_else_the_announcement_has() {
        let error = |announcement: &str| {
            let error = Presence::parse(announcement.as_bytes()).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            error(r#"{"version":3,"newest":4,"id":5}"#),
            "an announcement of version 3, but this relay understands at most 2: upgrade this relay"
        );
        assert_eq!(
            error(r#"{"version":0,"id":5}"#),
            "an announcement of version 0, but this relay understands at least 1: upgrade the other relay"
        );
    }

    #[test]
    fn member_with_a_common_version_is_heard_whatever_its_announcement_has_more() {
        let announcement = |newest: Option<u32>| {
            let mut announcement = serde_json::to_value(presence()).unwrap();
            announcement["newest"] = newest.into();
            announcement["later"] = serde_json::json!({ "a": [1, null] });
            let heard = Presence::parse(announcement.to_string().as_bytes());
            assert_eq!(
                heard.unwrap(),
                Presence {
                    newest,
                    ..presence()
                }
            );
        };
        for newest in [None, Some(1), Some(7)] {
            announcement(newest);
        }
    }

    #[test]
    fn damaged_or_oversized_announcement_is_refused() {
        let bytes = presence().to_bytes();
        for length in 0..bytes.len() {
            assert!(Presence::parse(&bytes[..length]).is_err(), "{length}");
        }
        let long = Presence {
            name: "n".repeat(MAX_TEXT + 1),
            ..presence()
        };
        let error = Presence::parse(&long.to_bytes()).unwrap_err();
        assert!(matches!(error, PresenceError::LongText { bytes: 1025 }));
        let error = Presence::parse(&[b' '; MAX_BYTES + 1]).unwrap_err();
        assert!(matches!(error, PresenceError::TooLong { .. }));
    }

    #[test]
    fn site_is_one_token_of_a_subject() {
        assert_eq!("SR-1_a".parse::<Site>().unwrap().to_string(), "SR-1_a");
        for wrong in ["", "a.b", "*", "a b", ">"] {
            assert_eq!(wrong.parse::<Site>(), Err(SiteError), "{wrong}");
        }
    }
}
