//! A program on the bus of a fleet that repeats what members say, and changes it.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What it says first. It doesn't hear itself.
const GREETING: &[u8] = b"CONNECT {\"verbose\":false,\"echo\":false}\r\nSUB > 1\r\n";

/// How often it says each thing that it hears, and how often with a changed byte.
const REPEATS: usize = 500;

/// How long it waits for what it hears.
const PATIENCE: Duration = Duration::from_millis(100);

/// Listens, and says all again until the time is over; says how often.
pub(super) fn repeat(server: &str, time: Duration) -> Result<String, Box<dyn Error>> {
    let end = Instant::now() + time;
    let mut bus = TcpStream::connect(server)?;
    bus.set_read_timeout(Some(PATIENCE))?;
    bus.write_all(GREETING)?;
    let mut heard = BufReader::new(bus.try_clone()?);
    let (mut line, mut messages) = (Vec::new(), 0_u64);
    while Instant::now() < end {
        if heard.read_until(b'\n', &mut line).is_err() || !line.ends_with(b"\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&std::mem::take(&mut line)).into_owned();
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        match *words.as_slice() {
            ["PING"] => bus.write_all(b"PONG\r\n")?,
            ["MSG", subject, .., length] => {
                let mut payload = vec![0; length.parse::<usize>()? + 2];
                read_all(&mut heard, &mut payload)?;
                for number in 0..2 * REPEATS {
                    let mut changed = payload.clone();
                    let length = changed.len() - 2;
                    if number >= REPEATS && length > 0 {
                        changed[number % length] ^= 1 << (number % 8);
                    }
                    write!(bus, "PUB {subject} {length}\r\n")?;
                    bus.write_all(&changed)?;
                    messages += 1;
                }
            }
            _ => {}
        }
    }
    if messages == 0 {
        return Err("no member of the fleet has sent anything".into());
    }
    Ok(format!("{{\"messages\": {messages}}}"))
}

/// Reads all of a payload, whose parts may come late.
fn read_all(heard: &mut impl Read, payload: &mut [u8]) -> std::io::Result<()> {
    let mut read = 0;
    while read < payload.len() {
        match heard.read(&mut payload[read..]) {
            Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => read += count,
            Err(error) if super::is_patient(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
