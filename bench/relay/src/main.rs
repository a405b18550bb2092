//! The processes of a benchmark, one subcommand each. `bench/relay/run.py` starts and pins them.

#![forbid(unsafe_code)]

mod attack;
mod check;
mod client;
mod cpu;
mod latency;
mod load;
mod memory;
mod peer;
mod rawtcp;
mod record;
mod reference;
mod restart;
mod sets;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::sets::Pick;

#[derive(Parser)]
#[command(about = "Load client and raw-TCP calibration; run.py puts them together")]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Clients that subscribe to every PV and check every frame.
    Load {
        /// Relay, as 127.0.0.1:8080.
        #[arg(long)]
        relay: String,
        /// Process whose CPU time is measured.
        #[arg(long)]
        pid: u32,
        /// Number of clients.
        #[arg(long)]
        clients: usize,
        /// File with one PV name a line; every PV counts up by one.
        #[arg(long)]
        names: PathBuf,
        /// PVs of each client (default: all).
        #[arg(long)]
        each: Option<usize>,
        /// Which PVs these are.
        #[arg(long, value_enum, default_value_t = Pick::Same)]
        pick: Pick,
        /// Clients ask for packed columns.
        #[arg(long)]
        lz4: bool,
        /// How many of the clients read nothing until the measurement is done.
        #[arg(long, default_value_t = 0)]
        stalled: usize,
        /// All clients connect at once.
        #[arg(long)]
        storm: bool,
        /// Seconds before the measurement starts.
        #[arg(long, default_value_t = 3)]
        warm_up_s: u64,
        /// Seconds of the measurement.
        #[arg(long)]
        seconds: u64,
        /// Seconds from one reading of the memory to the next in the measurement.
        #[arg(long)]
        sample_every_s: Option<u64>,
        /// Where the first client's messages are written, for the calibration.
        #[arg(long)]
        record: Option<PathBuf>,
    },
    /// Clients of a server that isn't ours, which count what it leaves out.
    Peer {
        /// Server, as 127.0.0.1:8080.
        #[arg(long)]
        server: String,
        /// Path of its WebSocket.
        #[arg(long, default_value = "/ws")]
        path: String,
        /// What it speaks.
        #[arg(long)]
        dialect: peer::Dialect,
        /// What is asked of a server that lets clients choose.
        #[arg(long, default_value = "values")]
        selection: peer::Selection,
        /// Process whose CPU time is measured.
        #[arg(long)]
        pid: u32,
        /// Number of clients.
        #[arg(long)]
        clients: usize,
        /// PVs of each client, one client's after the other's (default: all for each).
        #[arg(long)]
        each: Option<usize>,
        /// File with one PV name a line; every PV counts up by one.
        #[arg(long)]
        names: PathBuf,
        /// Seconds before the measurement starts.
        #[arg(long, default_value_t = 3)]
        warm_up_s: u64,
        /// Seconds of the measurement.
        #[arg(long)]
        seconds: u64,
    },
    /// Clients that want to use up the relay.
    Attack {
        /// Relay, as 127.0.0.1:8080.
        #[arg(long)]
        relay: String,
        /// What they do.
        #[arg(long)]
        attack: attack::Attack,
        /// For how long.
        #[arg(long)]
        seconds: u64,
    },
    /// Clients whose relay ends, and which look for another as browsers do.
    Restart {
        /// Relay, as 127.0.0.1:8080.
        #[arg(long)]
        relay: String,
        /// The next one, if it listens elsewhere.
        #[arg(long)]
        next: Option<String>,
        /// Number of clients.
        #[arg(long)]
        clients: usize,
        /// File with one PV name a line.
        #[arg(long)]
        names: PathBuf,
    },
    /// Sends recorded messages to plain TCP connections and measures its own CPU time.
    RawSend {
        /// Number of connections to wait for.
        #[arg(long)]
        clients: usize,
        /// What to send, and when.
        #[arg(long)]
        record: PathBuf,
    },
    /// The other end of `raw-send`.
    RawReceive {
        /// Address of `raw-send`.
        #[arg(long)]
        sender: String,
        /// Number of connections.
        #[arg(long)]
        clients: usize,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse().part {
        Part::Load {
            relay,
            pid,
            clients,
            names,
            each,
            pick,
            lz4,
            stalled,
            storm,
            warm_up_s,
            seconds,
            sample_every_s,
            record,
        } => load::run(&load::Plan {
            relay,
            pid,
            clients,
            names,
            each,
            pick,
            lz4,
            stalled,
            storm,
            warm_up: Duration::from_secs(warm_up_s),
            window: Duration::from_secs(seconds),
            sample_every: sample_every_s.map(Duration::from_secs),
            record,
        }),
        Part::Peer {
            server,
            path,
            dialect,
            selection,
            pid,
            clients,
            each,
            names,
            warm_up_s,
            seconds,
        } => peer::run(&peer::Plan {
            server,
            path,
            dialect,
            selection,
            pid,
            clients,
            each,
            names,
            warm_up: Duration::from_secs(warm_up_s),
            window: Duration::from_secs(seconds),
        }),
        Part::Attack {
            relay,
            attack,
            seconds,
        } => attack::run(&relay, attack, Duration::from_secs(seconds)).map(Into::into),
        Part::Restart {
            relay,
            next,
            clients,
            names,
        } => restart::run(restart::Plan {
            next: next.unwrap_or_else(|| relay.clone()),
            relay,
            clients,
            names,
        }),
        Part::RawSend { clients, record } => rawtcp::send(clients, &record),
        Part::RawReceive { sender, clients } => rawtcp::receive(&sender, clients),
    };
    match done {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("pvwire-bench: {error}");
            ExitCode::FAILURE
        }
    }
}
