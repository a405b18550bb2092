//! How much memory do a process and the kernel's TCP have?

use std::fs;
use std::io;

use serde_json::{Value, json};

/// Pages of the kernel's count of TCP memory.
const PAGE_KB: u64 = 4;

/// What is held at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// The process's own: what stands in physical memory.
    pub(crate) rss_kb: u64,
    /// All TCP sockets of the machine, those of the receivers too.
    pub(crate) tcp_kb: u64,
}

impl Held {
    pub(crate) fn json(&self) -> Value {
        json!({ "rssKb": self.rss_kb, "tcpKb": self.tcp_kb })
    }
}

/// What is held now.
pub(crate) fn held(pid: u32) -> io::Result<Held> {
    // Exact, where the numbers of /proc/PID/statm may be some hundred kilobytes off.
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let sockets = fs::read_to_string("/proc/net/sockstat")?;
    let wrong = || io::Error::new(io::ErrorKind::InvalidData, "memory can't be read");
    Ok(Held {
        rss_kb: rss_kb(&rollup).ok_or_else(wrong)?,
        tcp_kb: tcp_pages(&sockets).ok_or_else(wrong)? * PAGE_KB,
    })
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
        assert!(held(std::process::id()).unwrap().rss_kb > 0);
    }
}
