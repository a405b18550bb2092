//! The contents of messages as plain Rust types, independent of flatbuffers.

/// Declares an enum that is encoded as one byte. Unknown numbers are decoded as the default.
macro_rules! wire_enum {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $number:literal,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[$doc])* $variant = $number,)+ }

        impl $name {
            /// Every variant, in the order of their numbers.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The number on the wire.
            #[must_use]
            pub const fn number(self) -> u8 {
                self as u8
            }

            /// The variant of a number from the wire; the default for an unknown one.
            #[must_use]
            pub fn from_number(number: u8) -> Self {
                match number {
                    $($number => Self::$variant,)+
                    _ => Self::default(),
                }
            }
        }
    };
}

mod reply;
mod request;
mod state;
mod value;

pub use self::reply::{Hello, NameError, NameProblem, Outcome, Page, Reply, RequestProblem};
pub use self::request::{Expected, Filter, PutRequest, Request, RequestBody};
pub use self::state::{Alarm, Connection, ConnectionState, Detail, Limits, Metadata, Severity};
pub use self::value::{Array, BlobValue, Node, NodeValue, PutValue, ValueType};

/// Relay-wide number of one PV, sent in updates instead of its name.
///
/// The same PV has the same `PvId` for every client of one relay process, so that one
/// encoded frame can be sent to all of them. Ids are not stable across relay restarts, and an id may
/// be reused for another PV after the last subscription has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PvId(pub u32);

impl PvId {
    /// In place of the id of a refused name.
    pub const NONE: Self = Self(u32::MAX);

    /// The id as an index into tables by PV.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

wire_enum! {
    /// How a client applies a frame; see `frame.fbs`.
    FrameKind {
        /// All updates after `prev_tick`, in order.
        Update = 0,
        /// The latest parts of all PVs that changed after `prev_tick`.
        CatchUp = 1,
        /// The complete state of newly subscribed PVs.
        Snapshot = 2,
        /// A reply that changes no subscribed PV.
        #[default]
        Answer = 3,
    }
}

wire_enum! {
    /// Why values of a PV were skipped.
    SkipCause {
        /// Newer than this program.
        #[default]
        Unknown = 0,
        /// The relay could not process them fast enough.
        Relay = 1,
        /// The server or its client library squashed several updates into one.
        Source = 2,
        /// Withheld by the subscription's filter.
        Filter = 3,
        /// The client did not keep up.
        Behind = 4,
        /// The client requested updates at intervals.
        Paced = 5,
        /// Lost between two relays of a fleet.
        Bus = 6,
    }
}

/// Values skipped before a row of an Update, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// See [`SkipCause::Relay`].
    pub relay: u32,
    /// See [`SkipCause::Source`].
    pub source: u32,
    /// See [`SkipCause::Filter`].
    pub filter: u32,
    /// See [`SkipCause::Bus`].
    pub bus: u32,
}

impl Skips {
    /// Nothing was skipped.
    pub const NONE: Self = Self {
        relay: 0,
        source: 0,
        filter: 0,
        bus: 0,
    };

    /// Total number.
    #[must_use]
    pub const fn total(self) -> u32 {
        self.relay
            .wrapping_add(self.source)
            .wrapping_add(self.filter)
            .wrapping_add(self.bus)
    }

    /// Number for each cause that skipped any.
    pub fn by_cause(self) -> impl Iterator<Item = (SkipCause, u32)> {
        let causes = [
            (SkipCause::Relay, self.relay),
            (SkipCause::Source, self.source),
            (SkipCause::Filter, self.filter),
            (SkipCause::Bus, self.bus),
        ];
        causes.into_iter().filter(|(_, count)| *count > 0)
    }
}
