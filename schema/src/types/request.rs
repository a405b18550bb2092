//! Requests of a client.

use super::{PutValue, PvId};

/// One message of a client.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// Returned as `reply_to`.
    pub id: u32,
    /// Content.
    pub body: RequestBody,
}

/// Content of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestBody {
    /// Subscribes to PVs.
    Subscribe {
        /// With or without a source.
        names: Vec<String>,
        /// Filter for all of them.
        filter: Filter,
    },
    /// Ends subscriptions.
    Unsubscribe {
        /// From a Subscribed.
        ids: Vec<PvId>,
    },
    /// Reads the current state once.
    Get {
        /// With or without a source.
        names: Vec<String>,
        /// Timeout for the first value; 0 for the relay's default.
        timeout_ms: u32,
        /// Include descriptions that a source provides on request only.
        description: bool,
    },
    /// Acknowledges all frames up to this tick.
    Ack {
        /// The last frame's tick.
        tick: u64,
    },
    /// Measures the round trip to the relay.
    Ping {
        /// Returned unchanged.
        client_time_ns: i64,
    },
    /// Writes one PV.
    Put(PutRequest),
    /// Writes several PVs, in this order. Their replies have this request's id and the ids after it.
    PutMany {
        /// The puts.
        puts: Vec<PutRequest>,
        /// Send no put unless the relay permits all of them.
        all_permitted: bool,
    },
    /// Writes PVs like `PutMany`; a value outside the control limits of its PV is refused.
    PutWithin {
        /// The puts.
        puts: Vec<PutRequest>,
        /// Send no put unless the relay permits all of them.
        all_permitted: bool,
    },
    /// Calls a service.
    Rpc {
        /// With or without a source.
        name: String,
        /// By name.
        arguments: Vec<(String, PutValue)>,
        /// Timeout for the reply; 0 for the relay's default.
        timeout_ms: u32,
    },
    /// Authenticates the client.
    Authenticate {
        /// A JSON Web Token.
        token: String,
    },
    /// Requests descriptions of PVs from sources that provide them on request only.
    Describe {
        /// From a Subscribed.
        ids: Vec<PvId>,
    },
    /// Asks a service of the relay.
    Ask {
        /// Name of the service.
        service: String,
        /// The question, in the service's form.
        body: Vec<u8>,
    },
    /// Ends an Ask before its last page.
    Cancel {
        /// Id of the Ask.
        request: u32,
    },
    /// Requests updates at intervals.
    Pace {
        /// Minimum interval; 0: every update again.
        interval_ms: u32,
    },
}

/// Filter of a subscription; see `request.fbs`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Filter {
    /// Minimum interval between updates, in milliseconds; 0: no limit.
    pub min_interval_ms: u32,
    /// Minimum change of a number; 0: no deadband.
    pub deadband: f64,
    /// Decimation: one of this many updates; 0 or 1: all.
    pub every: u32,
    /// Numeric arrays: every `stride`-th element; 0 or 1: all.
    pub stride: u32,
    /// Numeric arrays: maximum number of elements; 0: no limit.
    pub max_length: u32,
    /// Numeric arrays: min/max decimation to at most `points` elements; 0: off.
    pub points: u32,
    /// Numeric arrays: doubles rounded to 32 bits.
    pub float32: bool,
    /// Numbers: the mean of the values since the last update that passed.
    pub average: bool,
}

impl Filter {
    /// Every update, with all elements.
    pub const ALL: Self = Self {
        min_interval_ms: 0,
        deadband: 0.0,
        every: 0,
        stride: 0,
        max_length: 0,
        points: 0,
        float32: false,
        average: false,
    };
}

/// One PV to write.
#[derive(Clone, Debug, PartialEq)]
pub struct PutRequest {
    /// With or without a source.
    pub name: String,
    /// What to write.
    pub value: PutValue,
    /// Put-completion: reply when the record has finished processing.
    pub wait: bool,
    /// Timeout for the reply; 0 for the relay's default.
    pub timeout_ms: u32,
    /// Write only if the PV has not changed since this update.
    pub expected: Option<Expected>,
}

/// The update after which a PV must not have changed for a put to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expected {
    /// Its sequence number within the epoch.
    pub sequence: u32,
    /// Its epoch.
    pub epoch: u32,
}
