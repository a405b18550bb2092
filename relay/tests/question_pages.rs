//! Pages of long answers delay no live value, and wait for a client that reads slowly.
//!
//! Topology: the relay's stages in this process, a service whose answers never end, and clients of a shard.

use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pvwire_relay::fanout::flat;
use pvwire_relay::queries::service::{Service, ServiceTable};
use pvwire_relay::session::question::{MAX_OPEN_QUESTIONS, Page, Pages, Question, Reply};
use pvwire_schema::limits::MAX_PAGE_BYTES;
use pvwire_schema::types::{self, Filter, FrameKind, Outcome, Request, RequestBody};
use pvwire_schema::{decode, encode};
use testbed::eventually;

use crate::encodings::{connect, next, send_binary, stages};

/// What the service has done.
#[derive(Default)]
struct Counts {
    pages: AtomicUsize,
    /// Answers that were not ended.
    open: AtomicUsize,
}

/// Answers every question with pages of the maximum length, for ever.
struct Endless(Arc<Counts>);

struct Rest(Arc<Counts>);

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Pages for Rest {
    fn next(self: Box<Self>, reply: Reply) {
        self.0.pages.fetch_add(1, Ordering::SeqCst);
        let content = vec![7; MAX_PAGE_BYTES];
        reply.give(Ok(Page {
            content,
            rest: Some(self),
        }));
    }
}

impl Service for Endless {
    fn name(&self) -> &'static str {
        "endless"
    }

    fn answer(&self, _question: &Question, reply: Reply) {
        self.0.open.fetch_add(1, Ordering::SeqCst);
        Box::new(Rest(Arc::clone(&self.0))).next(reply);
    }
}

fn send(to: &mut TcpStream, id: u32, body: RequestBody) {
    send_binary(to, &encode::request(&Request { id, body }));
}

fn ask() -> RequestBody {
    RequestBody::Ask {
        service: "endless".to_owned(),
        body: Vec::new(),
    }
}

/// The next message: the kind of the frame, the request that it answers, and the page in it.
fn next_frame(from: &mut TcpStream) -> (FrameKind, u32, Option<types::Page>) {
    let (_, bytes) = next(from);
    let frame = decode::frame(&bytes).unwrap();
    let page = match frame.reply() {
        Some(types::Reply::Page(page)) => Some(page),
        _ => None,
    };
    (frame.kind(), frame.reply_to(), page)
}

#[test]
fn long_answer_delays_no_live_value_and_costs_one_page_while_its_client_reads_nothing() {
    let counts = Arc::new(Counts::default());
    let services = ServiceTable::new(vec![Arc::new(Endless(Arc::clone(&counts)))]);
    let known = Arc::new(flat::encodings());
    let offers = |offered: &str| offered == pvwire_schema::SUBPROTOCOL;
    let (flat, _) = known.select("/ws", offers).unwrap();
    let stages = stages(&known, Arc::new(services));
    let shard = stages.shard.handle();

    // Between any two updates there are few pages.
    let mut reading = connect(&shard, flat);
    let subscribe = RequestBody::Subscribe {
        names: vec!["sim://ramp".to_owned()],
        filter: Filter::default(),
    };
    send(&mut reading, 1, subscribe);
    send(&mut reading, 2, ask());
    let (mut updates, mut pages, mut number) = (0, 0, 0);
    while updates < 10 || pages < 10 {
        let (kind, to, page) = next_frame(&mut reading);
        updates += usize::from(matches!(kind, FrameKind::Update | FrameKind::CatchUp));
        if let Some(page) = page {
            assert_eq!((to, page.page, page.last), (2, number, false));
            (pages, number) = (pages + 1, number + 1);
        }
    }
    send(&mut reading, 3, RequestBody::Cancel { request: 2 });
    let last = loop {
        if let (_, 2, Some(page)) = next_frame(&mut reading)
            && page.last
        {
            break page;
        }
    };
    assert_eq!(last.outcome, Outcome::Interrupted);
    eventually("the answer is dropped", || {
        counts.open.load(Ordering::SeqCst) == 0
    });

    // One that reads nothing: the pages that the kernel takes, and one more.
    let mut stalled = connect(&shard, flat);
    let before = counts.pages.load(Ordering::SeqCst);
    for id in 1..=MAX_OPEN_QUESTIONS as u32 + 1 {
        send(&mut stalled, id, ask());
    }
    let (mut made, mut looks) = (before, 0);
    eventually("no further page is made", || {
        let now = counts.pages.load(Ordering::SeqCst);
        looks = if made == now && now > before {
            looks + 1
        } else {
            0
        };
        made = now;
        looks == 20
    });
    assert!(made - before < 200, "{} pages", made - before);

    // It reads again, and the questions take turns; the one too many was refused.
    let (mut refused, mut seen) = (0, Vec::new());
    while seen.len() < 3 * MAX_OPEN_QUESTIONS {
        let (_, to, Some(page)) = next_frame(&mut stalled) else {
            continue;
        };
        if page.last {
            assert_eq!(page.outcome, Outcome::NotAllowed);
            assert!(
                page.message.contains("wait for one, or cancel one"),
                "{}",
                page.message
            );
            refused += 1;
        } else {
            seen.push(to);
        }
    }
    assert_eq!(refused, 1);
    let turns: Vec<u32> = (1..=MAX_OPEN_QUESTIONS as u32).collect();
    let later = &seen[2 * MAX_OPEN_QUESTIONS..];
    let mut sorted = later.to_vec();
    sorted.sort_unstable();
    assert_eq!(sorted, turns, "{seen:?}");

    drop(stalled);
    eventually("the answers end with the client", || {
        counts.open.load(Ordering::SeqCst) == 0
    });
}
