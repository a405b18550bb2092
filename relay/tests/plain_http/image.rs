//! `GET /pv/NAME.png` and `/pv/NAME.mjpeg`: an NTNDArray as an image.

use std::io::{Read, Write};
use std::net::TcpStream;

use testbed::{DEADLINE, Network, Relay, StructureServer, eventually, prefix};

use super::client::{PATIENT, get, patient};

/// Sends a request and reads until `enough`, or to the end.
fn ask(relay: &Relay, path: &str, enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut stream = TcpStream::connect(relay.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    let host = relay.address();
    let path = patient(path);
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let (mut bytes, mut chunk) = (Vec::new(), [0; 1 << 16]);
    while !enough(&bytes) {
        match stream.read(&mut chunk).unwrap() {
            0 => break,
            count => bytes.extend_from_slice(&chunk[..count]),
        }
    }
    bytes
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
