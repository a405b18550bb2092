//! Questions of a shard's clients: each page is made on another thread, and sent when the client has room for it.
//!
//! A client has at most one page in its socket, and gets none while it is behind the ticks. So pages delay live
//! values by one page at most, and a client that reads slowly costs the relay one page.

use std::collections::VecDeque;
use std::sync::Arc;

use pvwire_schema::limits::MAX_PAGE_BYTES;
use pvwire_schema::types::{Outcome, Page as PageReply};

use super::Run;
use super::handle::{Mailbox, ShardCommand};
use crate::compute::Size;
use crate::fanout::control::ClientId;
use crate::session::question::{MAX_OPEN_QUESTIONS, Page, Pages, Problem, Question, Reply};
use crate::session::socket::Disconnect;

/// Making a page counts as work of this size: some thousands of names are compared, or a part of a history is read.
const PAGE_WORK: Size = Size::Short;

/// What makes the next page of an answer.
enum Next {
    Question(Question),
    Pages(Box<dyn Pages>),
}

/// An answer that is not complete.
struct Answer {
    request: u32,
    /// Number of its next page.
    page: u32,
    next: Next,
}

/// The questions of one client.
#[derive(Default)]
pub(super) struct Questions {
    /// They take turns, page by page.
    waiting: VecDeque<Answer>,
    /// Request and number of the page that is being made, and whether it is still wanted.
    making: Option<(u32, u32, bool)>,
}

impl Questions {
    fn open(&self) -> usize {
        self.waiting.len() + usize::from(self.making.is_some())
    }

    /// Ends an answer; returns the number of its next page if it was open.
    fn cancel(&mut self, request: u32) -> Option<u32> {
        if let Some((making, page, is_wanted)) = &mut self.making
            && *making == request
        {
            return std::mem::take(is_wanted).then_some(*page);
        }
        let at = self
            .waiting
            .iter()
            .position(|answer| answer.request == request)?;
        Some(self.waiting.remove(at)?.page)
    }

    /// A page was made; returns its number if it is still wanted.
    fn made(&mut self, request: u32) -> Option<u32> {
        let (making, page, is_wanted) = self.making.take()?;
        (is_wanted && making == request).then_some(page)
    }
}

/// Gives a page to its client's shard.
fn reply_to(mailbox: &Arc<Mailbox>, client: ClientId, request: u32) -> Reply {
    let mailbox = Arc::clone(mailbox);
    Reply::new(move |page| {
        mailbox.put(ShardCommand::PageMade(Box::new((client, request, page))));
    })
}

impl Run {
    /// Takes a client's question.
    pub(super) fn ask(
        &mut self,
        slot: usize,
        request: u32,
        service: String,
        body: Vec<u8>,
    ) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        client.budget.open()?;
        let questions = client.questions.get_or_insert_default();
        if questions.open() >= MAX_OPEN_QUESTIONS {
            let why = format!(
                "{MAX_OPEN_QUESTIONS} of your questions wait for their answers: wait for one, or cancel one"
            );
            let problem = Problem::new(Outcome::NotAllowed, why);
            return self.end_answer(slot, (request, 0), problem);
        }
        let question = Question {
            caller: client.caller.clone(),
            service,
            body,
        };
        questions.waiting.push_back(Answer {
            request,
            page: 0,
            next: Next::Question(question),
        });
        self.make_page(slot);
        Ok(())
    }

    /// A client wants no more pages of an answer.
    pub(super) fn cancel(&mut self, slot: usize, request: u32) -> Result<(), Disconnect> {
        let questions = self.clients[slot].questions.as_mut();
        let Some(page) = questions.and_then(|questions| questions.cancel(request)) else {
            return Ok(());
        };
        let problem = Problem::new(Outcome::Interrupted, "cancelled");
        self.end_answer(slot, (request, page), problem)
    }

    /// Has the client's next page made, unless it is behind, has something to take first, or one is being made.
    pub(super) fn make_page(&mut self, slot: usize) {
        let client = &mut self.clients[slot];
        let is_busy = client.is_closing() || client.is_blocked() || client.session.is_behind();
        let Some(questions) = client.questions.as_mut().filter(|_| !is_busy) else {
            return;
        };
        if questions.making.is_some() {
            return;
        }
        let Some(Answer {
            request,
            page,
            next,
        }) = questions.waiting.pop_front()
        else {
            client.questions = None;
            return;
        };
        questions.making = Some((request, page, true));
        let reply = reply_to(&self.mailbox, client.id, request);
        let services = Arc::clone(&self.context.services);
        let pool = &self.context.pool;
        pool.run(client.caller.cpu(), PAGE_WORK, move || match next {
            Next::Question(question) => services.ask(&question, reply),
            Next::Pages(pages) => pages.next(reply),
        });
    }

    /// A page was made: sends it, if the client is still connected and wants it.
    pub(super) fn page_made(&mut self, id: ClientId, request: u32, made: Result<Page, Problem>) {
        if !self.serves(id) {
            return;
        }
        let slot = id.index;
        let questions = self.clients[slot].questions.as_mut();
        let sent = match questions.and_then(|questions| questions.made(request)) {
            Some(page) => self.send_page(slot, (request, page), made),
            None => Ok(()),
        };
        self.finish_turn(slot, sent.map(|()| false));
    }

    fn send_page(
        &mut self,
        slot: usize,
        (request, page): (u32, u32),
        made: Result<Page, Problem>,
    ) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        let made = made.and_then(|made| {
            if made.content.len() > MAX_PAGE_BYTES {
                let bytes = made.content.len();
                log::error!("a page of {bytes} bytes was made; at most {MAX_PAGE_BYTES} are sent");
                return Err(Problem::new(
                    Outcome::Failed,
                    "the relay failed; see its log",
                ));
            }
            let charge = client.caller.owner.charge(made.content.len());
            let charge = charge.map_err(|why| Problem::new(Outcome::NotAllowed, why.to_string()));
            charge.map(|charge| (made, charge))
        });
        let (Page { content, rest }, charge) = match made {
            Ok(made) => made,
            Err(problem) => return self.end_answer(slot, (request, page), problem),
        };
        let reply = PageReply {
            outcome: Outcome::Done,
            page,
            last: rest.is_none(),
            ..PageReply::default()
        };
        let encoder = self.deliveries.encoder(client.id.encoding);
        let frame = encoder.page(client.session.synced(), request, &reply, &content);
        match (rest, client.questions.as_mut()) {
            (Some(pages), Some(questions)) => questions.waiting.push_back(Answer {
                request,
                page: page + 1,
                next: Next::Pages(pages),
            }),
            _ => client.budget.answered(),
        }
        client.socket.answer(&Arc::new(frame.charged(charge)))
    }

    /// Ends an answer with an error.
    fn end_answer(
        &mut self,
        slot: usize,
        (request, page): (u32, u32),
        Problem { outcome, message }: Problem,
    ) -> Result<(), Disconnect> {
        let client = &mut self.clients[slot];
        client.budget.answered();
        let reply = PageReply {
            outcome,
            message,
            page,
            last: true,
        };
        let encoder = self.deliveries.encoder(client.id.encoding);
        let frame = encoder.page(client.session.synced(), request, &reply, &[]);
        client.socket.answer(&Arc::new(frame))
    }
}
