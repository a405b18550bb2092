//! A server process with a shell: ready when it prints a line, and killed when it is dropped.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use crate::signal;

pub(crate) struct Process {
    child: Child,
    input: ChildStdin,
}

impl Process {
    /// Starts it and waits for a line on stderr that contains `ready`; panics with its output when
    /// it ends before.
    pub(crate) fn start(mut command: Command, ready: &str) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut seen = String::new();
        loop {
            let Some(Ok(line)) = lines.next() else {
                let _ = child.kill();
                let _ = child.wait();
                panic!("{command:?} did not start:\n{seen}");
            };
            if line.contains(ready) {
                break;
            }
            seen.push_str(&line);
            seen.push('\n');
        }
        // Reads until the process ends, so that the pipe never fills.
        thread::spawn(move || lines.for_each(drop));
        Self {
            input: child.stdin.take().unwrap(),
            child,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Writes a line to its input.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Stops the process until [`Self::resume`].
    pub(crate) fn hang(&self) {
        signal(self.id(), "STOP");
    }

    pub(crate) fn resume(&self) {
        signal(self.id(), "CONT");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
