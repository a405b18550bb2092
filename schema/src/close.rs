//! WebSocket close codes: why the relay ends a connection, and whether reconnecting helps.

/// WebSocket close codes of the relay. PROTOCOL.md and `close_code.ts` have the same table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum CloseCode {
    /// Normal end of the connection.
    Normal = 1000,
    /// Violation of the WebSocket protocol, by the client's library or by corruption in transit.
    BadFrame = 1002,
    /// Text that is not valid UTF-8.
    BadText = 1007,
    /// The request exceeds the maximum length. The client must send smaller requests.
    RequestTooLarge = 1009,
    /// Internal error of the relay; see its log.
    RelayFault = 1011,
    /// The relay is restarting: connect again within three seconds.
    ServiceRestart = 1012,
    /// The relay has reached its maximum number of clients.
    TryAgainLater = 1013,
    /// The token was not sent in time, is invalid, or has expired.
    NotLoggedIn = 4401,
    /// The rules have changed, and the client is subscribed to a PV that it may no longer read. When it
    /// reconnects and subscribes again, it is told which.
    RightsChanged = 4403,
    /// An operator ended the connection.
    EndedByOperator = 4410,
    /// A message that is not a valid request. A fault of the client program.
    BadRequest = 4400,
    /// The client has received or acknowledged nothing for too long.
    NoProgress = 4408,
    /// The client sent requests faster than replies could be delivered.
    TooManyRequests = 4429,
}

impl CloseCode {
    /// Every code, for tables and metrics.
    pub const ALL: [Self; 13] = [
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
        Self::EndedByOperator,
        Self::TooManyRequests,
    ];

    /// The numeric code.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The reason as the relay sends it.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Normal => "done",
            Self::BadFrame => "not a valid WebSocket frame (RFC 6455)",
            Self::BadText => "text that is not UTF-8",
            Self::RequestTooLarge => {
                "request too large: at most 1 MiB; ask for fewer PVs at a time, or write fewer elements"
            }
            Self::RelayFault => "relay fault: see the relay's log",
            Self::ServiceRestart => "relay is restarting",
            Self::TryAgainLater => "relay is full",
            Self::BadRequest => "not a valid request",
            Self::NotLoggedIn => "not logged in: the token is missing, refused or expired",
            Self::RightsChanged => "what this client may read has changed",
            Self::NoProgress => "client took no data for too long",
            Self::EndedByOperator => "an operator ended the connection",
            Self::TooManyRequests => "too many requests at once",
        }
    }
}
