//! End-to-end tests of the relay: a real IOC, a real relay process and a client that records
//! everything.
//!
//! All tests are in one program, because each further program would link the whole relay again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod architecture;
mod arrows;
mod audit;
mod audit_disk;
mod budget;
mod callers;
mod circuits;
mod conformance;
mod coniql;
mod crowd;
mod damaged;
mod delay;
mod description;
mod discovery;
mod door;
mod door_tokens;
mod embedding;
mod encodings;
mod epochs;
mod faults;
mod fidelity_load;
mod fidelity_restart;
mod fidelity_values;
mod filters;
mod fleet;
mod floods;
mod forms;
mod handshakes;
mod hangs;
mod held;
mod host_names;
mod issuer;
mod large;
mod lifecycle;
mod login;
mod max_rate;
mod metrics;
mod monitors;
mod names;
mod one_tick;
mod other_makers;
mod other_values;
mod pages;
mod plain_http;
mod probes;
mod put_many;
mod puts;
mod pva;
mod pva_failures;
mod pva_fields;
mod pva_names;
mod pva_structures;
mod pvlists;
mod pvws;
mod quotas;
#[cfg(feature = "interpose")]
mod recv;
mod reference;
mod reload;
mod requests;
mod rules;
mod silence;
mod sim;
mod slow_client;
mod soak;
mod stalls;
mod states;
mod subscriptions;
mod tls;
mod users;
mod values;
