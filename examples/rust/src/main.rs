//! Reads PVs from a relay and prints a selection of each, as JSON, whenever it changes:
//! `cargo run -p read-pvs -- ws://127.0.0.1:8080/ws SR:CURRENT SR:LIFETIME`

use std::error::Error;
use std::io::ErrorKind;
use std::time::{Duration, SystemTime};

use pvwire_core::engine::{Engine, Filter};
use pvwire_core::select;
use tungstenite::client::IntoClientRequest;
use tungstenite::http::HeaderValue;
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Error as SocketError, Message, connect};

const SELECTION: &str =
    "{ value { string(units: true) } status { severity } connection { state } }";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("usage: read-pvs URL PV...")?;
    let selection = select::program(SELECTION)?;
    let mut engine = Engine::new();
    engine.open(arguments, Filter::ALL, SystemTime::now());

    let mut handshake = url.into_client_request()?;
    let subprotocol = HeaderValue::from_static("pvwire.v1");
    handshake
        .headers_mut()
        .insert("Sec-WebSocket-Protocol", subprotocol);
    let (mut socket, _) = connect(handshake)?;
    engine.connected(SystemTime::now());

    loop {
        for request in engine.requests(SystemTime::now())? {
            socket.send(Message::binary(request))?;
        }
        // Wakes up in time for the next acknowledgement or ping.
        let due = engine.due().unwrap_or_else(SystemTime::now);
        let wait = due.duration_since(SystemTime::now()).unwrap_or_default();
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        }
        match socket.read() {
            Ok(Message::Binary(frame)) => engine.receive(frame, SystemTime::now())?,
            Ok(_) => {}
            Err(SocketError::Io(error))
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(error) => return Err(error.into()),
        }
        for change in engine.changes() {
            if let Some(view) = engine.read(change.pv) {
                println!("{} {}", view.name(), view.select(&selection).to_json());
            }
        }
    }
}
