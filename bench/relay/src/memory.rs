//! Memory of a process and of the kernel's TCP.

use std::fs;
use std::io;
use std::process::Command;

use serde_json::{Value, json};

/// Pages of the kernel's count of TCP memory.
const PAGE_KB: u64 = 4;

/// Memory in use at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// The process's own: what stands in physical memory.
    pub(crate) rss_kb: u64,
    /// All TCP sockets of the machine, those of the receivers too.
    pub(crate) tcp_kb: u64,
}

impl Usage {
    pub(crate) fn json(&self) -> Value {
        json!({ "rssKb": self.rss_kb, "tcpKb": self.tcp_kb })
    }
}

/// Memory in use now.
pub(crate) fn usage(pid: u32) -> io::Result<Usage> {
    // Exact, where the numbers of /proc/PID/statm may be some hundred kilobytes off.
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let sockets = fs::read_to_string("/proc/net/sockstat")?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "memory can't be read");
    Ok(Usage {
        rss_kb: rss_kb(&rollup).ok_or_else(wrong)?,
        tcp_kb: tcp_pages(&sockets).ok_or_else(wrong)? * PAGE_KB,
    })
}

/// What the kernel holds for the sockets of the relay that listens on a port, and so for one end of each
/// connection: bytes that wait to be sent, acknowledged or read, and what it has reserved for more.
pub(crate) fn relay_end_kb(port: u16) -> io::Result<u64> {
    let here = format!("sport = :{port}");
    let ss = Command::new("ss").args(["-tmnH", &here]).output();
    let ss =
        ss.map_err(|error| io::Error::new(error.kind(), format!("ss of iproute2: {error}")))?;
    if !ss.status.success() {
        return Err(io::Error::other(format!(
            "ss: {}",
            String::from_utf8_lossy(&ss.stderr)
        )));
    }
    let bytes: u64 = (String::from_utf8_lossy(&ss.stdout).lines())
        .filter_map(socket_bytes)
        .sum();
    Ok(bytes >> 10)
}

/// The memory in use of one socket, as `skmem:(r0,rb131072,t0,tb87040,f576,w81344,o0,bl0,d0)` says it:
/// to be read, reserved, being sent, options, and what came during the read.
fn socket_bytes(line: &str) -> Option<u64> {
    let (_, fields) = line.split_once("skmem:(")?;
    let fields = fields.split_once(')')?.0.split(',');
    let bytes = fields.filter_map(|field| {
        let digits = field.find(|c: char| c.is_ascii_digit())?;
        let (name, bytes) = field.split_at(digits);
        ["r", "f", "w", "o", "bl"]
            .contains(&name)
            .then(|| bytes.parse::<u64>().ok())?
    });
    Some(bytes.sum())
}

fn rss_kb(rollup: &str) -> Option<u64> {
    let line = rollup.lines().find_map(|line| line.strip_prefix("Rss:"))?;
    line.split_whitespace().next()?.parse().ok()
}

fn tcp_pages(sockets: &str) -> Option<u64> {
    let line = sockets.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_s_files_are_read() {
        let rollup = "55d0-7ffe ---p 00000000 00:00 0 [rollup]\nRss:   2496 kB\nPss:  999 kB\n";
        assert_eq!(rss_kb(rollup), Some(2496));
        let sockets = "sockets: used 77\nTCP: inuse 6 orphan 0 tw 8 alloc 9 mem 31\nUDP: mem 5\n";
        assert_eq!(tcp_pages(sockets), Some(31));
        let socket = "\t skmem:(r1,rb131072,t7,tb131072,f20,w300,o4000,bl50000,d9)";
        assert_eq!(socket_bytes(socket), Some(54_321));
        assert_eq!(socket_bytes("ESTAB 0 80512 127.0.0.1:40303"), None);
        assert!(usage(std::process::id()).unwrap().rss_kb > 0);
    }
}
