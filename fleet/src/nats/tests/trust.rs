//! Tests of TLS, of credentials, and of servers that accept a connection and end it at once.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use nkeys::KeyPair;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, ExtendedKeyUsagePurpose, IsCa};
use testbed::{NatsServer, eventually, file};

use super::notes::{Members, settings};
use crate::nats::session::pause_after;

#[test]
fn server_with_a_certificate_of_the_given_authority_is_trusted() {
    let authority = || {
        let mut authority = CertificateParams::new(Vec::new()).unwrap();
        authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(authority, rcgen::KeyPair::generate().unwrap()).unwrap()
    };
    let (ours, other) = (authority(), authority());
    let mut certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    certificate.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = certificate.signed_by(&key, &ours).unwrap();
    let cert = file("nats.crt", &certificate.pem());
    let key = file("nats.key", &key.serialize_pem());
    let server =
        NatsServer::with_config(&format!("tls {{ cert_file: {cert:?}, key_file: {key:?} }}"));

    let mut trusting = settings(&server.url().replace("nats:", "tls:"));
    let mut refusing = trusting.clone();
    trusting.ca = Some(file("nats-ca.pem", &ours.pem()));
    refusing.ca = Some(file("nats-other-ca.pem", &other.pem()));
    let refused = Members::at(refusing).start();
    Members::at(trusting.clone()).join();
    assert!(!refused.bus.is_connected());

    let plain = NatsServer::start();
    trusting.servers = plain.url().parse().unwrap();
    let refused = Members::at(trusting).start();
    Members::of(&plain).join();
    assert!(!refused.bus.is_connected(), "it connected without TLS");
}

#[test]
fn credentials_are_a_password_or_the_seed_of_a_key() {
    let key = KeyPair::new_user();
    let users = format!(
        "authorization {{ users: [ {{ user: relay, password: \"s3cret\" }}, {{ nkey: {} }} ] }}",
        key.public_key()
    );
    let server = NatsServer::with_config(&users);
    let with = |name: &str, text: &str| {
        let mut settings = settings(&server.url());
        settings.credentials = Some(file(name, text));
        Members::at(settings)
    };
    let refused = with("nats-wrong", "relay:wrong").start();
    with("nats-password", "relay:s3cret\n").join();
    with("nats-seed", &key.seed().unwrap()).join();
    assert!(!refused.bus.is_connected());
    // They are read again for each connection.
    file("nats-wrong", "relay:s3cret");
    eventually("it is let in", || refused.bus.is_connected());
}

#[test]
fn credentials_file_with_a_jwt_is_accepted() {
    let (operator, account, user) = (
        KeyPair::new_operator(),
        KeyPair::new_account(),
        KeyPair::new_user(),
    );
    let of_operator = jwt(&operator, &operator, "operator");
    let of_account = jwt(&operator, &account, "account");
    let config = format!(
        "operator: {of_operator}\nresolver: MEMORY\nresolver_preload: {{ {}: {of_account} }}",
        account.public_key()
    );
    let server = NatsServer::with_config(&config);
    let creds = |user_jwt: &str| {
        let seed = user.seed().unwrap();
        format!(
            "-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        )
    };
    let with = |name: &str, text: &str| {
        let mut settings = settings(&server.url());
        settings.credentials = Some(file(name, text));
        Members::at(settings)
    };
    // Signed by an account that the operator doesn't know.
    let foreign = jwt(&KeyPair::new_account(), &user, "user");
    let refused = with("nats-foreign.creds", &creds(&foreign)).start();
    with("nats.creds", &creds(&jwt(&account, &user, "user"))).join();
    assert!(!refused.bus.is_connected());
}

/// A JWT of NATS, signed by `issuer`.
fn jwt(issuer: &KeyPair, subject: &KeyPair, kind: &str) -> String {
    // -1 is no limit; a user needs them, and an account allows nothing without them.
    let limits = match kind {
        "account" => {
            r#","limits":{"subs":-1,"data":-1,"payload":-1,"imports":-1,"exports":-1,"wildcards":true,"conn":-1,"leaf":-1}"#
        }
        "user" => r#","subs":-1,"data":-1,"payload":-1"#,
        _ => "",
    };
    let (iss, sub) = (issuer.public_key(), subject.public_key());
    let claims = format!(
        r#"{{"jti":"{sub}","iat":1700000000,"iss":"{iss}","name":"{kind}","sub":"{sub}","nats":{{"type":"{kind}","version":2{limits}}}}}"#
    );
    let head = URL_SAFE_NO_PAD.encode(r#"{"typ":"JWT","alg":"ed25519-nkey"}"#);
    let signed = format!("{head}.{}", URL_SAFE_NO_PAD.encode(claims));
    let signature = issuer.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))
}

#[test]
fn pause_doubles_up_to_a_second_and_ends_with_a_good_connection() {
    let at_once = Duration::from_millis(1);
    let mut pauses = vec![Duration::ZERO];
    while pauses.len() < 8 {
        pauses.push(pause_after(at_once, pauses[pauses.len() - 1]));
    }
    let millis = pauses.iter().map(Duration::as_millis);
    assert_eq!(
        millis.collect::<Vec<_>>(),
        [0, 50, 100, 200, 400, 800, 1000, 1000]
    );
    let good = Duration::from_secs(1);
    assert_eq!(pause_after(good, good), Duration::ZERO);
}

/// The part of a server up to the first answer; returns whether the client is one of NATS. Another program may still look for
/// what had this port before.
fn greet(mut stream: TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let info = "INFO {\"server_id\":\"X\",\"server_name\":\"X\",\"version\":\"2.10.0\",\"go\":\"\",\
                \"host\":\"127.0.0.1\",\"port\":4222,\"headers\":true,\"max_payload\":1048576,\"proto\":1}\r\n";
    stream.write_all(info.as_bytes()).unwrap();
    let lines = BufReader::new(stream.try_clone().unwrap()).lines();
    for line in lines.map_while(Result::ok) {
        if line.starts_with("PING") {
            let _ = stream.write_all(b"PONG\r\n");
            return true;
        }
    }
    false
}

#[test]
fn server_that_ends_connections_is_asked_again_after_growing_pauses() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let member = Members::at(settings(&format!("nats://{address}"))).start();
    let mut accepted = Vec::new();
    while accepted.len() < 5 {
        let (stream, _) = listener.accept().unwrap();
        let at = Instant::now();
        if greet(stream) {
            accepted.push(at);
        }
    }
    drop(listener);
    let between: Vec<Duration> = accepted.windows(2).map(|two| two[1] - two[0]).collect();
    // The pauses are 50, 100, 200 and 400 ms, but begin again after a connection that lasts a second.
    assert!(
        accepted[4] - accepted[0] >= Duration::from_millis(350),
        "{between:?}"
    );
    drop(member);
}
