//! Target `bus`: what members of a fleet send each other, one thing a line: announcements, names of pieces with
//! their part, subjects, signatures, keys, and addresses of servers.

use std::sync::Arc;
use std::time::Instant;

use pvwire_fleet::MemberId;
use pvwire_fleet::member::Presence;
use pvwire_fleet::nats::Servers;
use pvwire_fleet::pieces::{Added, Assemblies, Piece};
use pvwire_fleet::seal::{Content, Keys, Seals, Way};
use pvwire_fleet::{Site, subject};

pub(crate) const SEEDS: &[&str] = &[
    "{\"version\":1,\"id\":\"00000000000000fe\",\"name\":\"host:8080\",\"role\":\"ingest\",\"url\":null,\"term\":7,\"ready\":true,\"draining\":false,\"load\":1000,\"uptime_millis\":12,\"deaths\":{\"other:8080\":2}}",
    "1/0/3 first\n1/1/3 second\n1/2/3 third",
    "1/0/2 first\n2/0/2 newer\n1/1/2 late\n2/1/2 end",
    "pvwire.default.0000000000000002.ask.operation.00000000000000ab\npvwire.default.0000000000000002.answer.12",
    "nats://a:4222,tls://b\nnats://me:secret@a",
    "00000000000000ab 1700000000000000 00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff",
    "vJ3m0rYk6cP8hWn2tQ5xZs1bLf4dGa7eUiOoRyTwE9M=",
];

const KEY: &str = "vJ3m0rYk6cP8hWn2tQ5xZs1bLf4dGa7eUiOoRyTwE9M=";

pub(crate) const WORDS: &[&str] = &[
    "{\"version\":1",
    ",\"id\":",
    "\"00000000000000fe\"",
    ",\"deaths\":{",
    "1/0/2 ",
    "1/1/2 ",
    "2/0/2 ",
    "4294967295",
    "18446744073709551615",
    "pvwire.",
    ".ask.",
    ".interest.",
    ".operation.",
    ".answer.",
    "nats://",
    "tls://",
    ",",
    "\n",
];

/// Bytes of unfinished messages.
const LIMIT: usize = 64;

/// What is read is written as it was, and unfinished messages never exceed their limit.
pub(crate) fn run(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut assemblies = Assemblies::new(LIMIT, LIMIT);
    let keys: Keys = KEY.parse().expect("it is long and random");
    let seals = Seals::new(Some(keys), Arc::default());
    for line in text.split('\n') {
        if let Ok(presence) = Presence::parse(line.as_bytes()) {
            let again = Presence::parse(&presence.to_bytes()).expect("it was read before");
            assert_eq!(again, presence);
        }
        if let Ok(member) = line.parse::<MemberId>() {
            assert_eq!(member.to_string(), line);
        }
        if let Some((name, part)) = line.split_once(' ')
            && let Ok(piece) = name.parse::<Piece>()
        {
            assert_eq!(piece.to_string().parse(), Ok(piece));
            // Two senders, told apart by the number of their message.
            let sender = MemberId(piece.message % 2);
            let place = (sender, sender.0);
            let added = assemblies.add(place, piece, part.as_bytes(), Instant::now());
            if let Added::Whole(whole) = added {
                assert!(whole.len() <= LIMIT);
            }
        }
        assert!(assemblies.bytes() <= LIMIT);
        let _ = subject::request(line);
        let _ = subject::answered(line);
        if let Ok(servers) = line.parse::<Servers>() {
            assert!(!servers.to_string().contains('@'));
        }
        let _ = line.parse::<Site>();
        let _ = line.parse::<Keys>();
        let content = Content {
            subject: line,
            reply: "",
            piece: "",
            body: bytes,
        };
        // A signature can't be guessed.
        let checked = seals.check(Way::Request, None, Some(line), &content);
        assert!(checked.is_err());
    }
}
