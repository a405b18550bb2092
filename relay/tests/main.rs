//! End-to-end tests of the relay: a real IOC, a real relay process and a client that records
//! everything.
//!
//! All tests are in one program, because each further program would link the whole relay again.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod architecture;
mod archiver;
mod arrows;
mod audit;
mod audit_disk;
mod budget;
mod channelfinder;
mod circuits;
mod conformance;
mod coniql;
mod damaged;
mod delay;
mod demo;
mod description;
mod door;
mod embedding;
mod encodings;
mod faults;
mod fidelity_restart;
mod fidelity_values;
mod filters;
mod fleet;
mod floods;
mod handshakes;
mod hangs;
mod held;
mod history;
mod history_disk;
mod host_names;
mod large;
mod lifecycle;
mod login;
mod max_rate;
mod missed;
mod one_tick;
mod other_makers;
mod other_values;
mod pages;
mod plain_http;
mod probes;
mod put_many;
mod put_values;
mod puts;
mod pva;
mod pva_failures;
mod pva_fields;
mod pva_names;
mod pva_structures;
mod pvlists;
mod pvws;
mod question_pages;
mod questions;
mod quotas;
#[cfg(feature = "interpose")]
mod recv;
mod reference;
mod reload;
mod replay;
mod requests;
mod rules;
mod saved;
mod screens;
mod sim;
mod slow_client;
mod soak;
mod states;
mod subscriptions;
mod tls;
mod tokens;
mod users;
mod values;
