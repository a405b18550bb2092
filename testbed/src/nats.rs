//! A NATS server: killed, restarted on the same port, or stopped for a while.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use super::process::Process;
use super::{file, free_port, in_repository};

/// A NATS server on loopback; dropping it kills it.
pub struct NatsServer {
    process: Option<Process>,
    port: u16,
    config: PathBuf,
}

impl NatsServer {
    /// Starts a server that lets everybody in.
    pub fn start() -> Self {
        Self::with_config("")
    }

    /// Starts a server with further lines of configuration.
    pub fn with_config(lines: &str) -> Self {
        let port = free_port();
        let text = format!("listen: \"127.0.0.1:{port}\"\n{lines}\n");
        let config = file(&format!("nats-{port}.conf"), &text);
        let mut server = Self {
            process: None,
            port,
            config,
        };
        server.restart();
        server
    }

    /// Its address, as `--bus` has it.
    pub fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.process.as_ref().expect("it runs").id()
    }

    /// Kills it; its port stays free.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Starts it again on the same port, and waits until it listens.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = Command::new(program());
        command.arg("--config").arg(&self.config);
        self.process = Some(Process::start(command, "Server is ready"));
    }

    /// Stops it until [`Self::resume`]: connections stay open, and nothing passes.
    pub fn hang(&self) {
        self.process.as_ref().expect("it runs").hang();
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.process.as_ref().expect("it runs").resume();
    }
}

/// The server that `tools/setup.sh` installed, or that of the machine.
fn program() -> PathBuf {
    if let Some(program) = env::var_os("PVWIRE_NATS_SERVER") {
        return PathBuf::from(program);
    }
    let ours = in_repository(".local/nats/usr/sbin/nats-server");
    if ours.exists() {
        ours
    } else {
        PathBuf::from("nats-server")
    }
}
