//! A NATS server: killed, restarted on the same port, or stopped for a while; and a client of it.

use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

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

/// A message on a subject.
#[derive(Clone, Debug)]
pub struct NatsMessage {
    /// Its subject.
    pub subject: String,
    /// Where its answer goes; empty for none.
    pub reply: String,
    /// Its headers as they are sent, with the version before them; empty for none.
    pub headers: String,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// A program on a server.
pub struct NatsClient {
    lines: BufReader<TcpStream>,
    out: TcpStream,
    /// What the server has refused, in its words.
    refused: Vec<String>,
}

impl NatsClient {
    /// Connects without a name.
    pub fn at(server: &NatsServer) -> Self {
        Self::with(server, "")
    }

    /// Connects as a user.
    pub fn as_user(server: &NatsServer, user: &str, password: &str) -> Self {
        Self::with(server, &format!(r#","user":"{user}","pass":"{password}""#))
    }

    fn with(server: &NatsServer, user: &str) -> Self {
        let out = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        out.set_read_timeout(Some(super::DEADLINE)).unwrap();
        let lines = BufReader::new(out.try_clone().unwrap());
        let refused = Vec::new();
        let mut client = Self {
            lines,
            out,
            refused,
        };
        assert!(client.line().starts_with("INFO "));
        let options = format!(r#"{{"verbose":false,"pedantic":false,"headers":true{user}}}"#);
        client.write(format!("CONNECT {options}\r\n").as_bytes());
        client.settle();
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn write(&mut self, bytes: &[u8]) {
        self.out.write_all(bytes).unwrap();
    }

    /// Hears what is sent to a subject.
    pub fn subscribe(&mut self, subject: &str) {
        self.write(format!("SUB {subject} 1\r\n").as_bytes());
        self.settle();
    }

    /// Sends a message, which `reply` says where to answer.
    pub fn send(&mut self, subject: &str, reply: &str, body: &[u8]) {
        let head = format!("PUB {subject} {reply} {}\r\n", body.len());
        self.write(&[head.as_bytes(), body, b"\r\n"].concat());
    }

    /// Sends a message again that was heard, with its headers.
    pub fn repeat(&mut self, message: &NatsMessage) {
        let NatsMessage {
            subject,
            reply,
            headers,
            body,
        } = message;
        let (of_head, all) = (headers.len(), headers.len() + body.len());
        let head = format!("HPUB {subject} {reply} {of_head} {all}\r\n");
        self.write(&[head.as_bytes(), headers.as_bytes(), body, b"\r\n"].concat());
    }

    /// Waits until the server has done all that came before; what it heard meanwhile is dropped. Returns what it has
    /// refused.
    pub fn settle(&mut self) -> Vec<String> {
        self.write(b"PING\r\n");
        while self.next_or_pong().is_some() {}
        std::mem::take(&mut self.refused)
    }

    /// The next message, whenever it comes.
    pub fn hear(&mut self) -> NatsMessage {
        loop {
            if let Some(message) = self.next_or_pong() {
                return message;
            }
        }
    }

    /// The messages that come within a time.
    pub fn hear_for(&mut self, time: Duration) -> Vec<NatsMessage> {
        std::thread::sleep(time);
        self.write(b"PING\r\n");
        std::iter::from_fn(|| self.next_or_pong()).collect()
    }

    fn next_or_pong(&mut self) -> Option<NatsMessage> {
        loop {
            let line = self.line();
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.first().copied() {
                Some("PING") => self.write(b"PONG\r\n"),
                Some("PONG") => return None,
                Some("-ERR") => self.refused.push(line),
                Some(verb @ ("MSG" | "HMSG")) => {
                    let sizes = if verb == "MSG" { 1 } else { 2 };
                    let sizes = &words[words.len() - sizes..];
                    let number = |word: &&str| word.parse::<usize>().unwrap();
                    let sizes: Vec<usize> = sizes.iter().map(number).collect();
                    let whole = sizes[sizes.len() - 1];
                    let mut body = vec![0; whole + 2];
                    self.lines.read_exact(&mut body).unwrap();
                    body.truncate(whole);
                    let of_head = if sizes.len() == 2 { sizes[0] } else { 0 };
                    let rest = body.split_off(of_head);
                    let has_reply = words.len() > 3 + sizes.len();
                    return Some(NatsMessage {
                        subject: words[1].to_owned(),
                        reply: if has_reply {
                            words[3].to_owned()
                        } else {
                            String::new()
                        },
                        headers: String::from_utf8(body).unwrap(),
                        body: rest,
                    });
                }
                None => panic!("the server has closed the connection"),
                Some(_) => {}
            }
        }
    }
}
