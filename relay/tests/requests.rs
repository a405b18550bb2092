//! Requests that the relay answers, refuses, or closes the connection for.
//!
//! Topology: one relay, one or two clients; an IOC where a PV is needed.

use pvwire_schema::close::CloseCode;
use pvwire_schema::encode;
use pvwire_schema::limits::{MAX_NAME_BYTES, MAX_NAMES, MAX_REQUEST_BYTES};
use pvwire_schema::types::{
    ConnectionState, NameProblem, PutRequest, PutValue, PvId, Reply, Request, RequestBody,
    RequestProblem,
};
use testbed::{Client, DEADLINE, How, Network, Relay, SoftIoc, eventually, get, prefix};

use crate::door::{relay, subscribe};

#[test]
fn message_that_is_no_request_ends_the_connection() {
    let relay = relay(&[]);
    let whole = encode::request(&Request {
        id: 1,
        body: RequestBody::Ping { client_time_ns: 1 },
    });
    let mut cut = whole.clone();
    cut.truncate(whole.len() - 6);
    let mut other = whole.clone();
    other[4..8].copy_from_slice(b"PVWF");
    for bytes in [&b"x"[..], b"garbage", &[0xff; 200], &cut, &other] {
        let mut client = Client::connect(relay.address());
        client.send(bytes);
        assert_eq!(
            client.wait_closed(),
            CloseCode::BadRequest.number(),
            "{bytes:?}"
        );
    }
    let mut client = Client::connect(relay.address());
    client.send_text(r#"{"type":"subscribe"}"#);
    assert_eq!(client.wait_closed(), CloseCode::BadRequest.number());
    eventually("they are gone", || {
        relay.metric("pvwire_sessions_active") == 0.0
    });
    relay.wait_metric("pvwire_sessions_closed_total", 6.0);
    // One client's invalid request does not affect others.
    Client::connect(relay.address()).ask(RequestBody::Ping { client_time_ns: 1 });
}

/// A Ping whose kind was changed to one that this version doesn't have.
fn request_of_the_future(id: u32) -> Vec<u8> {
    let body = RequestBody::Ping { client_time_ns: 1 };
    let mut bytes = encode::request(&Request { id, body });
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let root = word(0);
    let vtable = root.wrapping_sub(word(root) as i32 as isize as usize);
    // The union's kind is the field before its value: id 1, two bytes each after two lengths.
    let slot = vtable + 4 + 2;
    let offset = u16::from_le_bytes([bytes[slot], bytes[slot + 1]]);
    bytes[root + usize::from(offset)] = 99;
    bytes
}

#[test]
fn request_of_an_unknown_kind_is_answered_and_ends_nothing() {
    let relay = relay(&[]);
    let mut client = Client::connect(relay.address());

    client.send(&request_of_the_future(77));
    let (reply, _) = client.wait_answer(77);

    let Reply::Error { problem, message } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(problem, RequestProblem::NotSupported, "{message}");
    client.ask(RequestBody::Ping { client_time_ns: 1 });
}

#[test]
fn request_with_too_many_names_is_refused_and_ends_nothing() {
    let relay = relay(&[]);
    let mut client = Client::connect(relay.address());
    let names = vec!["x".to_owned(); MAX_NAMES + 1];
    let ids = vec![PvId(0); MAX_NAMES + 1];
    let timeout_ms = 1;
    for body in [
        subscribe(names.clone()),
        RequestBody::Get {
            names,
            timeout_ms,
            description: false,
        },
        RequestBody::Unsubscribe { ids },
    ] {
        let (reply, _) = client.ask(body);
        let Reply::Error { problem, message } = reply else {
            panic!("{reply:?}");
        };
        assert_eq!(problem, RequestProblem::Refused);
        assert!(message.contains("10000"), "{message}");
    }
    assert_eq!(relay.metric("pvwire_monitors_active"), 0.0);
}

#[test]
fn request_longer_than_the_limit_is_told_so() {
    let relay = relay(&[]);
    let mut client = Client::connect(relay.address());
    let limit = client.hello.as_ref().unwrap().max_request_bytes as usize;
    assert_eq!(limit, MAX_REQUEST_BYTES);

    client.send(&vec![0; 4 * limit]);

    assert_eq!(client.wait_closed(), CloseCode::RequestTooLarge.number());
    // The request may be a put.
    let reason = CloseCode::RequestTooLarge.reason();
    assert!(reason.contains("1 MiB") && reason.contains("write fewer elements"));
}

#[test]
fn subscriptions_beyond_the_limit_are_refused_one_by_one() {
    let relay = relay(&["--max-subscriptions", "3"]);
    let prefix = prefix();
    let mut client = Client::connect(relay.address());
    assert_eq!(client.hello.as_ref().unwrap().max_subscriptions, 3);
    let names = ["a", "b", "c", "d", "a", "e"].map(|name| format!("{prefix}{name}"));

    let errors = client.subscribe(&names);

    let problems: Vec<_> = (errors.iter())
        .map(|error| (error.index, error.problem))
        .collect();
    let too_many = NameProblem::TooManySubscriptions;
    assert_eq!(problems, [(3, too_many), (5, too_many)]);
    assert_eq!(client.pvs.len(), 3);
    // Refused names take no room, and room is available again when others are released.
    client.unsubscribe(&[&names[0]]);
    assert_eq!(client.subscribe(&names[3..4]), []);
    assert_eq!(client.pvs.len(), 3);
}

#[test]
fn client_with_too_many_open_requests_is_closed() {
    let relay = relay(&["--linger-ms", "0"]);
    let mut client = Client::connect(relay.address());
    let names = vec![format!("{}nobody", prefix())];
    let get = RequestBody::Get {
        names,
        timeout_ms: 60_000,
        description: false,
    };
    for _ in 0..64 {
        client.request(get.clone());
    }
    // Requests that need no waiting are still answered.
    client.ask(RequestBody::Ping { client_time_ns: 1 });
    assert_eq!(client.closed, None);

    client.request(get);

    assert_eq!(client.wait_closed(), CloseCode::TooManyRequests.number());
    // Everything that it had requested is released.
    eventually("no monitor is left", || {
        relay.metric("pvwire_monitors_active") == 0.0
    });
}

#[test]
fn client_that_never_reads_its_answers_is_dropped() {
    let relay = relay(&[]);
    let small = How {
        receive_buffer: Some(4096),
        acks: false,
        lz4: false,
        trust: None,
    };
    let mut client = Client::connect_as(relay.address(), small);
    let closed = "pvwire_sessions_closed_total{code=\"4429\"} 1";

    eventually("it is dropped", || {
        for _ in 0..100 {
            client.request(RequestBody::Ping { client_time_ns: 1 });
        }
        get(relay.address(), "/metrics", &[]).body.contains(closed)
    });
}

/// One request of each kind; `None` requests a stream of large values.
fn one_of_each() -> Vec<Option<RequestBody>> {
    let unknown = format!("{}nobody", prefix());
    let names = ["sim://counter(rate_hz=50)", "sim://waveform(size=50000)"];
    let names: Vec<String> = names.map(String::from).into();
    let put = |name: &str, wait| {
        RequestBody::Put(PutRequest {
            name: name.into(),
            value: PutValue::Number(1.0),
            wait,
            timeout_ms: 0,
            expected: None,
        })
    };
    let requests = [
        subscribe(names.clone()),
        subscribe(vec![unknown.clone()]),
        RequestBody::Unsubscribe {
            ids: vec![PvId(0), PvId(1)],
        },
        RequestBody::Get {
            names,
            timeout_ms: 0,
            description: false,
        },
        RequestBody::Ack { tick: 1 },
        RequestBody::Ping { client_time_ns: 1 },
        put(&unknown, true),
        put("sim://counter(rate_hz=50)", false),
        RequestBody::Rpc {
            name: unknown,
            arguments: Vec::new(),
            timeout_ms: 0,
        },
        RequestBody::Authenticate { token: "x".into() },
        RequestBody::Pace { interval_ms: 10 },
        RequestBody::Pace { interval_ms: 0 },
    ];
    requests.into_iter().map(Some).chain([None]).collect()
}

#[test]
fn client_that_is_gone_before_its_answers_affects_no_other() {
    for flags in [&[][..], &["--enable-put", "--allow-put=*"]] {
        let relay = relay(flags);
        let requests = one_of_each();
        for first in &requests {
            for second in &requests {
                let mut client = Client::connect(relay.address());
                for request in [first, second].into_iter().flat_map(|one| [one; 5]) {
                    match request {
                        Some(body) => _ = client.request(body.clone()),
                        None => client.send(&[]),
                    }
                }
                // Unread answers make this a reset.
                drop(client);
            }
        }
        let mut client = Client::connect(relay.address());
        client.ask(RequestBody::Ping { client_time_ns: 1 });
        eventually("the others are gone", || {
            relay.metric("pvwire_sessions_active") == 1.0
        });
    }
}

#[test]
fn bad_names_are_refused_with_a_reason_and_the_others_served() {
    let network = Network::new();
    let ioc = SoftIoc::start(network, r#"record(ao, "$(P)ao") { field(VAL, "1") }"#);
    let relay = Relay::start(network, &[]);
    let mut client = Client::connect(relay.address());
    let good = ioc.name("ao");
    let long = "x".repeat(MAX_NAME_BYTES + 1);
    let names = [
        "",
        "A B",
        good.as_str(),
        "tango://x",
        "A\u{0}B",
        &long,
        "ca://",
    ];

    let errors = client.subscribe(&names);

    let problems: Vec<_> = (errors.iter())
        .map(|error| (error.index, error.problem))
        .collect();
    let bad = NameProblem::BadName;
    let expected = [
        (0, bad),
        (1, bad),
        (3, NameProblem::NoSuchSource),
        (4, bad),
        (5, bad),
        (6, bad),
    ];
    assert_eq!(problems, expected);
    assert!(errors.iter().all(|error| !error.message.is_empty()));
    client.wait_number(&good, 1.0);
    assert_eq!(client.pv(&good).state(), ConnectionState::Connected);
    // A get returns the same.
    let (pvs, errors) = client.get(&names, 0);
    assert_eq!(errors.len(), 6);
    assert!(pvs[2].as_ref().unwrap().is_number(1.0));
}

#[test]
fn half_a_request_is_not_waited_for_for_ever() {
    use std::io::{Read, Write};
    let relay = relay(&[]);
    let mut stream = std::net::TcpStream::connect(relay.address()).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream
        .write_all(b"GET /status HTTP/1.1\r\nHost: 12")
        .unwrap();
    let mut rest = Vec::new();
    stream.read_to_end(&mut rest).unwrap();
    assert!(!rest.starts_with(b"HTTP/1.1 200"));
}
