//! Names of PVs come from ChannelFinder, whatever it answers.
//!
//! Topology: the HTTP face of a ChannelFinder in this process, and a relay.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use testbed::{DEADLINE, Network, Relay, eventually, file, get, relay_command};

use crate::questions::{by_http, named};

/// Where the service is.
const SERVICE: &str = "/ChannelFinder";

/// What the ChannelFinder does with a request.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Manner {
    /// Answers a page of its channels.
    Lists,
    /// The same to this `Authorization` alone.
    ListsTo(String),
    /// Answers this status.
    Refuses(u16),
    /// Sends clients to another address.
    Redirects(String),
    /// Never answers.
    IsSilent,
    /// Begins an answer and stops.
    Stops,
    /// Gives an answer byte by byte, without end.
    Drips,
    /// Announces more than it gives.
    Cuts,
    /// Gives an answer of many megabytes.
    IsHuge,
    /// Answers with a web page.
    ShowsAPage,
    /// Answers something that isn't HTTP.
    Babbles,
    /// Gives the first page for ever.
    Repeats,
}

/// The channels by their names, each as JSON.
type Channels = BTreeMap<String, String>;

#[derive(Clone)]
struct Shared {
    manner: Arc<Mutex<Manner>>,
    channels: Arc<Mutex<Arc<Channels>>>,
    /// Heads of the requests so far.
    requests: Arc<Mutex<Vec<String>>>,
    ended: Arc<Mutex<bool>>,
}

/// A running ChannelFinder; dropping it ends it.
struct Finder {
    address: SocketAddr,
    shared: Shared,
    accepting: Option<JoinHandle<()>>,
}

impl Finder {
    fn start(channels: &[Value]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared {
            manner: Arc::new(Mutex::new(Manner::Lists)),
            channels: Arc::default(),
            requests: Arc::default(),
            ended: Arc::default(),
        };
        let of_thread = shared.clone();
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                if *of_thread.ended.lock().unwrap() {
                    return;
                }
                let (stream, shared) = (stream.unwrap(), of_thread.clone());
                // A client may leave at any time.
                thread::spawn(move || shared.serve(stream).ok());
            }
        });
        let finder = Self {
            address,
            shared,
            accepting: Some(accepting),
        };
        finder.has(channels);
        finder
    }

    /// Replaces its channels.
    fn has(&self, channels: &[Value]) {
        let channels = channels.iter().map(|channel| {
            let name = channel["name"].as_str().unwrap().to_owned();
            (name, channel.to_string())
        });
        *self.shared.channels.lock().unwrap() = Arc::new(channels.collect());
    }

    fn does(&self, manner: Manner) {
        *self.shared.manner.lock().unwrap() = manner;
    }

    fn url(&self) -> String {
        format!("http://{}{SERVICE}", self.address)
    }

    fn flag(&self) -> String {
        format!("--channelfinder={}", self.url())
    }

    fn requests(&self) -> Vec<String> {
        self.shared.requests.lock().unwrap().clone()
    }

    /// The requested paths.
    fn paths(&self) -> Vec<String> {
        let paths = self.requests().into_iter();
        paths
            .map(|head| head.split(' ').nth(1).unwrap().to_owned())
            .collect()
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        *self.shared.ended.lock().unwrap() = true;
        // Wakes the thread.
        drop(TcpStream::connect(self.address));
        self.accepting.take().unwrap().join().unwrap();
    }
}

impl Shared {
    fn serve(&self, mut stream: TcpStream) -> std::io::Result<()> {
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte)?;
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap();
        self.requests.lock().unwrap().push(head.clone());
        let manner = self.manner.lock().unwrap().clone();
        match manner {
            Manner::Lists => self.list(&mut stream, &head, false),
            Manner::Repeats => self.list(&mut stream, &head, true),
            Manner::ListsTo(login) => {
                let line = format!("\r\nauthorization: {login}\r\n");
                if head.contains(&line) {
                    self.list(&mut stream, &head, false)
                } else {
                    answer(&mut stream, 401, "", "{}")
                }
            }
            Manner::Refuses(status) => answer(&mut stream, status, "", "{}"),
            Manner::Redirects(to) => answer(&mut stream, 302, &format!("Location: {to}\r\n"), ""),
            Manner::IsSilent => stream.read(&mut [0]).map(drop),
            Manner::Stops => {
                begin(&mut stream, 200, "", 1_000)?;
                stream.write_all(b"{\"id\":\"A\",")?;
                stream.read(&mut [0]).map(drop)
            }
            Manner::Drips => {
                begin(&mut stream, 200, "", 1_000_000)?;
                let patience = Duration::from_millis(50);
                stream.set_read_timeout(Some(patience))?;
                // Until the client leaves.
                while stream.read(&mut [0]).is_err() {
                    stream.write_all(b" ")?;
                }
                Ok(())
            }
            Manner::Cuts => {
                begin(&mut stream, 200, "", 1_000)?;
                stream.write_all(b"{\"id\":\"A\",")
            }
            Manner::IsHuge => {
                begin(&mut stream, 200, "", 1 << 40)?;
                let piece = vec![b' '; 1 << 20];
                loop {
                    stream.write_all(&piece)?;
                }
            }
            Manner::ShowsAPage => answer(&mut stream, 200, "", "<html>Hello</html>"),
            Manner::Babbles => stream.write_all(b"220 mail.example.org ready\r\n"),
        }
    }

    /// As `/resources/scroll` answers: by the alphabet, after the name in the path, and those that the query wants.
    fn list(&self, stream: &mut TcpStream, head: &str, from_begin: bool) -> std::io::Result<()> {
        let path = head.split(' ').nth(1).unwrap();
        let route = format!("{SERVICE}/resources/scroll");
        let Some((path, query)) = path
            .strip_prefix(&route)
            .and_then(|path| path.split_once('?'))
        else {
            return answer(stream, 404, "", "{}");
        };
        // The servlet container refuses these in a path, encoded or not.
        let is_refused = ["%2F", "%5C", "%3B", "%25"]
            .iter()
            .any(|code| path.contains(code));
        if is_refused || path.matches('/').count() > 1 {
            return answer(stream, 400, "", "{}");
        }
        let after = decoded(path.trim_start_matches('/'));
        let arguments: Vec<_> = query
            .split('&')
            .map(|part| part.split_once('=').unwrap())
            .collect();
        let size = arguments.iter().find(|(name, _)| *name == "~size");
        let size: usize = size.map_or(10_000, |(_, size)| size.parse().unwrap());
        let all = Arc::clone(&self.channels.lock().unwrap());
        let is_wanted = |(name, channel): &(&String, &String)| {
            arguments.iter().all(|(key, value)| match *key {
                "~size" => true,
                "~name" => match value.strip_suffix('*') {
                    Some(begin) => name.starts_with(begin),
                    None => name == value,
                },
                key => {
                    let channel: Value = serde_json::from_str(channel).unwrap();
                    let property =
                        json!({ "name": key, "owner": "o", "value": value, "channels": [] });
                    channel["properties"]
                        .as_array()
                        .unwrap()
                        .contains(&property)
                }
            })
        };
        let from = if after.is_empty() || from_begin {
            std::ops::Bound::Unbounded
        } else {
            std::ops::Bound::Excluded(after)
        };
        let found = all.range((from, std::ops::Bound::Unbounded));
        let found: Vec<_> = found.filter(is_wanted).take(size).collect();
        let id = found.last().map(|(name, _)| name);
        let channels: Vec<_> = found.iter().map(|(_, channel)| channel.as_str()).collect();
        let body = format!(
            "{{\"id\":{},\"channels\":[{}]}}",
            json!(id),
            channels.join(",")
        );
        answer(stream, 200, "", &body)
    }
}

/// Percent-decoded.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte == b'%' {
            let code = std::str::from_utf8(&rest[..2]).unwrap();
            bytes.push(u8::from_str_radix(code, 16).unwrap());
            rest = &rest[2..];
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

fn begin(stream: &mut TcpStream, status: u16, headers: &str, length: u64) -> std::io::Result<()> {
    write!(
        stream,
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\
         Connection: close\r\n\r\n"
    )
}

fn answer(stream: &mut TcpStream, status: u16, headers: &str, body: &str) -> std::io::Result<()> {
    begin(stream, status, headers, body.len() as u64)?;
    stream.write_all(body.as_bytes())
}

/// A channel as recceiver makes it.
fn channel(name: &str, properties: &[(&str, &str)], tags: &[&str]) -> Value {
    let property = |(name, value): &(&str, &str)| json!({ "name": name, "owner": "o", "value": value, "channels": [] });
    let tag = |name: &&str| json!({ "name": name, "owner": "o", "channels": [] });
    json!({
        "name": name,
        "owner": "o",
        "properties": properties.iter().map(property).collect::<Vec<_>>(),
        "tags": tags.iter().map(tag).collect::<Vec<_>>(),
    })
}

fn plain(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| channel(name, &[], &[])).collect()
}

/// What `/status` says of the one service whose names the relay reads.
pub(crate) fn status(relay: &Relay) -> Value {
    let answer = get(
        relay.address(),
        "/status",
        &[("Accept", "application/json")],
    );
    let mut status: Value = serde_json::from_str(&answer.body).unwrap();
    status["nameServices"][0].take()
}

pub(crate) fn offered(relay: &Relay, text: &str) -> Vec<String> {
    let answer = by_http(relay, &format!("q={text}&limit=1000"));
    named(&answer).into_iter().map(str::to_owned).collect()
}

#[test]
fn channels_are_offered_with_what_is_known_of_them_to_those_who_may_read() {
    let of_current = [
        ("recordType", "ai"),
        ("recordDesc", "Beam current"),
        ("hostName", "10.0.0.1"),
        ("iocName", "ioc1"),
        ("pvStatus", "Active"),
        ("area", "ring"),
        ("PASSWORD", "x"),
    ];
    let of_alias = [("alias", "SR:SECRET"), ("pvStatus", "Active")];
    let finder = Finder::start(&[
        channel("SR:CURRENT", &of_current, &["archived"]),
        channel("SR:SECRET", &of_current, &[]),
        channel("SR:OPEN", &of_alias, &[]),
        channel("SR:GONE", &[("pvStatus", "Inactive")], &[]),
        channel("BR:CURRENT", &of_current, &[]),
        channel("SR:NOT A NAME", &of_current, &[]),
    ]);
    let rules = "[[rule]]\npv = \"SR:SECRET\"\ndeny = \"read\"\n";
    let rules = file("channelfinder.toml", rules);
    let flags = [
        "--config",
        rules.to_str().unwrap(),
        &format!("{}/resources?pvStatus=Active&~name=SR:*", finder.flag()),
        "--channelfinder-property=area",
    ];
    let relay = Relay::start(Network::new(), &flags);
    relay.wait_metric("pvwire_channelfinder_names", 3.0);
    let found = by_http(&relay, "q=r:");
    let expected = json!({ "names": [
        { "name": "SR:OPEN", "protocol": "ca", "from": ["channelfinder"] },
        {
            "name": "SR:CURRENT",
            "protocol": "ca",
            "from": ["channelfinder"],
            "about": {
                "type": "ai",
                "description": "Beam current",
                "host": "10.0.0.1",
                "ioc": "ioc1",
                "tags": ["archived"],
                "properties": { "area": "ring" },
            },
        },
    ] });
    assert_eq!(found, expected);
    let now = status(&relay);
    assert_eq!((&now["names"], &now["failure"]), (&json!(3), &Value::Null));
    assert!(now["lastReadSeconds"].as_f64().unwrap() > 1e9);
    assert!(relay.metric("pvwire_channelfinder_read_timestamp_seconds") > 1e9);
    assert_eq!(
        finder.paths(),
        [
            "/ChannelFinder/resources/scroll?pvStatus=Active&~name=SR:*&~size=1000",
            "/ChannelFinder/resources/scroll/SR%3ASECRET?pvStatus=Active&~name=SR:*&~size=1000",
        ]
    );
}

#[test]
fn names_that_no_path_can_have_are_listed_too() {
    let mut names: Vec<_> = (0..2_500).map(|n| format!("dir/{n:04};%2F")).collect();
    names.extend((0..100).map(|n| format!("A:{n}")));
    names.extend(["A/1", "zz/1", "zz\\2"].map(str::to_owned));
    let all: Vec<_> = names.iter().map(String::as_str).collect();
    let finder = Finder::start(&plain(&all));
    let relay = Relay::start(Network::new(), &[&finder.flag(), "--default-source=pva"]);
    relay.wait_metric("pvwire_channelfinder_names", all.len() as f64);
    assert_eq!(offered(&relay, "A%2F1"), [] as [&str; 0]);
    assert_eq!(offered(&relay, "A%252F1"), ["A%2F1"]);
    assert_eq!(offered(&relay, "0007"), ["dir%2F0007;%252F"]);
}

#[test]
fn twenty_thousand_channels_arrive_in_pages_and_twenty_are_found() {
    let name = |n: usize| {
        let (kind, signal) = (
            ["BPM", "PS", "VAC", "RF"][n % 4],
            ["X", "Y", "I", "TEMP", "STAT"][n % 5],
        );
        format!("SR{:02}:{kind}:{:04}:{signal}-{n:06}", n % 24, n / 20)
    };
    let properties = [
        ("recordType", "ai"),
        ("recordDesc", "A description of forty characters, or so"),
        ("hostName", "ioc-host-01.example.org"),
        ("iocName", "ioc-bpm-01"),
        ("pvStatus", "Active"),
        ("time", "2026-01-01 00:00:00.000000"),
        ("iocid", "10.0.0.1:5064"),
    ];
    let channels: Vec<_> = (0..20_000)
        .map(|n| channel(&name(n), &properties, &["archived"]))
        .collect();
    let finder = Finder::start(&channels);
    drop(channels);
    let relay = Relay::start(Network::new(), &[]);
    let without = relay.resident_bytes();
    drop(relay);
    let relay = Relay::start(Network::new(), &[&finder.flag()]);
    relay.wait_metric("pvwire_channelfinder_names", 20_000.0);
    let memory = relay.resident_bytes();
    assert_eq!(finder.paths().len(), 21, "one request for each page");
    let memory = memory.saturating_sub(without);
    assert!(memory < 50 << 20, "{memory} bytes");

    let texts = [
        "s",
        "sr",
        "temp",
        "bpm:00",
        "SR07:*:X-*",
        "*-012345",
        "nothing",
        "*",
    ];
    for text in texts {
        let found = by_http(&relay, &format!("q={text}&limit=20"));
        let names = named(&found);
        assert!(names.len() == 20 || found["next"].is_null(), "{text}");
        assert!(
            found["names"]
                .as_array()
                .unwrap()
                .iter()
                .all(|name| name["about"]["type"] == "ai")
        );
    }
}

#[test]
fn failure_keeps_the_names_is_logged_once_and_says_who_must_act() {
    let finder = Finder::start(&plain(&["A:1", "A:2"]));
    let elsewhere = Finder::start(&plain(&["EVIL"]));
    let flags = [
        &*finder.flag(),
        "--channelfinder-interval-ms=1000",
        "--channelfinder-timeout-ms=300",
    ];
    let relay = Relay::start(Network::new(), &flags);
    relay.wait_metric("pvwire_channelfinder_names", 2.0);
    for (manner, words) in [
        (
            Manner::Refuses(500),
            "answered 500 Internal Server Error: ChannelFinder's operator reads its log",
        ),
        (
            Manner::Refuses(404),
            "the relay's operator corrects the option channelfinder to the address",
        ),
        (
            Manner::Refuses(400),
            "corrects the query in the option channelfinder",
        ),
        (
            Manner::Refuses(401),
            "the relay's operator sets channelfinder_credentials",
        ),
        (
            Manner::Redirects(elsewhere.url()),
            "names the address to which this one redirects",
        ),
        (
            Manner::IsSilent,
            "has not begun to answer within 300 ms (channelfinder_timeout_ms): ChannelFinder's operator",
        ),
        (
            Manner::Stops,
            "has not given a further part of its answer within 300 ms",
        ),
        (Manner::Drips, "has not given all channels within 6000 ms"),
        (Manner::Cuts, "has cut its answer"),
        (
            Manner::IsHuge,
            "gave an answer of more than 16777216 bytes: ChannelFinder's operator",
        ),
        (
            Manner::ShowsAPage,
            "gave an answer that is no page of channels",
        ),
        (Manner::Babbles, "gave no answer of HTTP"),
        (Manner::Repeats, "gave the same page twice, after \"A:2\""),
    ] {
        finder.does(manner.clone());
        let why = || {
            status(&relay)["failure"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        eventually(&format!("{manner:?} is a failure"), || {
            why().contains(words)
        });
        assert_eq!(relay.metric("pvwire_channelfinder_failing"), 1.0);
        assert_eq!(offered(&relay, "a"), ["A:1", "A:2"], "{manner:?}");
    }
    // The last failure again, twice.
    let failures = relay.metric("pvwire_channelfinder_failures_total");
    eventually("it is tried again", || {
        relay.metric("pvwire_channelfinder_failures_total") >= failures + 2.0
    });
    let output = relay.output();
    assert_eq!(
        output.matches("gave the same page twice").count(),
        1,
        "{output}"
    );
    assert!(output.contains("clients are offered the 2 names that were read before"));

    finder.has(&plain(&["A:1", "B:3"]));
    finder.does(Manner::Lists);
    eventually("the names are read again", || {
        offered(&relay, "b") == ["B:3"]
    });
    assert_eq!(offered(&relay, "a"), ["A:1"]);
    let now = status(&relay);
    assert_eq!((&now["failure"], &now["names"]), (&Value::Null, &json!(2)));
    assert_eq!(relay.metric("pvwire_channelfinder_failing"), 0.0);
    assert!(
        elsewhere.requests().is_empty(),
        "redirects are not followed"
    );
}

#[test]
fn relay_starts_serves_and_stops_while_channelfinder_says_nothing() {
    let finder = Finder::start(&plain(&["A:1"]));
    finder.does(Manner::IsSilent);
    let mut relay = Relay::start(Network::new(), &[&finder.flag(), "--enable-sim"]);
    eventually("it is asked", || !finder.requests().is_empty());
    assert_eq!(offered(&relay, "a"), [] as [&str; 0]);
    let value = get(relay.address(), "/pv/sim:%2F%2Fsine", &[]);
    assert_eq!(value.status, 200, "{}", value.body);
    assert_eq!(status(&relay)["lastReadSeconds"], 0.0);
    relay.signal("TERM");
    assert!(relay.wait_end(DEADLINE).success());
}

#[test]
fn channelfinder_that_wants_a_login_gets_it_and_no_other_server_does() {
    let finder = Finder::start(&plain(&["A:1"]));
    // user:pass:word
    finder.does(Manner::ListsTo("Basic dXNlcjpwYXNzOndvcmQ=".to_owned()));
    let path = file("finder.credentials", "user:wrong\n");
    let credentials = format!("--channelfinder-credentials={}", path.display());
    let flags = [
        &*finder.flag(),
        &credentials,
        "--channelfinder-interval-ms=1000",
    ];
    let relay = Relay::start(Network::new(), &flags);
    eventually("the login is refused", || {
        let failure = status(&relay)["failure"].clone();
        failure.as_str().is_some_and(|why| why.contains("401"))
    });
    // The file is read again each time.
    std::fs::write(&path, "user:pass:word\n").unwrap();
    relay.wait_metric("pvwire_channelfinder_names", 1.0);
    std::fs::remove_file(&path).unwrap();
    eventually("the missing file is told", || {
        let failure = status(&relay)["failure"].clone();
        failure.as_str().is_some_and(|why| {
            why.contains("channelfinder_credentials: ") && why.contains("corrects the file")
        })
    });
    assert_eq!(offered(&relay, "a"), ["A:1"]);
    assert!(!relay.output().contains("word"), "no password is logged");

    for (content, words) in [
        (None, "No such file"),
        (Some("user"), "expected USER:PASSWORD in one line"),
        (Some(":password"), "expected USER:PASSWORD in one line"),
        (Some("user:a\nuser:b"), "expected USER:PASSWORD in one line"),
    ] {
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        let mut command = relay_command(Network::new());
        let flags = ["--listen=127.0.0.1:0", &*finder.flag(), &credentials];
        let ended = command.args(flags).output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(64), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
