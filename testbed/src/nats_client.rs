//! A program on NATS that is no relay: it hears and sends what a test wants.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::NatsServer;

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
