//! The relay's simulated PVs behave like all others, without any IOC.
//!
//! Topology: one relay, one or two clients.

use std::f64::consts::TAU;

use pvwire_schema::types::{
    ConnectionState, NameProblem, Outcome, PutRequest, PutValue, Reply, RequestBody, Severity,
    ValueType,
};

use testbed::{Client, DEADLINE, Kept, Network, Relay, eventually, keep_up, relay_command};

fn start(flags: &[&str]) -> (Relay, Client) {
    let relay = Relay::start(Network::new(), flags);
    let client = Client::connect(relay.address());
    (relay, client)
}

#[test]
fn every_generator_is_connected_described_and_read_only() {
    let (_relay, mut client) = start(&["--enable-put", "--allow-put=*"]);
    let cases = [
        ("sim://sine", ValueType::Float64, 1),
        ("sim://ramp", ValueType::Float64, 1),
        ("sim://noise", ValueType::Float64, 1),
        ("sim://counter", ValueType::Float64, 1),
        ("sim://waveform", ValueType::Float64, 1000),
        ("sim://image", ValueType::UInt8, 64 * 48),
        ("sim://enum", ValueType::Enum, 1),
        ("sim://string", ValueType::String, 1),
        ("ssim://sine", ValueType::Float64, 1),
        ("ssim://sinewave", ValueType::Float64, 50),
        ("ssim://rampwave", ValueType::Float64, 10),
    ];
    client.subscribe_live(&cases.map(|(name, _, _)| name));
    for (name, value_type, count) in cases {
        let pv = client.pv(name);
        let metadata = pv.metadata.as_ref().unwrap();
        assert_eq!(
            (metadata.value_type, metadata.element_count),
            (value_type, count),
            "{name}"
        );
        assert_ne!(metadata.description, "", "{name}");
        let connection = pv.connection.unwrap();
        assert_eq!(connection.state, ConnectionState::Connected, "{name}");
        assert_eq!((connection.read, connection.write), (true, false), "{name}");
        match &pv.now.as_ref().unwrap().value {
            Kept::Array(of, bytes) => {
                let size = count as usize * value_type.element_bytes().unwrap();
                assert_eq!((*of, bytes.len()), (value_type, size), "{name}");
            }
            Kept::Text(_) => assert_eq!(value_type, ValueType::String),
            Kept::Number(_) => assert_eq!(count, 1),
            other => panic!("{name} is {other:?}"),
        }
    }
    let body = RequestBody::Put(PutRequest {
        name: "sim://sine".into(),
        value: PutValue::Number(1.0),
        wait: false,
        timeout_ms: 0,
        expected: None,
    });
    match client.ask(body).0 {
        Reply::PutDone { outcome, message } => {
            assert_eq!(outcome, Outcome::NotSupported, "{message}");
        }
        other => panic!("{other:?} answers a put"),
    }
}

#[test]
fn sine_has_at_each_stamp_the_value_and_severity_of_that_moment() {
    const NAME: &str = "sim://sine(0.5,amplitude=4,offset=1,rate_hz=200)";
    let (_relay, mut client) = start(&[]);
    client.subscribe_live(&[NAME]);
    client.wait_pv(NAME, "several periods", |pv| pv.rows.len() > 300);
    let rows = &client.pv(NAME).rows;
    for row in rows {
        let Kept::Number(value) = row.value else {
            panic!("{row:?}")
        };
        let phase = (row.time_ns % 500_000_000) as f64 / 5e8;
        let of_amplitude = (TAU * phase).sin();
        assert!((value - (1.0 + 4.0 * of_amplitude)).abs() < 1e-9, "{row:?}");
        let severity = match of_amplitude.abs() {
            0.9.. => Severity::Major,
            0.7.. => Severity::Minor,
            _ => Severity::NoAlarm,
        };
        assert_eq!(row.alarm.severity, severity, "{row:?}");
    }
    for severity in [Severity::NoAlarm, Severity::Minor, Severity::Major] {
        assert!(rows.iter().any(|row| row.alarm.severity == severity));
    }
    assert!(rows.windows(2).all(|two| two[0].time_ns < two[1].time_ns));
}

#[test]
fn clients_of_one_name_share_one_generator() {
    const NAME: &str = "sim://counter(rate_hz=500,start=-3)";
    let (relay, mut first) = start(&[]);
    let mut second = Client::connect(relay.address());
    first.subscribe_live(&[NAME]);
    second.subscribe_live(&[NAME]);
    assert_eq!(first.id(NAME), second.id(NAME));
    keep_up("100 updates", &mut [&mut first, &mut second], |clients| {
        clients
            .iter()
            .all(|client| client.pv(NAME).rows.len() > 100)
    });
    for client in [&first, &second] {
        for row in &client.pv(NAME).rows {
            // The update's number and its value rise together for every client.
            let value = f64::from(row.sequence) - 4.0;
            assert_eq!(row.value, Kept::Number(value));
        }
    }
}

#[test]
fn name_of_an_impossible_generator_is_refused_with_a_reason() {
    let (_relay, mut client) = start(&[]);
    let errors = client.subscribe(&[
        "sim://cosine",
        "sim://sine(rate_hz=5000)",
        "ssim://ramp",
        "sim://ramp",
    ]);
    let sine_takes = "sine(period_s=10,amplitude=1,offset=0,rate_hz=10)";
    let expected = [
        (
            0,
            "sim has no generator \"cosine\"; it has: sine, ramp, noise, counter, waveform, \
             image, camera, enum, string"
                .to_owned(),
        ),
        (
            1,
            format!(
                "sine: rate_hz is \"5000\", which is not a number from 0.001 to 1000; its \
                 arguments and defaults: {sine_takes}"
            ),
        ),
        (
            2,
            "ssim has no generator \"ramp\"; it has: sine, sinewave, rampwave".to_owned(),
        ),
    ];
    let seen = errors.into_iter().map(|error| {
        assert_eq!(error.problem, NameProblem::BadName);
        (error.index, error.message)
    });
    assert_eq!(seen.collect::<Vec<_>>(), expected);
}

#[test]
fn array_of_a_million_doubles_comes_whole() {
    const NAME: &str = "sim://waveform(1000000,waves=1,amplitude=2,rate_hz=5)";
    let (_relay, mut client) = start(&[]);
    client.subscribe_live(&[NAME]);
    let Kept::Array(_, bytes) = &client.pv(NAME).now.as_ref().unwrap().value else {
        panic!("it is an array");
    };
    let doubles: Vec<f64> = (bytes.as_chunks::<8>().0.iter())
        .map(|bytes| f64::from_le_bytes(*bytes))
        .collect();
    assert_eq!(doubles.len(), 1_000_000);
    let largest = doubles.iter().copied().fold(f64::MIN, f64::max);
    assert!((largest - 2.0).abs() < 1e-6, "{largest}");
    for index in 0..500_000 {
        let opposite = doubles[index] + doubles[index + 500_000];
        assert!(opposite.abs() < 1e-6, "element {index}: {opposite}");
    }
}

#[test]
fn relay_with_busy_generators_stops_when_it_is_told() {
    let (mut relay, mut client) = start(&["--drain-delay-ms=0", "--drain-spread-ms=0"]);
    let names: Vec<_> = (0..100)
        .map(|n| format!("sim://noise(rate_hz=1000,seed={n})"))
        .collect();
    client.subscribe_live(&names);
    relay.signal("TERM");
    assert_eq!(client.wait_closed(), 1012);
    assert!(relay.wait_end(DEADLINE).success());
}

#[test]
fn age_of_updates_is_measured_on_receipt_and_when_sent() {
    let (relay, mut client) = start(&[]);
    client.subscribe_live(&["sim://counter(rate_hz=100)"]);
    let count = |when: &str| relay.metric(&format!("pvwire_update_age_{when}_seconds_count"));
    keep_up("ages of some updates", &mut [&mut client], |_| {
        count("received") >= 3.0 && count("sent") >= 20.0
    });
    let sum = |when: &str| relay.metric(&format!("pvwire_update_age_{when}_seconds_sum"));
    assert!(sum("received") >= 0.0);
    assert!(
        sum("sent") / count("sent") < 5.0,
        "the clock is the same one"
    );
}

#[test]
fn ramp_whose_length_underflows_does_not_end_the_relay() {
    let (mut relay, mut client) = start(&[]);
    // The quotient of its range and its step is too small for a double.
    client.subscribe_live(&[
        "ssim://rampwave(5,1,0,1e-320,1e15)",
        "sim://counter(rate_hz=100)",
    ]);
    client.wait_pv("sim://counter(rate_hz=100)", "many updates", |pv| {
        pv.rows.len() > 50
    });
    assert!(relay.runs());
}

#[test]
fn simulated_pvs_are_off_unless_the_operator_enables_them() {
    let network = Network::new();
    let mut command = relay_command(network);
    command.env_remove("PVWIRE_ENABLE_SIM");
    let relay = Relay::spawn(command, &[]);
    let mut client = Client::connect(relay.address());
    for name in ["sim://sine", "ssim://rampwave(5,1,0,1e-320,1e15)"] {
        let errors = client.subscribe(&[name]);
        assert_eq!(errors.len(), 1, "{name}");
        let message = &errors[0].message;
        assert!(message.contains("(enable_sim)"), "{message}");
    }
}

#[test]
fn simulated_pvs_of_one_client_are_refused_beyond_its_load() {
    const LARGE: &str = "sim://waveform(1000000,rate_hz=40,amplitude=";
    let large = |n: u32| format!("{LARGE}{n})");
    let (relay, mut greedy) = start(&["--linger-ms=0"]);
    assert_eq!(greedy.subscribe(&[large(1)]), []);
    let errors = greedy.subscribe(&[large(2), "sim://sine".into()]);
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(
        (errors[0].index, errors[0].problem),
        (0, NameProblem::TooManyPvs)
    );
    let message = &errors[0].message;
    assert!(message.contains("unsubscribe some first"), "{message}");
    let (_, errors) = greedy.get(&[&large(3)], 1000);
    assert_eq!(errors.len(), 1, "{errors:?}");
    let message = &errors[0].message;
    assert!(message.contains("unsubscribe some first"), "{message}");
    // Another client has a separate share, until the whole load is used.
    let mut good = Client::connect(relay.address());
    assert_eq!(good.subscribe(&[large(4)]), []);
    greedy.unsubscribe(&[&*large(1)]);
    eventually("its share is free again", || {
        greedy.subscribe(&[large(5)]).is_empty()
    });
}
