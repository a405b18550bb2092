//! Puts of Channel Access to a real IOC: what they write and what they report.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use pvwire_epics::Ticket;
use pvwire_epics::ca::{Channel, Client, Held, NativeType, PutError, PutValue};
use pvwire_epics::panics_caught;

use crate::support::ca::{OwnValue, Recorder};
use crate::support::{DEADLINE, Server, in_own_process, prefix};

/// One channel, and what a test does with it.
struct Pv {
    recorder: Arc<Recorder>,
    channel: Channel,
}

type Answer = Receiver<Result<Option<Held>, PutError>>;

impl Pv {
    fn open(client: &Client, name: &str) -> Self {
        let recorder = Recorder::new();
        let channel = client.open(name, recorder.clone()).unwrap();
        Self { recorder, channel }
    }

    fn begin(&self, value: PutValue, wait: bool) -> (Answer, Ticket) {
        let (told, answer) = mpsc::channel();
        let done = Box::new(move |result| told.send(result).unwrap());
        let ticket = Ticket::default();
        (self.channel).put(value, wait, ticket.clone(), None, done);
        (answer, ticket)
    }

    fn put(&self, value: PutValue, wait: bool) -> Result<Option<Held>, PutError> {
        self.begin(value, wait).0.recv_timeout(DEADLINE).unwrap()
    }

    fn why_not(&self, value: PutValue) -> String {
        let (with, without) = (self.put(value.clone(), true), self.put(value, false));
        let (with, without) = (
            with.unwrap_err().to_string(),
            without.unwrap_err().to_string(),
        );
        assert_eq!(with, without, "with and without completion");
        with
    }
}

fn text(text: &str) -> PutValue {
    PutValue::Text(text.to_owned())
}

#[test]
fn puts_of_every_kind_are_written_with_and_without_completion() {
    in_own_process!(
        "puts_of_every_kind_are_written_with_and_without_completion",
        || {
            let database = b"
                record(ao, \"$(P)ao\") { field(PREC, \"3\") }
                record(longout, \"$(P)longout\") {}
                record(bo, \"$(P)bo\") { field(ZNAM, \"Off\") field(ONAM, \"On\") }
                record(stringout, \"$(P)stringout\") {}
                record(lso, \"$(P)lso\") { field(SIZV, \"4000\") }
                record(waveform, \"$(P)char\") { field(FTVL, \"CHAR\") field(NELM, \"8\") }
                record(waveform, \"$(P)short\") { field(FTVL, \"SHORT\") field(NELM, \"4\") }
                record(waveform, \"$(P)string\") { field(FTVL, \"STRING\") field(NELM, \"3\") }
            ";
            let prefix = prefix();
            let _ioc = Server::soft_ioc(&prefix, database);
            let client = Client::start().unwrap();
            let numbers = |numbers: &[f64]| PutValue::Numbers(numbers.to_vec());
            let strings =
                |texts: &[&str]| PutValue::Texts(texts.iter().map(|t| t.to_string()).collect());
            let short = |values: &[i16]| {
                let bytes = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
                OwnValue::Array(NativeType::Short, values.len() as u32, bytes)
            };
            let chars = |bytes: &[u8]| {
                OwnValue::Array(NativeType::Char, bytes.len() as u32, bytes.to_vec())
            };
            let string = |text: &str| OwnValue::Text(text.into());
            let long = "long ".repeat(600);
            let mut long_bytes = long.clone().into_bytes();
            long_bytes.push(0);
            let three = ["[x] y", "", "z"].map(|text| {
                let mut bytes = text.as_bytes().to_vec();
                bytes.resize(40, 0);
                bytes
            });
            let cases = [
                ("ao", PutValue::Number(1.25), OwnValue::Number(1.25)),
                ("ao", text("2.5"), OwnValue::Number(2.5)),
                (
                    "ao",
                    PutValue::Number(f64::INFINITY),
                    OwnValue::Number(f64::INFINITY),
                ),
                ("longout", PutValue::Number(-3.0), OwnValue::Number(-3.0)),
                ("bo", text("On"), OwnValue::Number(1.0)),
                ("bo", PutValue::Number(0.0), OwnValue::Number(0.0)),
                ("stringout", text("[x] y"), string("[x] y")),
                ("stringout", text("{x}"), string("{x}")),
                ("stringout", text(&"m".repeat(39)), string(&"m".repeat(39))),
                ("stringout", PutValue::Number(1.5), string("1.5")),
                ("stringout", text(""), string("")),
                ("lso.VAL$", text(&long), chars(&long_bytes)),
                ("char", text("eight by"), chars(b"eight by")),
                ("short", numbers(&[1.0, -2.0, 3.0]), short(&[1, -2, 3])),
                ("short", numbers(&[4.0]), short(&[4])),
                ("short", numbers(&[]), short(&[])),
                (
                    "string",
                    strings(&["[x] y", "", "z"]),
                    OwnValue::Array(NativeType::String, 3, three.concat()),
                ),
            ];
            for (name, put, seen) in cases {
                let pv = Pv::open(&client, &format!("{prefix}{name}"));
                for wait in [true, false] {
                    assert_eq!(pv.put(put.clone(), wait), Ok(None), "{name} {put:?} {wait}");
                }
                pv.recorder.wait_value(0, &seen);
            }
            assert_eq!(panics_caught(), 0);
        },
    );
}

#[test]
fn refused_put_says_why_and_writes_nothing() {
    in_own_process!("refused_put_says_why_and_writes_nothing", || {
        let database = b"
            record(ao, \"$(P)ao\") { field(VAL, \"1\") field(PINI, \"YES\") }
            record(ao, \"$(P)disp\") { field(VAL, \"1\") field(PINI, \"YES\") field(DISP, \"1\") }
            record(ao, \"$(P)readonly\") {
                field(VAL, \"1\") field(PINI, \"YES\") field(ASG, \"readonly\")
            }
            record(mbbo, \"$(P)mbbo\") {
                field(ZRST, \"zero\") field(ONST, \"one\") field(TWST, \"two\") field(PINI, \"YES\")
            }
            record(waveform, \"$(P)short\") { field(FTVL, \"SHORT\") field(NELM, \"4\") }
        ";
        let rules =
            "ASG(DEFAULT) { RULE(1, READ) RULE(1, WRITE) }\nASG(readonly) { RULE(1, READ) }\n";
        let prefix = prefix();
        let _ioc = Server::with_access_security(&prefix, database, rules);
        let client = Client::start().unwrap();
        let open = |name: &str| Pv::open(&client, &format!("{prefix}{name}"));

        let ao = open("ao");
        assert_eq!(ao.why_not(text("abc")), "\"abc\" is not a number");
        assert!(
            ao.why_not(PutValue::Numbers(vec![1.0, 2.0]))
                .contains("2 elements")
        );
        let mbbo = open("mbbo");
        let choices = "the PV has: zero, one, two";
        assert_eq!(
            mbbo.why_not(text("Nope")),
            format!("\"Nope\" is not a choice; {choices}")
        );
        assert_eq!(
            mbbo.why_not(PutValue::Number(9.0)),
            format!("9 is not an index; {choices}")
        );
        let disp = open("disp");
        assert!(disp.why_not(PutValue::Number(5.0)).contains("DISP"));
        let readonly = open("readonly");
        assert_eq!(
            readonly.why_not(PutValue::Number(5.0)),
            "the IOC gives no write access"
        );
        let short = open("short");
        assert!(
            short
                .why_not(PutValue::Numbers(vec![0.0; 5]))
                .contains("holds 4")
        );

        for pv in [&ao, &disp, &readonly] {
            let events = pv.recorder.events();
            assert!(!format!("{events:?}").contains("Number(5.0)"), "{events:?}");
        }
    });
}

#[test]
fn completion_waits_for_the_record_and_no_completion_does_not() {
    in_own_process!(
        "completion_waits_for_the_record_and_no_completion_does_not",
        || {
            let database = b"
                record(calcout, \"$(P)slow\") {
                    field(CALC, \"A\") field(ODLY, \"1.5\") field(OUT, \"$(P)sink PP\")
                }
                record(ao, \"$(P)sink\") {}
            ";
            let prefix = prefix();
            let _ioc = Server::soft_ioc(&prefix, database);
            let client = Client::start().unwrap();
            let slow = Pv::open(&client, &format!("{prefix}slow.A"));
            let sink = Pv::open(&client, &format!("{prefix}sink"));
            sink.recorder.wait_connected(0);
            assert_eq!(slow.put(PutValue::Number(1.0), true), Ok(None));
            sink.recorder.wait_value(0, &OwnValue::Number(1.0));

            let start = Instant::now();
            assert_eq!(slow.put(PutValue::Number(2.0), false), Ok(None));
            let quick = start.elapsed();
            assert_eq!(slow.put(PutValue::Number(3.0), true), Ok(None));
            assert!(start.elapsed() > quick, "{quick:?}");
            assert!(start.elapsed() > Duration::from_millis(1_400));
            sink.recorder.wait_value(0, &OwnValue::Number(3.0));
        },
    );
}

#[test]
fn put_before_the_connection_is_sent_later_unless_cancelled() {
    in_own_process!(
        "put_before_the_connection_is_sent_later_unless_cancelled",
        || {
            let database = b"
                record(mbbo, \"$(P)early\") { field(ZRST, \"zero\") field(ONST, \"one\") }
                record(ao, \"$(P)late\") { field(VAL, \"7\") field(PINI, \"YES\") }
            ";
            let prefix = prefix();
            let client = Client::start().unwrap();
            let early = Pv::open(&client, &format!("{prefix}early"));
            let late = Pv::open(&client, &format!("{prefix}late"));
            let (written, _) = early.begin(text("one"), true);
            let (never, ticket) = late.begin(PutValue::Number(8.0), true);
            assert!(ticket.cancel(), "nothing can have been sent");

            let ioc = Server::soft_ioc(&prefix, database);
            assert_eq!(written.recv_timeout(DEADLINE), Ok(Ok(None)));
            early.recorder.wait_value(0, &OwnValue::Number(1.0));
            late.recorder.wait_value(0, &OwnValue::Number(7.0));
            assert_eq!(
                never.recv_timeout(DEADLINE),
                Err(RecvTimeoutError::Disconnected)
            );
            assert_eq!(late.put(PutValue::Number(9.0), true), Ok(None));
            late.recorder.wait_value(0, &OwnValue::Number(9.0));
            drop(ioc);
            late.recorder.wait_disconnected(0);
            let (closed, _) = late.begin(PutValue::Number(10.0), true);
            drop(late.channel);
            assert_eq!(
                closed.recv_timeout(DEADLINE),
                Ok(Err(PutError::NotConnected))
            );
        },
    );
}

#[test]
fn put_whose_ioc_dies_before_it_is_done_is_said_to_be_uncertain() {
    in_own_process!(
        "put_whose_ioc_dies_before_it_is_done_is_said_to_be_uncertain",
        || {
            let database = b"
                record(calcout, \"$(P)slow\") { field(CALC, \"A\") field(ODLY, \"60\") }
            ";
            let prefix = prefix();
            let ioc = Server::soft_ioc(&prefix, database);
            let client = Client::start().unwrap();
            let slow = Pv::open(&client, &format!("{prefix}slow.A"));
            let (dies, ticket) = slow.begin(PutValue::Number(1.0), true);
            // The IOC has it as soon as it answers another one.
            assert_eq!(slow.put(PutValue::Number(1.0), false), Ok(None));
            assert!(!ticket.cancel());
            ioc.kill();
            assert_eq!(dies.recv_timeout(DEADLINE), Ok(Err(PutError::Interrupted)));

            let (open, _) = slow.begin(PutValue::Number(1.0), true);
            drop(client);
            assert_eq!(open.recv_timeout(DEADLINE), Ok(Err(PutError::NotConnected)));
        },
    );
}

#[test]
fn channel_that_is_closed_with_a_put_under_way_answers_it() {
    in_own_process!(
        "channel_that_is_closed_with_a_put_under_way_answers_it",
        || {
            let database = b"
            record(calcout, \"$(P)slow\") { field(CALC, \"A\") field(ODLY, \"60\") }
        ";
            let prefix = prefix();
            let _ioc = Server::soft_ioc(&prefix, database);
            let client = Client::start().unwrap();
            let slow = Pv::open(&client, &format!("{prefix}slow.A"));
            let (open, _) = slow.begin(PutValue::Number(1.0), true);
            assert_eq!(slow.put(PutValue::Number(1.0), false), Ok(None));
            drop(slow.channel);
            assert_eq!(open.recv_timeout(DEADLINE), Ok(Err(PutError::Interrupted)));
        },
    );
}

#[test]
fn condition_is_asked_when_it_is_the_puts_turn() {
    in_own_process!("condition_is_asked_when_it_is_the_puts_turn", || {
        let database = b"record(ao, \"$(P)ao\") { field(VAL, \"1\") field(PINI, \"YES\") }";
        let prefix = prefix();
        let _ioc = Server::soft_ioc(&prefix, database);
        let client = Client::start().unwrap();
        let ao = Pv::open(&client, &format!("{prefix}ao"));
        for (holds, result) in [(false, Err(PutError::Changed)), (true, Ok(None))] {
            let (told, answer) = mpsc::channel();
            let done = Box::new(move |result| told.send(result).unwrap());
            let condition = Box::new(move || holds);
            let (value, ticket) = (PutValue::Number(2.0), Ticket::default());
            ao.channel.put(value, true, ticket, Some(condition), done);
            assert_eq!(answer.recv_timeout(DEADLINE), Ok(result));
        }
        ao.recorder.wait_value(0, &OwnValue::Number(2.0));
    });
}
