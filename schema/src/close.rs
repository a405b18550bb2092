//! Why the relay ends a connection, and whether connecting again helps.

/// WebSocket close codes that the relay uses. PROTOCOL.md and `close_code.ts` hold the same table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CloseCode {
    /// Either side is done.
    Normal = 1000,
    /// What came broke the rules of WebSocket: a fault of the client's library, or damage on the way.
    BadFrame = 1002,
    /// Text that is no UTF-8.
    BadText = 1007,
    /// The request was longer than the relay reads. The client must ask for less at a time.
    RequestTooLarge = 1009,
    /// A fault of the relay; its log says more.
    RelayFault = 1011,
    /// The relay is restarting: connect again within three seconds.
    ServiceRestart = 1012,
    /// The relay serves as many clients as it may.
    TryAgainLater = 1013,
    /// The client hasn't shown in time who it is, its token is not good or is not good any more.
    NotLoggedIn = 4401,
    /// The operator has changed who may read what, and the client held a PV that it may not read any
    /// more. It connects again and is told which.
    RightsChanged = 4403,
    /// A request that is no valid Request. A fault of the client's program.
    BadRequest = 4400,
    /// The client took nothing and acknowledged nothing for too long.
    NoProgress = 4408,
    /// The client asked faster than answers could be sent.
    TooManyRequests = 4429,
}

impl CloseCode {
    /// Every code, for tables and metrics.
    pub const ALL: [Self; 12] = [
        Self::Normal,
        Self::BadFrame,
        Self::BadText,
        Self::RequestTooLarge,
        Self::RelayFault,
        Self::ServiceRestart,
        Self::TryAgainLater,
        Self::BadRequest,
        Self::NotLoggedIn,
        Self::RightsChanged,
        Self::NoProgress,
        Self::TooManyRequests,
    ];

    /// The number on the wire.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// Whether a client that connects again can expect better.
    #[must_use]
    pub const fn reconnecting_helps(self) -> bool {
        !matches!(
            self,
            Self::Normal | Self::RequestTooLarge | Self::BadRequest
        )
    }

    /// The reason as the relay sends it.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Normal => "done",
            Self::BadFrame => "not WebSocket as RFC 6455 has it",
            Self::BadText => "text that is no UTF-8",
            Self::RequestTooLarge => "request too large: ask for fewer PVs at a time",
            Self::RelayFault => "relay fault: see the relay's log",
            Self::ServiceRestart => "relay is restarting",
            Self::TryAgainLater => "relay is full",
            Self::BadRequest => "not a valid request",
            Self::NotLoggedIn => "not logged in: the token is missing, refused or expired",
            Self::RightsChanged => "what this client may read has changed",
            Self::NoProgress => "client took no data for too long",
            Self::TooManyRequests => "too many requests at once",
        }
    }
}
