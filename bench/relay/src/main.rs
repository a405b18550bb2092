//! The processes of a benchmark, one subcommand each. `bench/relay/run.py` starts and pins them.

#![forbid(unsafe_code)]

mod attack;
mod check;
mod client;
mod cpu;
mod door;
mod flood;
mod latency;
mod load;
mod memory;
mod peer;
mod rawtcp;
mod record;
mod reference;
mod replay;
mod restart;
mod sets;
mod wire;

use std::num::ParseIntError;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Load client and raw-TCP calibration; run.py puts them together")]
struct Arguments {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Clients that subscribe to every PV and check every frame.
    Load(load::Plan),
    /// Clients of the door for PVWS or of that for Coniql that subscribe to every PV and check every update.
    Door(door::Plan),
    /// Clients of another server, which count what it leaves out.
    Peer(peer::Plan),
    /// Clients that try to use up the relay.
    Attack {
        /// Relay, as 127.0.0.1:8080.
        #[arg(long)]
        relay: String,
        /// What they do.
        #[arg(long)]
        attack: attack::Attack,
        /// File with one PV name a line, for attackers that subscribe.
        #[arg(long)]
        names: Option<PathBuf>,
        /// Seconds of the attack.
        #[arg(long, value_name = "SECONDS", value_parser = seconds)]
        seconds: Duration,
    },
    /// Clients whose relay ends, and which look for another as browsers do.
    Restart(restart::Plan),
    /// Clients of which one is cut off, and gets what it has missed when it is back.
    Resume(load::resume::Plan),
    /// Writes a recording whose values are known.
    Recording(replay::Recording),
    /// A client of a replay, which goes to times of it and checks every PV there.
    Seek(replay::Seek),
    /// Writes the certificate of a relay with TLS, and its key.
    Certificate {
        /// Where cert.pem and key.pem are written.
        #[arg(long)]
        folder: PathBuf,
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

/// Reads a number of seconds.
fn seconds(text: &str) -> Result<Duration, ParseIntError> {
    text.parse().map(Duration::from_secs)
}

fn attack_with(
    relay: &str,
    attack: attack::Attack,
    names: Option<PathBuf>,
    seconds: Duration,
) -> Result<serde_json::Value, Box<dyn std::error::Error>> {
    let names = names.map(std::fs::read_to_string).transpose()?;
    let names: Vec<_> = names.iter().flat_map(|names| names.lines()).collect();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    let report = attack::run(relay, attack, &names, seconds)?;
    Ok(serde_json::from_str(&report)?)
}

fn main() -> ExitCode {
    let done = match Arguments::parse().part {
        Part::Load(plan) => load::run(&plan),
        Part::Door(plan) => door::run(&plan),
        Part::Peer(plan) => peer::run(&plan),
        Part::Attack {
            relay,
            attack,
            names,
            seconds,
        } => attack_with(&relay, attack, names, seconds),
        Part::Restart(plan) => restart::run(plan),
        Part::Resume(plan) => load::resume::run(&plan),
        Part::Recording(plan) => replay::write(&plan),
        Part::Seek(plan) => replay::seek(&plan),
        Part::Certificate { folder } => {
            testbed::Pair::write(&folder);
            Ok(serde_json::Value::Null)
        }
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
