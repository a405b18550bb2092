//! The protocol state of one client: connects its socket's operations to the relay's PVs.

use std::sync::Arc;
use std::time::Duration;

use pvwire_coniql::{
    Documents, OperationKind, Records, Reply, Settings, Socket, Wanted, may_introspect,
};
use pvwire_pvws::text_message;
use pvwire_schema::types::{Filter, NameProblem, PvId};

use super::batch::Plan;
use super::full_name;
use crate::compute::Size;
use crate::fanout::door_session::{
    DoorAction, DoorSession, HeldName, MessageReader, ReadMessage, WantedPv,
};
use crate::fanout::frame::Frame;
use crate::ingest::{Form, OpEnd};
use crate::state::batch::{Batch, Respond};

/// Maximum number of PVs that are subscribed in one request.
const MOST_AT_A_TIME: usize = 10_000;

/// One client.
pub(super) struct ConiqlSession {
    socket: Socket,
    documents: Arc<Documents>,
    reader: Arc<Reader>,
}

/// Reads messages, compiles documents and plans their operations.
struct Reader(Settings);

/// A message that was read, and what its query or mutation asks of the relay.
struct Planned {
    message: pvwire_coniql::ReadMessage,
    plan: Option<(Plan, Batch)>,
}

impl MessageReader for Reader {
    fn read(&self, message: &[u8]) -> ReadMessage {
        // The connection has checked that it is UTF-8.
        let text = String::from_utf8_lossy(message);
        let message = self.0.read(&text);
        let operation = message.operation();
        let once = operation.filter(|operation| operation.kind() != OperationKind::Subscription);
        // The values of a mutation are read here, too.
        let plan = once.map(|operation| Plan::new(operation, self.0.documents.dialect()));
        Box::new(Planned { message, plan })
    }

    fn size(&self, message: &[u8]) -> Size {
        match Size::of(message.len()) {
            Size::Tiny if may_introspect(message) => Size::Short,
            size => size,
        }
    }
}

impl ConiqlSession {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            documents: Arc::clone(&settings.documents),
            reader: Arc::new(Reader(settings.clone())),
            socket: Socket::new(settings),
        }
    }

    fn ask(&mut self, reply: Reply, plan: Option<(Plan, Batch)>) -> DoorAction {
        match reply {
            Reply::Texts(texts) => DoorAction::Send(messages(&texts)),
            Reply::LogIn {
                token,
                refused,
                texts,
            } => DoorAction::LogIn {
                token,
                refused,
                greeting: messages(&texts),
            },
            Reply::Close(code, reason) => DoorAction::Close(code, reason),
            Reply::Run(number, operation) => {
                let plan = plan.unwrap_or_else(|| Plan::new(&operation, self.documents.dialect()));
                let (plan, batch) = plan;
                let respond = Respond(Box::new(move |result, owner| {
                    let (response, charge) = plan.respond(&operation, (result, owner));
                    (response, charge.ok())
                }));
                DoorAction::Run(Batch { number, ..batch }, respond)
            }
        }
    }
}

/// Some texts, each as one message.
fn messages(texts: &[Vec<u8>]) -> Frame {
    let mut out = Vec::new();
    for text in texts {
        text_message(&mut out, text);
    }
    Frame::raw(out)
}

/// The form of a PV with a selection. Its spelling is read by [`parts`].
fn form(wanted: &Wanted) -> Form {
    let Wanted {
        name,
        selection,
        ordinal,
    } = wanted;
    Form {
        spelling: format!("{selection} {ordinal} {name}"),
        scheme: "",
        may_write: false,
        array_interval_ms: 0,
    }
}

/// What a form's spelling says.
pub(super) fn parts(form: &Form) -> Option<Wanted> {
    let mut words = form.spelling.splitn(3, ' ');
    Some(Wanted {
        selection: words.next()?.parse().ok()?,
        ordinal: words.next()?.parse().ok()?,
        name: words.next()?.to_owned(),
    })
}

impl DoorSession for ConiqlSession {
    fn reader(&self) -> Arc<dyn MessageReader> {
        Arc::clone(&self.reader) as Arc<dyn MessageReader>
    }

    fn take(&mut self, message: ReadMessage) -> Option<DoorAction> {
        let Planned { message, plan } = *message.downcast::<Planned>().ok()?;
        let reply = self.socket.take_read(message)?;
        Some(self.ask(reply, plan))
    }

    fn has_changes(&self) -> bool {
        self.socket.has_changes()
    }

    fn cleared(&mut self) -> Vec<PvId> {
        self.socket.ended()
    }

    fn wanted(&mut self) -> Vec<WantedPv> {
        let wanted = self.socket.wanted(MOST_AT_A_TIME);
        let selections = self.documents.selections();
        let pv = |wanted: &Wanted| WantedPv {
            name: full_name(&wanted.name),
            filter: Filter::ALL,
            form: form(wanted),
            describe: (selections.find(wanted.selection))
                .is_some_and(|known| known.selection.shows_description()),
        };
        wanted.iter().map(pv).collect()
    }

    fn held(&self, most: usize) -> Vec<HeldName> {
        let held = self.socket.held().take(most);
        let held = held.map(|(asked, pv)| HeldName {
            spelling: asked.to_owned(),
            name: Some(full_name(asked)),
            pv,
        });
        held.collect()
    }

    fn accepted(&mut self, form: &Arc<Form>, pv: PvId) {
        if let Some(wanted) = parts(form) {
            self.socket.accepted(&wanted, pv);
        }
    }

    fn refused(&mut self, form: &Form, _problem: NameProblem, message: &str, out: &mut Vec<u8>) {
        let told = parts(form).and_then(|wanted| self.socket.refused(&wanted, message));
        if let Some(text) = told {
            text_message(out, &text);
        }
    }

    fn more_refused(&mut self, _count: usize, _out: &mut Vec<u8>) {}

    fn put_ended(&mut self, _number: u32, _end: &OpEnd) -> Option<Frame> {
        None
    }

    fn rights_changed(&mut self, _may_write: &dyn Fn(&str) -> bool) {}

    fn addressed(&self, shared: &Frame) -> Option<Frame> {
        let mut out = Vec::with_capacity(shared.length() * 3 / 2);
        let mut rows = 0;
        for (pv, channel) in Records::new(shared.bytes()) {
            if let Some(text) = self.socket.result(pv, channel) {
                text_message(&mut out, &text);
                rows += 1;
            }
        }
        Some(Frame::raw(out).with_rows(rows))
    }

    fn batch_done(&mut self, number: u32, response: &[u8]) -> Option<Frame> {
        Some(messages(&self.socket.finish(number, response)))
    }

    fn passing(&mut self, connected: Duration) -> Option<DoorAction> {
        let reply = self.socket.passing(connected)?;
        Some(self.ask(reply, None))
    }
}

/// A client without a subprotocol, which is closed at once.
pub(super) struct Refuser;

impl MessageReader for Refuser {
    fn read(&self, _message: &[u8]) -> ReadMessage {
        Box::new(())
    }
}

impl DoorSession for Refuser {
    fn reader(&self) -> Arc<dyn MessageReader> {
        Arc::new(Self)
    }

    fn take(&mut self, _message: ReadMessage) -> Option<DoorAction> {
        None
    }

    fn has_changes(&self) -> bool {
        false
    }

    fn cleared(&mut self) -> Vec<PvId> {
        Vec::new()
    }

    fn wanted(&mut self) -> Vec<WantedPv> {
        Vec::new()
    }

    fn held(&self, _most: usize) -> Vec<HeldName> {
        Vec::new()
    }

    fn accepted(&mut self, _form: &Arc<Form>, _pv: PvId) {}

    fn refused(&mut self, _: &Form, _: NameProblem, _message: &str, _out: &mut Vec<u8>) {}

    fn more_refused(&mut self, _count: usize, _out: &mut Vec<u8>) {}

    fn put_ended(&mut self, _number: u32, _end: &OpEnd) -> Option<Frame> {
        None
    }

    fn rights_changed(&mut self, _may_write: &dyn Fn(&str) -> bool) {}

    fn passing(&mut self, _connected: Duration) -> Option<DoorAction> {
        let reason = "Subprotocol not acceptable".to_owned();
        Some(DoorAction::Close(4406, reason))
    }
}
