//! Replies of the relay and the reasons for which it refuses names, requests and puts.

use super::PvId;

/// Reply in a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// First message after the handshake.
    Hello(Hello),
    /// To Subscribe.
    Subscribed {
        /// One per name; `PvId::NONE` if it was refused.
        ids: Vec<PvId>,
        /// Refused names.
        errors: Vec<NameError>,
    },
    /// To Unsubscribe.
    Unsubscribed {
        /// No later frame contains these.
        ids: Vec<PvId>,
    },
    /// To Get.
    Got {
        /// One per name, valid in this frame only; `PvId::NONE` if there is an error.
        ids: Vec<PvId>,
        /// Names that were refused or had no value in time.
        errors: Vec<NameError>,
    },
    /// To Ping.
    Pong {
        /// Copied from the Ping.
        client_time_ns: i64,
        /// The relay's clock.
        relay_time_ns: i64,
    },
    /// To Put.
    PutDone {
        /// Outcome.
        outcome: Outcome,
        /// The reason if it was not done; empty otherwise.
        message: String,
    },
    /// To Rpc; the result is a separate part of the frame.
    RpcDone {
        /// Outcome.
        outcome: Outcome,
        /// The reason if it was not done; empty otherwise.
        message: String,
    },
    /// To Ask; the content is a separate part of the frame.
    Page(Page),
    /// The list of relays in the Hello has changed; answers no request.
    Relays {
        /// As `Hello::relays`; not empty.
        relays: Vec<String>,
    },
    /// The request failed as a whole.
    Error {
        /// Why.
        problem: RequestProblem,
        /// A sentence for the user.
        message: String,
    },
}

/// Part of the answer to an Ask, without its content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Done, or why the answer ends here.
    pub outcome: Outcome,
    /// The reason if it is not Done; empty otherwise.
    pub message: String,
    /// Number within the answer, from 0.
    pub page: u32,
    /// No further page follows.
    pub last: bool,
}

/// First message of the relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Version of the relay's software.
    pub relay_version: String,
    /// Random number of the relay process.
    pub relay_instance: u64,
    /// Maximum length of a request.
    pub max_request_bytes: u32,
    /// Maximum number of subscriptions of one client.
    pub max_subscriptions: u32,
    /// Interval of acknowledgements.
    pub ack_interval_ms: u32,
    /// Search time after which a PV is reported as not found.
    pub not_found_after_ms: u32,
    /// The client must authenticate before any other request.
    pub authenticate: bool,
    /// User name; empty for an anonymous client.
    pub user: String,
    /// Time until the relay closes the connection; 0 for no limit.
    pub expires_in_ms: u64,
    /// WebSocket addresses of the relays that serve the same PVs.
    pub relays: Vec<String>,
    /// The other relays have fewer clients.
    pub crowded: bool,
}

wire_enum! {
    /// Why the relay refused a name.
    NameProblem {
        /// Added by a later version.
        #[default]
        Unknown = 0,
        /// Empty, too long, or with characters that are not allowed in a PV name.
        BadName = 1,
        /// The relay has no source with the scheme before `://`.
        NoSuchSource = 2,
        /// The client has reached its maximum number of subscriptions.
        TooManySubscriptions = 3,
        /// No value arrived within the request's timeout.
        TimedOut = 4,
        /// The PV has its maximum number of different filters.
        TooManyFilters = 5,
        /// The relay's rules deny this client read access.
        NotAllowed = 6,
        /// The client or the relay has reached its maximum number of PVs, or new ones were requested too
        /// fast.
        TooManyPvs = 7,
        /// The server's structure has no such field.
        NoSuchField = 8,
    }
}

/// A name that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameError {
    /// Index into the request's names.
    pub index: u32,
    /// Why.
    pub problem: NameProblem,
    /// A sentence for the user.
    pub message: String,
}

wire_enum! {
    /// Why a request failed as a whole.
    RequestProblem {
        /// Added by a later version.
        #[default]
        Unknown = 0,
        /// Well formed, but not permitted or invalid.
        Refused = 1,
        /// The relay does not know this kind of request.
        NotSupported = 2,
    }
}

wire_enum! {
    /// Result of a put, an RPC or a page of an answer.
    Outcome {
        /// It is not known whether it was done, or the outcome was added by a later version.
        #[default]
        Unknown = 0,
        /// The server accepted it.
        Done = 1,
        /// Not written: the relay's rules do not permit it.
        NotAllowed = 2,
        /// Not written: the server grants no write access.
        NoAccess = 3,
        /// Not written: the value does not fit the PV.
        BadValue = 4,
        /// Not written: the PV is not connected.
        NotConnected = 5,
        /// Not written: the PV has changed since the expected update.
        Changed = 6,
        /// The server received the value but refused or failed to write it.
        Failed = 7,
        /// No reply within the timeout: may or may not have been done.
        TimedOut = 8,
        /// The connection was lost before the reply: may or may not have been done.
        Interrupted = 9,
        /// Not written: the name is not a valid PV name.
        BadName = 10,
        /// The PV's source does not support this operation.
        NotSupported = 11,
        /// Not written: another put of the same request was refused.
        Withheld = 12,
    }
}

impl Outcome {
    /// The code that clients, pages and scripts have for it.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::Unknown => "UNKNOWN",
            Self::Done => "DONE",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::NoAccess => "NO_ACCESS",
            Self::BadValue => "BAD_VALUE",
            Self::NotConnected => "NOT_CONNECTED",
            Self::Changed => "MOVED",
            Self::Failed => "FAILED",
            Self::TimedOut => "TIMED_OUT",
            Self::Interrupted => "INTERRUPTED",
            Self::BadName => "BAD_NAME",
            Self::NotSupported => "NOT_SUPPORTED",
            Self::Withheld => "WITHHELD",
        }
    }

    /// Whether it may have been done although it failed.
    #[must_use]
    pub const fn may_be_done(self) -> bool {
        matches!(self, Self::Unknown | Self::TimedOut | Self::Interrupted)
    }
}
