//! Ports for tests, claimed in blocks that no other process uses, as `testbed/README.md` describes.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use super::DEADLINE;

/// The first port of the first block.
const FIRST: u16 = 10_240;
/// The port after the last block: the first one that Linux gives to outgoing connections.
const END: u16 = 32_768;
/// Ports of a block; the first of them is its guard.
const BLOCK: u16 = 64;

/// A block that this process owns while the value lives.
struct Block {
    _guard: TcpListener,
    /// Its ports that were not handed out.
    ports: Range<u16>,
}

/// A port that is free for TCP and UDP, and that no other process and no other test gets.
pub fn free_port() -> u16 {
    // Blocks stay claimed until the process ends, because their ports stay in use.
    static CLAIMED: Mutex<Vec<Block>> = Mutex::new(Vec::new());
    let mut claimed = CLAIMED.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let newest = claimed.last_mut();
        if let Some(port) = newest.and_then(|block| block.ports.find(is_free)) {
            return port;
        }
        claimed.push(claim_any());
    }
}

fn claim_any() -> Block {
    let blocks = (END - FIRST) / BLOCK;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start = std::process::id().wrapping_mul(37) ^ now.subsec_nanos();
    let start = (start % u32::from(blocks)) as u16;
    (start..blocks)
        .chain(0..start)
        .find_map(claim)
        .unwrap_or_else(|| {
            panic!("all blocks of ports between {FIRST} and {END} are claimed: too many tests run")
        })
}

fn claim(block: u16) -> Option<Block> {
    let first = FIRST + block * BLOCK;
    let guard = TcpListener::bind(("127.0.0.1", first)).ok()?;
    Some(Block {
        _guard: guard,
        ports: first + 1..first + BLOCK,
    })
}

fn is_free(port: &u16) -> bool {
    let address = (Ipv4Addr::LOCALHOST, *port);
    // A test listener could stay open after this check: in a child process that another thread has
    // forked and that has not executed its program yet.
    let connected = TcpStream::connect_timeout(&address.into(), DEADLINE);
    connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        && UdpSocket::bind(address).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::{BLOCK, END, FIRST, claim, free_port};
    use crate::{eventually, in_repository, python};

    /// More ports than a block has.
    const COUNT: usize = 150;

    fn claim_in_python() -> Child {
        Command::new(python())
            .arg(in_repository("testbed/python/ports.py"))
            .arg(COUNT.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn ports_of(process: &mut Child) -> Vec<u16> {
        let lines = BufReader::new(process.stdout.as_mut().unwrap()).lines();
        let ports = lines.take(COUNT).map(|line| line.unwrap().parse().unwrap());
        ports.collect()
    }

    fn end(mut process: Child) {
        process.kill().unwrap();
        process.wait().unwrap();
    }

    #[test]
    fn processes_that_claim_at_once_share_no_port() {
        let mut others: Vec<_> = (0..4).map(|_| claim_in_python()).collect();
        let ours: Vec<_> = (0..COUNT).map(|_| free_port()).collect();
        let of_others = others.iter_mut().flat_map(ports_of);
        let all: Vec<_> = ours.into_iter().chain(of_others).collect();
        others.into_iter().for_each(end);
        assert!(all.iter().all(|port| (FIRST..END).contains(port)));
        assert!(all.iter().all(|port| port % BLOCK != 0), "a guard");
        assert_eq!(all.iter().collect::<HashSet<_>>().len(), 5 * COUNT);
    }

    #[test]
    fn block_is_claimed_until_its_process_is_killed() {
        let mut process = claim_in_python();
        let ports = ports_of(&mut process);
        let blocks: HashSet<_> = ports.iter().map(|port| (port - FIRST) / BLOCK).collect();
        assert!(blocks.len() > 1);
        assert!(blocks.iter().all(|&block| claim(block).is_none()));
        end(process);
        // Another program may have claimed one of them meanwhile, but hardly all.
        eventually("one can be claimed again", || {
            blocks.iter().any(|&block| claim(block).is_some())
        });
    }

    #[test]
    fn child_processes_do_not_hold_a_block() {
        let (block, claimed) = (0..(END - FIRST) / BLOCK)
            .find_map(|block| Some((block, claim(block)?)))
            .unwrap();
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        drop(claimed);
        // Children of other threads hold the guard until they execute their programs.
        eventually("it can be claimed again", || claim(block).is_some());
        end(child);
    }

    #[test]
    fn all_languages_have_the_same_blocks_of_ports() {
        for file in ["testbed/ts/ports.ts", "testbed/python/ports.py"] {
            let text = std::fs::read_to_string(in_repository(file)).unwrap();
            for (name, value) in [("FIRST", FIRST), ("END", END), ("BLOCK", BLOCK)] {
                let value = match value {
                    1000.. => format!("{}_{:03}", value / 1000, value % 1000),
                    _ => value.to_string(),
                };
                let line = format!("{name} = {value}");
                assert!(text.contains(&line), "{file} has no {line:?}");
            }
        }
    }
}
