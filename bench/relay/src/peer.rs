//! Clients of another server: what they receive, and what they cost that server.

mod dialect;
pub(crate) mod tally;

use std::error::Error;
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{fs, io};

use serde_json::{Value, json};
use tungstenite::{ClientRequestBuilder, Message, WebSocket, client};

use crate::cpu;
use crate::latency::Delays;
use crate::seconds;
use dialect::Said;
pub(crate) use dialect::{Dialect, Selection, Speaker};
use tally::{Counts, Tally, behind};

/// Pause when no socket had anything, as long as that of the relay's clients.
const IDLE: Duration = Duration::from_micros(500);

/// Most messages that are read of one client before the next one's.
const TURN: usize = 1_000;

/// How long the server may take until every PV of every client has a value.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub(crate) struct Plan {
    /// Server, as 127.0.0.1:8080.
    #[arg(long)]
    server: String,
    /// Path of its WebSocket.
    #[arg(long, default_value = "/ws")]
    path: String,
    /// Its protocol.
    #[arg(long)]
    dialect: Dialect,
    /// What is requested of a server that lets clients choose.
    #[arg(long, default_value = "values")]
    selection: Selection,
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
    #[arg(long = "warm-up-s", default_value = "3", value_name = "SECONDS", value_parser = seconds)]
    warm_up: Duration,
    /// Seconds of the measurement.
    #[arg(long = "seconds", value_name = "SECONDS", value_parser = seconds)]
    window: Duration,
}

struct Client<'a> {
    socket: WebSocket<TcpStream>,
    speaker: Speaker<'a>,
    tally: Tally,
}

pub(crate) fn run(plan: &Plan) -> Result<Value, Box<dyn Error>> {
    let names = fs::read_to_string(&plan.names)?;
    let names: Vec<&str> = names.lines().collect();
    let each = plan.each.unwrap_or(names.len());
    let mut clients = (0..plan.clients)
        .map(|number| {
            let first = number * each % names.len();
            let own = (0..each).map(|place| names[(first + place) % names.len()]);
            Client::connect(plan, own.collect())
        })
        .collect::<Result<Vec<_>, _>>()?;

    let mut ignored = Delays::default();
    let start = Instant::now();
    while !clients.iter().all(|client| client.tally.is_complete()) {
        if start.elapsed() > PATIENCE {
            return Err("not every PV of every client had a value in time".into());
        }
        round(&mut clients, &mut ignored)?;
    }
    eprintln!("{} clients have {each} PVs each", clients.len());
    let until = Instant::now() + plan.warm_up;
    while Instant::now() < until {
        round(&mut clients, &mut ignored)?;
    }

    let mut delays = Delays::default();
    let own_before = cpu::own()?;
    let cpu_before = cpu::by_thread(plan.pid)?;
    let start = Instant::now();
    for client in &mut clients {
        client.tally.begin();
    }
    while start.elapsed() < plan.window {
        round(&mut clients, &mut delays)?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let used = cpu::between(&cpu_before, &cpu::by_thread(plan.pid)?);
    let own = cpu::between(&own_before, &cpu::own()?);

    let tallies = || clients.iter().map(|client| &client.tally);
    let counts: Counts = tallies().map(|tally| tally.counts).sum();
    if counts.wrong > 0 {
        return Err(format!(
            "{} values that the IOC never had, or not then",
            counts.wrong
        )
        .into());
    }
    let cpu_ns: u64 = used.values().sum();
    let updates = counts.updates as f64;
    Ok(json!({
        "clients": plan.clients,
        "pvs": names.len(),
        "each": each,
        "seconds": seconds,
        "updates": counts.updates,
        "missing": counts.missing + behind(tallies()),
        "repeated": counts.repeated,
        "cpuNs": cpu_ns,
        "cpuNsByThread": used,
        "usPerUpdate": cpu_ns as f64 / updates / 1e3,
        "updatesPerCpuSecond": updates / (cpu_ns as f64 / 1e9),
        "latency": delays.json(),
        "driverCores": own.values().sum::<u64>() as f64 / seconds / 1e9,
    }))
}

/// Reads what is there from every socket, of each so much that the others have their turn.
fn round(clients: &mut [Client<'_>], delays: &mut Delays) -> Result<(), Box<dyn Error>> {
    let mut idle = true;
    for client in clients {
        for _ in 0..TURN {
            if !client.read(delays)? {
                break;
            }
            idle = false;
        }
    }
    if idle {
        thread::sleep(IDLE);
    }
    Ok(())
}

impl<'a> Client<'a> {
    fn connect(plan: &Plan, names: Vec<&'a str>) -> Result<Self, Box<dyn Error>> {
        let tcp = TcpStream::connect(&plan.server)?;
        tcp.set_nodelay(true)?;
        let url = format!("ws://{}{}", plan.server, plan.path).parse()?;
        let mut request = ClientRequestBuilder::new(url);
        if let Some(subprotocol) = plan.dialect.subprotocol() {
            request = request.with_sub_protocol(subprotocol);
        }
        let (mut socket, _) = client(request, tcp)?;
        let tally = Tally::new(names.len());
        let speaker = Speaker::new(plan.dialect, plan.selection, names);
        if let Some(greeting) = plan.dialect.greeting() {
            socket.send(Message::text(greeting))?;
            while !plan.dialect.is_welcome(socket.read()?.to_text()?) {}
        }
        for request in speaker.subscribe() {
            socket.write(Message::text(request))?;
        }
        socket.flush()?;
        socket.get_ref().set_nonblocking(true)?;
        Ok(Self {
            socket,
            speaker,
            tally,
        })
    }

    /// Takes one message; says whether there was one.
    fn read(&mut self, delays: &mut Delays) -> Result<bool, Box<dyn Error>> {
        let message = match self.socket.read() {
            Ok(Message::Text(text)) => text,
            Ok(Message::Close(_)) => return Err("the server closed a connection".into()),
            Ok(_) => return Ok(true),
            Err(tungstenite::Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        match self.speaker.read(&message)? {
            Said::Update { pv, value, time_ns } => {
                self.tally.take(pv, value);
                if let Some(time_ns) = time_ns {
                    let now_ns = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as i64;
                    delays.add(now_ns - time_ns, 1);
                }
            }
            Said::Answer(answer) => self.socket.send(Message::text(answer))?,
            Said::Nothing => {}
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use tungstenite::handshake::server::{ErrorResponse, Request, Response};

    /// Takes whatever subprotocol a client wants.
    #[allow(clippy::result_large_err, clippy::unnecessary_wraps)]
    fn agree(request: &Request, mut answer: Response) -> Result<Response, ErrorResponse> {
        const SUBPROTOCOL: &str = "Sec-WebSocket-Protocol";
        if let Some(wanted) = request.headers().get(SUBPROTOCOL) {
            answer.headers_mut().insert(SUBPROTOCOL, wanted.clone());
        }
        Ok(answer)
    }

    /// Answers as a server of the dialect does, with PVs that count up by one as quickly as a client
    /// reads; of each ten values the last one is left out. Stands in for a server in these tests and
    /// says nothing about what one costs.
    fn stand_in(dialect: Dialect, listener: &TcpListener) {
        let (tcp, _) = listener.accept().unwrap();
        let mut socket = tungstenite::accept_hdr(tcp, agree).unwrap();
        let pvs = match dialect {
            Dialect::Coniql => {
                let init = socket.read().unwrap();
                assert!(init.to_text().unwrap().contains("connection_init"));
                socket
                    .send(Message::text(r#"{"type":"connection_ack"}"#))
                    .unwrap();
                let mut subscribe =
                    |_| serde_json::from_str(socket.read().unwrap().to_text().unwrap());
                let sent: Vec<Value> = (0..3).map(|n| subscribe(n).unwrap()).collect();
                let names = sent.iter().map(|one| &one["payload"]["variables"]["id"]);
                assert_eq!(names.collect::<Vec<_>>(), ["A", "B", "C"]);
                sent.iter().map(|one| one["id"].clone()).collect()
            }
            Dialect::Pvws => {
                let sent: Value =
                    serde_json::from_str(socket.read().unwrap().to_text().unwrap()).unwrap();
                assert_eq!(sent, json!({"type": "subscribe", "pvs": ["A", "B", "C"]}));
                sent["pvs"].as_array().unwrap().clone()
            }
        };
        for value in (1_u64..).filter(|value| value % 10 != 0) {
            for pv in &pvs {
                let message = match dialect {
                    Dialect::Coniql => json!({"type": "next", "id": pv, "payload": {"data": {
                        "subscribeChannel": {"value": {"float": value}, "time": {"seconds": 1.5}}
                    }}}),
                    Dialect::Pvws => json!({
                        "type": "update", "pv": pv, "value": value, "seconds": 1, "nanos": 500_000_000
                    }),
                };
                if socket.send(Message::text(message.to_string())).is_err() {
                    return;
                }
            }
        }
    }

    #[test]
    fn values_that_a_server_leaves_out_are_counted() {
        for dialect in [Dialect::Coniql, Dialect::Pvws] {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let server = listener.local_addr().unwrap().to_string();
            let names = std::env::temp_dir().join(format!("pvwire-peer-{}", std::process::id()));
            fs::write(&names, "A\nB\nC\n").unwrap();
            let serving = thread::spawn(move || stand_in(dialect, &listener));
            let report = run(&Plan {
                server,
                path: "/ws".into(),
                dialect,
                selection: Selection::Values,
                pid: std::process::id(),
                clients: 1,
                each: None,
                names: names.clone(),
                warm_up: Duration::from_millis(20),
                window: Duration::from_millis(200),
            });
            fs::remove_file(names).unwrap();
            let report = report.unwrap();
            serving.join().unwrap();
            let [updates, missing] =
                ["updates", "missing"].map(|key| report[key].as_u64().unwrap());
            // The window may begin and end anywhere between two that are left out.
            let made = updates + missing;
            assert!(updates > 300, "{report}");
            assert!(missing.abs_diff(made / 10) <= 3, "{report}");
            assert_eq!(report["repeated"], 0);
            assert!(report["cpuNs"].as_u64().unwrap() > 0);
            // Its time stamps are of 1970.
            assert!(report["latency"]["maxMs"].as_f64().unwrap() > 1e12);
        }
    }
}
