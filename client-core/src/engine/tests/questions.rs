//! Questions to services of the relay, and requests that wait until they can be sent.

use pvwire_schema::types::Page;

use super::*;

fn page(engine: &mut Engine, request: u32, page: &Page, content: &[u8]) {
    let bytes = frame(FrameKind::Answer, 0, 0, |e| e.page(request, page, content));
    engine.receive(bytes, at(0.0)).unwrap();
}

fn done(number: u32, last: bool) -> Page {
    Page {
        outcome: Outcome::Done,
        page: number,
        last,
        ..Page::default()
    }
}

/// Bytes of a page and whether it is the last one.
type Received = Result<(Vec<u8>, bool), AskError>;

/// The pages and errors that have come.
fn answers(engine: &mut Engine) -> Vec<(Ticket, Received)> {
    let events = engine.events().into_iter().filter_map(|event| match event {
        Event::Page(ticket, Ok(page)) => Some((ticket, Ok((page.content.to_vec(), page.is_last)))),
        Event::Page(ticket, Err(error)) => Some((ticket, Err(error))),
        _ => None,
    });
    events.collect()
}

#[test]
fn pages_of_two_questions_are_told_apart_and_nothing_comes_after_the_last() {
    let mut engine = Engine::new();
    connect(&mut engine, 0.0);
    let first = engine.ask("names", *b"a");
    let second = engine.ask("other", *b"b");
    let ask = |service: &str, body: &[u8]| RequestBody::Ask {
        service: service.to_owned(),
        body: body.to_vec(),
    };
    assert_eq!(
        sent(&mut engine, 0.0),
        [(1, ask("names", b"a")), (2, ask("other", b"b"))]
    );
    page(&mut engine, 1, &done(0, false), b"one");
    page(&mut engine, 2, &done(0, true), b"");
    page(&mut engine, 1, &done(1, true), b"more than one word");
    page(&mut engine, 1, &done(2, true), b"late");
    assert_eq!(
        answers(&mut engine),
        [
            (first, Ok((b"one".to_vec(), false))),
            (second, Ok((Vec::new(), true))),
            (first, Ok((b"more than one word".to_vec(), true))),
        ]
    );
}

#[test]
fn question_that_fails_says_why_also_at_a_relay_without_questions() {
    let mut engine = Engine::new();
    let early = engine.ask("names", *b"");
    connect(&mut engine, 0.0);
    let refused = engine.ask("name", *b"");
    let unknown = engine.ask("names", *b"");
    assert_eq!(sent(&mut engine, 0.0).len(), 2);
    let why = Page {
        outcome: Outcome::BadName,
        message: "no such service".into(),
        ..Page::default()
    };
    page(&mut engine, 1, &why, b"");
    let not_supported = Reply::Error {
        problem: RequestProblem::NotSupported,
        message: "request body is missing or unknown".into(),
    };
    answer(&mut engine, 0.0, 2, &not_supported);
    let failed = |outcome, message: &str| AskError::Failed {
        outcome,
        message: message.to_owned(),
    };
    let expected = [
        (early, Err(AskError::NotConnected)),
        (refused, Err(failed(Outcome::BadName, "no such service"))),
        (
            unknown,
            Err(failed(
                Outcome::NotSupported,
                "request body is missing or unknown",
            )),
        ),
    ];
    assert_eq!(answers(&mut engine), expected);
}

#[test]
fn question_ends_with_the_connection_and_when_it_is_cancelled() {
    let mut engine = Engine::new();
    connect(&mut engine, 0.0);
    let lost = engine.ask("names", *b"");
    let cancelled = engine.ask("names", *b"");
    sent(&mut engine, 0.0);
    engine.cancel(cancelled);
    engine.cancel(cancelled);
    let cancel = RequestBody::Cancel { request: 2 };
    assert_eq!(sent(&mut engine, 0.0), [(0, cancel)]);
    page(&mut engine, 2, &done(0, false), b"late");
    let unsent = engine.ask("names", *b"");
    engine.cancel(unsent);
    let unsent = engine.ask("names", *b"");
    engine.disconnected(at(1.0));
    let expected = [
        (lost, Err(AskError::Lost)),
        (unsent, Err(AskError::NotConnected)),
    ];
    assert_eq!(answers(&mut engine), expected);
}

#[test]
fn token_given_without_a_connection_waits_for_the_next_one() {
    let mut engine = Engine::new();
    engine.authenticate("secret");
    assert_eq!(sent(&mut engine, 0.0), []);
    engine.connected(at(0.0));
    let token = "secret".to_owned();
    let expected = [(1, RequestBody::Authenticate { token })];
    assert_eq!(sent(&mut engine, 0.0), expected);
    engine.disconnected(at(1.0));
    engine.connected(at(2.0));
    assert_eq!(sent(&mut engine, 2.0), [], "a token is sent once");
}

#[test]
fn description_is_requested_as_soon_as_the_pv_has_an_id() {
    let mut engine = Engine::new();
    let pvs = engine.open(["A", "B"], Filter::ALL, at(0.0));
    engine.describe(&pvs);
    connect(&mut engine, 0.0);
    sent(&mut engine, 0.0);
    // The relay has room for one PV.
    let error = NameError {
        index: 1,
        problem: NameProblem::TooManySubscriptions,
        message: "no room".into(),
    };
    let reply = Reply::Subscribed {
        ids: vec![PvId(1), PvId::NONE],
        errors: vec![error],
    };
    answer(&mut engine, 0.0, 1, &reply);
    let describe = |id| RequestBody::Describe {
        ids: vec![PvId(id)],
    };
    assert_eq!(sent(&mut engine, 0.0), [(0, describe(1))]);
    engine.close(&pvs[..1]);
    let unsubscribe = RequestBody::Unsubscribe { ids: vec![PvId(1)] };
    assert_eq!(sent(&mut engine, 0.0), [(2, unsubscribe)]);
    let reply = Reply::Unsubscribed { ids: vec![PvId(1)] };
    answer(&mut engine, 0.0, 2, &reply);
    assert_eq!(sent(&mut engine, 0.0), [(3, subscribe_of(&["B"]))]);
    subscribed(&mut engine, 0.0, 3, 2..3);
    assert_eq!(sent(&mut engine, 0.0)[0], (0, describe(2)));
    assert_eq!(sent(&mut engine, 0.0), [], "once");
}
