//! `GET /pv/NAME/stream`: each change, losses that are counted, and ends that say why. `GET /pv/NAME.png` and
//! `/pv/NAME.mjpeg`: an NTNDArray as an image.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};
use testbed::{
    DEADLINE, Network, Relay, SoftIoc, StructureServer, eventually, file, in_repository, prefix,
    python,
};

use super::client::{Events, PATIENT, encoded, get, patient};

const DATABASE: &str = r#"
record(ao, "$(P)ao") { field(VAL, "1") field(HIGH, "5") field(HSV, "MINOR") field(PINI, "YES") }
"#;

fn number(event: &Value) -> i64 {
    event["value"]["number"].as_f64().unwrap() as i64
}

#[test]
fn stream_has_each_change_of_value_alarm_and_connection() {
    let network = Network::new();
    let mut ioc = SoftIoc::start(network, DATABASE);
    let relay = Relay::start(network, &["--drain-delay-ms=0", "--drain-spread-ms=100"]);
    let ao = ioc.name("ao");
    let mut all = Events::open(&relay, &format!("{ao}/stream"));
    let asked = encoded("{ value { float } }");
    let mut values = Events::open(&relay, &format!("{ao}/stream?select={asked}"));
    assert_eq!(
        values.next(),
        Some(("message".to_owned(), json!({"value": {"float": 1}})))
    );
    all.wait("the first value", |pv| pv["value"]["float"] == 1);
    for value in ["2", "7"] {
        ioc.put("ao", value);
        let expected = value.parse::<f64>().unwrap();
        let next = values.next().unwrap().1;
        assert_eq!(next["value"]["float"].as_f64(), Some(expected));
    }
    all.wait("the alarm", |pv| pv["status"]["severity"] == "MINOR");
    ioc.kill();
    let last = all.wait("the loss", |pv| pv["connection"]["state"] == "disconnected");
    assert_eq!(last["value"]["float"], 7, "{last}");

    let mut missing = Events::open(&relay, "NOSUCH:PV/stream?timeout_ms=1");
    relay.signal("TERM");
    for stream in [&mut all, &mut values, &mut missing] {
        let end = stream.wait_end();
        assert_eq!(end["code"], 1012, "{end}");
    }
}

#[test]
fn slow_reader_gets_the_newest_value_and_the_count_of_the_others() {
    let relay = Relay::start(Network::new(), &[]);
    // Long events fill the buffers of the connection soon.
    let key = "k".repeat(8_000);
    let asked = encoded(&format!("{{ value {{ number }} {key}: id }}"));
    let path = format!("sim:%2F%2Fcounter(rate_hz=200)/stream?select={asked}");
    let mut slow = Events::open_slow(&relay, &path);
    let mut before = number(&slow.next().unwrap().1);
    let begin = relay.metric("pvwire_updates_received_total");
    eventually("the client is far behind", || {
        relay.metric("pvwire_updates_received_total") > begin + 400.0
    });
    let (mut skipped, mut most) = (0, 0);
    // Each value was sent or counted.
    while most < 50 {
        let (name, data) = slow.next().unwrap();
        if name == "skipped" {
            skipped = data["count"].as_i64().unwrap();
            most = most.max(skipped);
            continue;
        }
        assert_eq!(
            number(&data),
            before + skipped + 1,
            "{skipped} were counted"
        );
        (before, skipped) = (number(&data), 0);
    }
    drop(slow);
    eventually("its client is gone", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
}

#[test]
fn interval_throttles_a_stream_and_rules_end_it() {
    let network = Network::new();
    let name = prefix();
    let rules = file(&format!("{}.toml", name.trim_end_matches(':')), "");
    let relay = Relay::start(network, &["--config", rules.to_str().unwrap()]);
    let asked = encoded("{ value { number } skips { filter } }");
    let path = format!("sim:%2F%2Fcounter(rate_hz=50)/stream?interval_ms=300&select={asked}");
    let mut events = Events::open(&relay, &path);
    let first = number(&events.next().unwrap().1);
    let (kind, second) = events.next().unwrap();
    assert_eq!(kind, "message", "left out on purpose");
    assert!(number(&second) > first + 1, "{first} {second}");
    assert!(
        second["skips"]["filter"].as_f64().unwrap() >= 1.0,
        "{second}"
    );
    std::fs::write(&rules, "[[rule]]\npv = \"sim://*\"\ndeny = \"read\"\n").unwrap();
    relay.signal("HUP");
    assert_eq!(events.wait_end()["code"], 4403);
}

/// The first events that httpx-sse of Python hands to its user.
fn by_httpx(relay: &Relay, path: &str, count: usize) -> Vec<Value> {
    let folder = in_repository(".local/script-clients");
    assert!(
        folder.join("httpx_sse").exists(),
        "make setup installs {}",
        folder.display()
    );
    let output = Command::new(python())
        .env("PYTHONPATH", folder)
        .arg(in_repository("relay/tests/plain_http/events.py"))
        .arg(format!("http://{}/pv/{path}", relay.address()))
        .arg(count.to_string())
        .output()
        .unwrap();
    let [said, failed] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{said}{failed}");
    said.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn httpx_sse_of_python_finds_data_in_each_event() {
    let relay = Relay::start(Network::new(), &[]);
    let asked = encoded("{ value { number } }");
    let path = format!("sim:%2F%2Fcounter(rate_hz=10)/stream?select={asked}");
    let events = by_httpx(&relay, &path, 3);
    assert_eq!(events[0]["retry"], 2_000, "{events:?}");
    for event in &events {
        assert_eq!(event["event"], "message", "{event}");
        assert!(event["data"]["value"]["number"].is_number(), "{event}");
    }
}

/// Sends a request and reads until `enough`, or to the end.
fn ask(relay: &Relay, path: &str, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    send(relay, &mut stream, path);
    let (mut bytes, mut chunk) = (Vec::new(), [0; 1 << 16]);
    while !enough(&bytes) {
        match stream.read(&mut chunk).unwrap() {
            0 => break,
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
    bytes
}

fn send(relay: &Relay, stream: &mut TcpStream, path: &str) {
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let host = relay.address();
    let path = patient(path);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
}

/// The heights of images in a stream, which their headers have.
struct Heights(BufReader<TcpStream>);

impl Heights {
    /// A stream over a connection whose receive buffer is soon full.
    fn open(relay: &Relay, path: &str) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        socket.connect(&relay.address().into()).unwrap();
        let mut stream = socket.into();
        send(relay, &mut stream, path);
        Self(BufReader::new(stream))
    }

    fn next(&mut self) -> u16 {
        // The header of a frame of JPEG: its length, the bits of a sample, the height.
        const FRAME: [u8; 4] = [0xff, 0xc0, 0, 11];
        let mut last = [0; 4];
        let mut byte = [0];
        while last != FRAME {
            self.0.read_exact(&mut byte).unwrap();
            last.rotate_left(1);
            last[3] = byte[0];
        }
        let mut rest = [0; 3];
        self.0.read_exact(&mut rest).unwrap();
        u16::from_be_bytes([rest[1], rest[2]])
    }
}

fn position(bytes: &[u8], of: &[u8]) -> Option<usize> {
    bytes.windows(of.len()).position(|window| window == of)
}

#[test]
fn image_is_png_and_motion_jpeg() {
    let network = Network::new();
    let structures = prefix();
    let _server = StructureServer::start(Some(network), &structures);
    let relay = Relay::start(network, &["--linger-ms=100", PATIENT]);
    let name = format!("pva:%2F%2F{structures}image");
    let answer = ask(&relay, &format!("{name}.png"), |_| false);
    let begin = position(&answer, b"\r\n\r\n").unwrap();
    let head = String::from_utf8_lossy(&answer[..begin]).to_lowercase();
    assert!(
        head.starts_with("http/1.1 200") && head.contains("image/png"),
        "{head}"
    );
    let png = &answer[begin + 4..];
    assert!(png.starts_with(b"\x89PNG\r\n\x1a\n") && png.ends_with(b"IEND\xae\x42\x60\x82"));
    let [width, height] =
        [16, 20].map(|at| u32::from_be_bytes(png[at..at + 4].try_into().unwrap()));
    // Width, height, bits and colours: grey.
    assert_eq!((width, height, png[24], png[25]), (1500, 1000, 16, 0));

    // The first image, to the end of a JPEG.
    let whole = |bytes: &[u8]| position(bytes, b"\xff\xd9\r\n").is_some();
    let motion = ask(&relay, &format!("{name}.mjpeg?interval_ms=100"), whole);
    let head = String::from_utf8_lossy(&motion[..200]).to_lowercase();
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(position(&motion, b"multipart/x-mixed-replace; boundary=image").is_some());
    assert!(position(&motion, b"--image\r\nContent-Type: image/jpeg\r\n").is_some());
    let jpeg = position(&motion, b"\xff\xd8\xff");
    assert!(jpeg < position(&motion, b"\xff\xd9\r\n"));

    let other = get(&relay, &format!("pva:%2F%2F{structures}site.png"));
    assert_eq!(other.status, 406, "{}", other.json);
    assert!(
        other.json["error"].as_str().unwrap().contains("NTNDArray"),
        "{}",
        other.json
    );
    eventually("no client is left", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
    eventually("nothing stays charged", || {
        relay.metric("pvwire_memory_charged_bytes") == 0.0
    });
}

#[test]
fn stream_of_images_ends_when_the_pv_is_no_image_any_more() {
    let network = Network::new();
    let structures = prefix();
    let mut server = StructureServer::start(Some(network), &structures);
    let relay = Relay::start(network, &[PATIENT]);
    server.reshape("image");
    let name = format!("pva:%2F%2F{structures}shaped");
    eventually("it is an image", || {
        ask(&relay, &format!("{name}.png"), |_| false).starts_with(b"HTTP/1.1 200")
    });
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    send(&relay, &mut stream, &format!("{name}.mjpeg"));
    let mut first = [0; 64];
    stream.read_exact(&mut first).unwrap();
    server.reshape("full");
    // It ends, and its images end with the last one.
    stream.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(get(&relay, &format!("{name}.png")).status, 406);
}

#[test]
fn slow_reader_of_images_gets_newer_ones_and_delays_no_other() {
    let network = Network::new();
    let structures = prefix();
    let _server = StructureServer::start(Some(network), &structures);
    let relay = Relay::start(network, &[PATIENT]);
    let path = format!("pva:%2F%2F{structures}growing.mjpeg");
    let mut slow = Heights::open(&relay, &path);
    let first = slow.next();
    // The other one is sent images meanwhile; 120 of them are 7 MB.
    let mut other = Heights::open(&relay, &path);
    while other.next() < first + 120 {}
    let charged = relay.metric("pvwire_memory_charged_bytes");
    assert!(charged < 3e6, "{charged} bytes");
    let newest = other.next();
    let mut heights = vec![first];
    while heights.last() < Some(&newest) {
        heights.push(slow.next());
    }
    assert!(heights.is_sorted_by(|one, next| one < next), "{heights:?}");
    let count = heights.len();
    assert!(count < usize::from(newest - first), "{heights:?}");
    // The last image of `heights` may be younger than `newest`.
    let left_out = usize::from(heights[count - 1] - first) + 1 - count;
    let skipped = relay.metric("pvwire_http_images_skipped_total") as usize;
    assert!(skipped >= left_out, "{skipped} of {left_out} are counted");
}
