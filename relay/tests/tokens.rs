//! Clients of doors with `auth = jwt`: who they are by their tokens, and what they may do without one. An issuer of tokens,
//! with keys that a test makes and replaces.
//!
//! Topology: a soft IOC, a relay with both doors and rules, clients with tokens that the test signs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{SystemTime, UNIX_EPOCH};

use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};
use testbed::{DEADLINE, Network, Relay, SoftIoc, file, prefix};
use tungstenite::client::{ClientRequestBuilder, client};
use tungstenite::{Message, WebSocket};

const DATABASE: &str = r#"
record(ao, "$(P)open") { field(VAL, "1") field(PINI, "YES") }
record(ao, "$(P)secret") { field(VAL, "2") field(PINI, "YES") }
"#;

struct World {
    ioc: SoftIoc,
    relay: Relay,
    issuer: Issuer,
}

/// Users that are logged in read all and write; other clients read all but the secret.
fn world() -> World {
    let network = Network::new();
    let ioc = SoftIoc::start(network, DATABASE);
    let issuer = Issuer::es256("one");
    let tag = prefix();
    let tag = tag.trim_end_matches(':');
    let keys = file(&format!("{tag}.json"), &key_set(&[&issuer]));
    let rules = format!(
        "[[rule]]\nuser = \"*\"\npv = \"*\"\nallow = [\"read\", \"put\"]\n[[rule]]\npv = \"{}\"\ndeny = \"read\"\n",
        ioc.name("secret")
    );
    let rules = file(&format!("{tag}.toml"), &rules);
    let mut all = flags(keys.to_str().unwrap());
    let more = [
        "--pvws",
        "--coniql",
        "--enable-put",
        "--pvws-throttle-ms=0",
        "--config",
    ];
    all.extend(more.map(str::to_owned));
    all.push(rules.to_str().unwrap().to_owned());
    let relay = Relay::start(network, &all.iter().map(String::as_str).collect::<Vec<_>>());
    World { ioc, relay, issuer }
}

impl World {
    fn token(&self) -> String {
        self.issuer.token(&claims("jane"))
    }

    fn expired(&self) -> String {
        self.issuer
            .token(&with(claims("jane"), "exp", json!(seconds() - 60)))
    }

    /// A WebSocket with these headers, or the status that refuses it.
    fn connect(&self, path: &str, headers: &[(&str, String)]) -> Result<Socket, u16> {
        let address = self.relay.address();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut request =
            ClientRequestBuilder::new(format!("ws://{address}{path}").parse().unwrap());
        if path == "/ws" {
            request = request.with_sub_protocol("graphql-transport-ws");
        }
        for (name, value) in headers {
            request = request.with_header(*name, value);
        }
        match client(request, stream) {
            Ok((socket, _)) => Ok(Socket(socket)),
            Err(tungstenite::HandshakeError::Failure(tungstenite::Error::Http(response))) => {
                Err(response.status().as_u16())
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Status and body of a query for the secret by HTTP.
    fn query(&self, headers: &[(&str, String)]) -> (u16, String) {
        let address = self.relay.address();
        let body = json!({"query": format!(
            "{{ getChannel(id: \"{}\") {{ value {{ float }} }} }}", self.ioc.name("secret")
        )});
        let body = body.to_string();
        let mut request = format!(
            "POST /graphql HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n",
            body.len()
        );
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        write!(stream, "{request}\r\n{body}").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        (
            head.split(' ').nth(1).unwrap().parse().unwrap(),
            body.to_owned(),
        )
    }
}

struct Socket(WebSocket<TcpStream>);

impl Socket {
    fn send(&mut self, message: &Value) {
        self.0.send(Message::text(message.to_string())).unwrap();
    }

    fn until(&mut self, what: &str, fits: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..1_000 {
            match self.0.read().unwrap() {
                Message::Text(text) => {
                    let message = serde_json::from_str(&text).unwrap();
                    if fits(&message) {
                        return message;
                    }
                }
                Message::Ping(_) | Message::Pong(_) => {}
                other => panic!("{what}: {other:?}"),
            }
        }
        panic!("never: {what}");
    }

    fn close_code(&mut self) -> u16 {
        loop {
            if let Message::Close(Some(frame)) = self.0.read().unwrap() {
                return frame.code.into();
            }
        }
    }
}

fn bearer(token: &str) -> (&'static str, String) {
    ("Authorization", format!("Bearer {token}"))
}

fn cookie(token: &str) -> (&'static str, String) {
    ("Cookie", format!("theme=dark; pvwire_token={token}"))
}

#[test]
fn client_of_pvws_is_the_user_of_its_header_or_cookie() {
    let world = world();
    let [open, secret] = world.ioc.names(["open", "secret"]);
    let token = world.token();
    for (header, value) in [(bearer(&token), 5.0), (cookie(&token), 6.0)] {
        let mut client = world.connect("/pvws/pv", &[header]).unwrap();
        client.send(&json!({"type": "subscribe", "pvs": [open, secret]}));
        client.until("the secret", |message| {
            message["pv"] == secret && message["value"].is_number()
        });
        client.send(&json!({"type": "write", "pv": secret, "value": value}));
        client.until("the put", |message| {
            message["pv"] == secret && message["value"] == value
        });
    }
    let mut anonymous = world.connect("/pvws/pv", &[]).unwrap();
    anonymous.send(&json!({"type": "subscribe", "pvs": [open, secret]}));
    let refused = anonymous.until("the refusal", |message| message["type"] == "error");
    assert!(
        refused["message"].as_str().unwrap().contains(&secret),
        "{refused}"
    );
    let update = anonymous.until("the open PV", |message| message["vtype"].is_string());
    assert_eq!(
        (&update["pv"], &update["readonly"]),
        (&json!(open), &json!(true))
    );
    for header in [
        bearer("x"),
        bearer(&world.expired()),
        cookie(&world.expired()),
    ] {
        assert_eq!(world.connect("/pvws/pv", &[header]).err(), Some(401));
    }
}

#[test]
fn client_of_coniql_is_the_user_of_its_header_cookie_or_first_message() {
    let world = world();
    let secret = world.ioc.name("secret");
    let (token, expired) = (world.token(), world.expired());
    let query = format!("{{ getChannel(id: \"{secret}\") {{ value {{ float }} }} }}");
    let subscription =
        format!("subscription {{ subscribeChannel(id: \"{secret}\") {{ value {{ float }} }} }}");
    let nothing = || json!({});
    for (headers, payload, is_known) in [
        (vec![bearer(&token)], nothing(), true),
        (vec![cookie(&token)], nothing(), true),
        (
            vec![],
            json!({"Authorization": format!("Bearer {token}")}),
            true,
        ),
        (
            vec![],
            json!({"headers": {"authorization": format!("bearer {token}")}}),
            true,
        ),
        (vec![], json!({"token": token}), true),
        (vec![bearer(&token)], json!({"token": token}), true),
        (vec![], nothing(), false),
    ] {
        let mut client = world.connect("/ws", &headers).unwrap();
        client.send(&json!({"type": "connection_init", "payload": payload}));
        client.until("the acknowledgement", |message| {
            message["type"] == "connection_ack"
        });
        for (id, document) in [("1", &query), ("2", &subscription)] {
            client.send(&json!({"type": "subscribe", "id": id, "payload": {"query": document}}));
            let answer = client.until("its answer", |message| message["id"] == id);
            let text = answer.to_string();
            assert_eq!(
                text.contains(r#""float":2"#),
                is_known,
                "{headers:?} {payload}: {text}"
            );
            assert_eq!(text.contains("message"), !is_known, "{text}");
        }
    }
    for bad in ["x", &expired] {
        let mut client = world.connect("/ws", &[]).unwrap();
        client.send(&json!({"type": "connection_init", "payload": {"token": bad}}));
        assert_eq!(client.close_code(), 4403);
        assert_eq!(world.connect("/ws", &[bearer(bad)]).err(), Some(401));
    }
    // Another user's token is no renewal.
    let mut client = world.connect("/ws", &[bearer(&token)]).unwrap();
    let other = world.issuer.token(&claims("joe"));
    client.send(&json!({"type": "connection_init", "payload": {"token": other}}));
    assert_eq!(client.close_code(), 4403);
}

#[test]
fn request_to_a_door_is_of_the_user_of_its_header_or_cookie() {
    let world = world();
    let token = world.token();
    for header in [bearer(&token), cookie(&token)] {
        let (status, body) = world.query(&[header]);
        assert!(
            status == 200 && body.contains(r#""float":2"#),
            "{status} {body}"
        );
    }
    let (status, body) = world.query(&[]);
    assert!(
        status == 200 && body.contains("NOT_ALLOWED") && !body.contains(r#""float":2"#),
        "{body}"
    );
    for header in [bearer("x"), cookie(&world.expired())] {
        assert_eq!(world.query(&[header]).0, 401);
    }
    // The routes for single PVs take the cookie too, and have no anonymous clients.
    let address = world.relay.address();
    let path = format!("/pv/{}", world.ioc.name("secret"));
    let (name, value) = cookie(&token);
    let known = testbed::get(address, &path, &[(name, &value)]);
    assert_eq!(known.status, 200, "{}", known.body);
    assert_eq!(testbed::get(address, &path, &[]).status, 401);
}

#[test]
fn session_of_a_door_ends_with_its_token() {
    let world = world();
    let soon = world
        .issuer
        .token(&with(claims("jane"), "exp", json!(seconds() + 1)));
    let mut by_header = world.connect("/pvws/pv", &[bearer(&soon)]).unwrap();
    let mut by_message = world.connect("/ws", &[]).unwrap();
    by_message.send(&json!({"type": "connection_init", "payload": {"token": soon}}));
    by_message.until("the acknowledgement", |message| {
        message["type"] == "connection_ack"
    });
    assert_eq!(by_header.close_code(), 4401);
    assert_eq!(by_message.close_code(), 4401);
}

pub(crate) const AUDIENCE: &str = "pvwire";

pub(crate) const ISSUER: &str = "https://login.example.org";

pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut word = [0; 4];
        word[1..=three.len()].copy_from_slice(three);
        let word = u32::from_be_bytes(word);
        for digit in 0..=three.len() {
            let sextet = word >> (18 - 6 * digit) & 63;
            text.push(char::from(DIGITS[sextet as usize]));
        }
    }
    text
}

enum Pair {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

/// A key that signs tokens.
pub(crate) struct Issuer {
    id: String,
    pair: Pair,
}

impl Issuer {
    pub(crate) fn es256(id: &str) -> Self {
        let (random, algorithm) = (SystemRandom::new(), &ECDSA_P256_SHA256_FIXED_SIGNING);
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        let (id, pair) = (id.to_owned(), Pair::Es256(pair));
        Self { id, pair }
    }

    pub(crate) fn eddsa(id: &str) -> Self {
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let pair = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
        let (id, pair) = (id.to_owned(), Pair::EdDsa(pair));
        Self { id, pair }
    }

    /// The same key with another id.
    pub(crate) fn renamed(self, id: &str) -> Self {
        Self {
            id: id.to_owned(),
            ..self
        }
    }

    fn jwk(&self) -> Value {
        match &self.pair {
            Pair::Es256(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (base64(&point[1..33]), base64(&point[33..]));
                json!({"kty": "EC", "crv": "P-256", "alg": "ES256", "kid": self.id, "x": x, "y": y})
            }
            Pair::EdDsa(pair) => {
                let x = base64(pair.public_key().as_ref());
                json!({"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": self.id, "x": x})
            }
        }
    }

    pub(crate) fn header(&self) -> Value {
        let algorithm = match self.pair {
            Pair::Es256(_) => "ES256",
            Pair::EdDsa(_) => "EdDSA",
        };
        json!({"alg": algorithm, "typ": "JWT", "kid": self.id})
    }

    pub(crate) fn sign(&self, header: &Value, claims: &Value) -> String {
        let [header, claims] = [header, claims].map(|part| base64(part.to_string().as_bytes()));
        let message = format!("{header}.{claims}");
        let signature = match &self.pair {
            Pair::Es256(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message.as_bytes());
                base64(signed.unwrap().as_ref())
            }
            Pair::EdDsa(pair) => base64(pair.sign(message.as_bytes()).as_ref()),
        };
        format!("{message}.{signature}")
    }

    pub(crate) fn token(&self, claims: &Value) -> String {
        self.sign(&self.header(), claims)
    }
}

pub(crate) fn key_set(issuers: &[&Issuer]) -> String {
    let keys: Vec<_> = issuers.iter().map(|issuer| issuer.jwk()).collect();
    json!({ "keys": keys }).to_string()
}

pub(crate) fn seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    since.as_secs().try_into().unwrap()
}

/// What a good token of `user` says.
pub(crate) fn claims(user: &str) -> Value {
    json!({
        "sub": user, "groups": ["staff"], "aud": AUDIENCE, "iss": ISSUER, "exp": seconds() + 600,
    })
}

pub(crate) fn with(mut claims: Value, key: &str, value: Value) -> Value {
    match value {
        Value::Null => claims.as_object_mut().unwrap().remove(key),
        value => claims.as_object_mut().unwrap().insert(key.into(), value),
    };
    claims
}

pub(crate) fn flags(keys: &str) -> Vec<String> {
    let audience = format!("--jwt-audience={AUDIENCE}");
    let issuer = format!("--jwt-issuer={ISSUER}");
    vec![
        "--auth=jwt".into(),
        format!("--jwt-keys={keys}"),
        audience,
        issuer,
    ]
}
