//! Servers that accept a connection and end it at once.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use super::notes::{Members, settings};
use crate::nats::session::pause_after;

#[test]
fn pause_doubles_up_to_a_second_and_ends_with_a_good_connection() {
    let at_once = Duration::from_millis(1);
    let mut pauses = vec![Duration::ZERO];
    while pauses.len() < 8 {
        pauses.push(pause_after(at_once, pauses[pauses.len() - 1]));
    }
    let millis = pauses.iter().map(Duration::as_millis);
    assert_eq!(
        millis.collect::<Vec<_>>(),
        [0, 50, 100, 200, 400, 800, 1000, 1000]
    );
    let good = Duration::from_secs(1);
    assert_eq!(pause_after(good, good), Duration::ZERO);
}

/// The part of a server up to the first answer.
fn greet(mut stream: TcpStream) {
    let info = "INFO {\"server_id\":\"X\",\"server_name\":\"X\",\"version\":\"2.10.0\",\"go\":\"\",\
                \"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\"max_payload\":1048576,\"proto\":1}\r\n";
    stream.write_all(info.as_bytes()).unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        if line.starts_with("PING") {
            let _ = stream.write_all(b"PONG\r\n");
            return;
        }
    }
}

#[test]
fn server_that_ends_connections_is_asked_again_after_growing_pauses() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let member = Members::at(settings(&format!("nats://{address}"))).start();
    let mut accepted = Vec::new();
    while accepted.len() < 5 {
        let (stream, _) = listener.accept().unwrap();
        accepted.push(Instant::now());
        greet(stream);
    }
    drop(listener);
    let between: Vec<Duration> = accepted.windows(2).map(|two| two[1] - two[0]).collect();
    // The pauses are 50, 100, 200 and 400 ms, but begin again after a connection that lasts a second.
    assert!(
        accepted[4] - accepted[0] >= Duration::from_millis(350),
        "{between:?}"
    );
    drop(member);
}
