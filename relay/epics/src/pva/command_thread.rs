//! The pva-cmd thread: it alone creates and ends monitors and operations of one context of pvxs.
//!
//! It holds no lock that a callback takes.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender};
use std::sync::{Arc, Weak};
use std::time::Instant;

use super::StartError;
use super::command::{Command, NewOperation};
use super::handle::{Context, Operation, Subscription};
use super::monitor_state::{MonitorState, Peers};
use super::operation::OperationState;
use super::pacing::Pacing;
use super::request::{Completion, OpError, Request};
use super::suspects::{Suspects, Verdict};
use crate::guard::guard;
use crate::liveness::{Circuit, Duty, Watch};
use crate::throttle::Throttle;
use crate::user::{UserName, create_as};

static UNREADABLE: Throttle = Throttle::new();

/// A batch ends here even when more commands wait, so that monitors are created meanwhile.
const BATCH: usize = 1_000;

/// The queue of commands, from both ends: the thread gives the monitors that it opens its sender.
pub(super) struct Queue {
    pub(super) sender: Sender<Command>,
    pub(super) receiver: Receiver<Command>,
}

/// Body of the pva-cmd thread. Says through `started` whether there is a context.
pub(super) fn run(
    user: Option<&UserName>,
    commands: &Queue,
    started: &SyncSender<Result<(), StartError>>,
    peers: &Arc<Peers>,
) {
    let create = || create_as(user, Context::create);
    let context = create();
    let answer = context
        .as_ref()
        .map(|_| ())
        .map_err(|reason| StartError::Context(reason.clone()));
    let started = started.send(answer);
    let (Ok(mut context), Ok(())) = (context, started) else {
        return;
    };
    let mut monitors = Vec::new();
    while let End::Renew(open) = serve(&context, commands, monitors, peers) {
        match create() {
            // Closes the old one, and no callback of it comes after that.
            Ok(new) => context = new,
            Err(reason) => log::error!("the context of pvxs stays, there is no new one: {reason}"),
        }
        open.iter().for_each(|(_, state)| state.closed());
        monitors = open;
    }
}

/// Why a context is not needed any more.
enum End {
    /// Nobody wants the client.
    Stop,
    /// Another is to have these monitors.
    Renew(Vec<(String, Arc<MonitorState>)>),
}

/// Does what is asked for with one context, beginning with these monitors.
fn serve(
    context: &Context,
    commands: &Queue,
    begin: Vec<(String, Arc<MonitorState>)>,
    peers: &Arc<Peers>,
) -> End {
    let checks = OnceCell::new();
    let mut desk = Desk::new(context, &checks, commands.sender.clone(), Arc::clone(peers));
    for (name, state) in begin {
        desk.open(name, state);
    }
    desk.create_monitors();
    loop {
        let first = match desk.wake() {
            None => commands.receiver.recv().ok(),
            Some(wake) => {
                match commands
                    .receiver
                    .recv_timeout(wake.saturating_duration_since(Instant::now()))
                {
                    Ok(command) => Some(command),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return End::Stop,
                }
            }
        };
        for command in first
            .into_iter()
            .chain(commands.receiver.try_iter())
            .take(BATCH)
        {
            match command {
                Command::Stop => return End::Stop,
                Command::Renew => return End::Renew(desk.into_monitors()),
                command => desk.carry_out(command),
            }
        }
        desk.check_suspects();
        desk.create_monitors();
        desk.end_late_operations();
        desk.look();
    }
}

/// All that is open.
struct Desk<'context> {
    context: &'context Context,
    monitors: HashMap<u64, OpenMonitor<'context>>,
    pacing: Pacing,
    operations: HashMap<u64, OpenOperation<'context>>,
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
    watch: Watch,
    questions: Vec<Question<'context>>,
    suspects: Suspects,
    /// A separate context for checks, so that what they break is no other PV's connection.
    checks: &'context OnceCell<Context>,
    /// The check that is under way.
    check: Option<Check<'context>>,
    commands: Sender<Command>,
    peers: Arc<Peers>,
}

/// A value that is fetched to see whether it breaks the connection.
struct Check<'context> {
    state: Arc<OperationState>,
    operation: Operation<'context>,
}

/// A question whether a server answers.
struct Question<'context> {
    circuit: Weak<Circuit>,
    /// Bytes that had come when the answer was first missed.
    received: Option<u64>,
    /// When the server had last been heard from.
    asked_ns: i64,
    /// Held until the end: dropping it cancels it.
    _operation: Operation<'context>,
}

struct OpenMonitor<'context> {
    name: String,
    state: Arc<MonitorState>,
    /// None before its turn, and after a failure.
    subscription: Option<Subscription<'context>>,
}

struct OpenOperation<'context> {
    state: Arc<OperationState>,
    /// Held until the end: dropping it cancels it.
    _operation: Operation<'context>,
}

impl<'context> Desk<'context> {
    fn new(
        context: &'context Context,
        checks: &'context OnceCell<Context>,
        commands: Sender<Command>,
        peers: Arc<Peers>,
    ) -> Self {
        Self {
            context,
            monitors: HashMap::new(),
            pacing: Pacing::default(),
            operations: HashMap::new(),
            deadlines: BinaryHeap::new(),
            watch: Watch::default(),
            questions: Vec::new(),
            suspects: Suspects::default(),
            checks,
            check: None,
            commands,
            peers,
        }
    }

    /// When something is to be done without a command.
    fn wake(&self) -> Option<Instant> {
        let deadline = self.deadlines.peek().map(|&Reverse((at, _))| at);
        let look = self.watch.next();
        [self.pacing.wake(), self.suspects.wake(), deadline, look]
            .into_iter()
            .flatten()
            .min()
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Open { id, name, events } => {
                let (commands, peers) = (self.commands.clone(), Arc::clone(&self.peers));
                let state = MonitorState::new(id, events, commands, peers);
                self.open(name, Arc::new(state));
            }
            Command::Connected(id) => {
                let monitor = self.monitors.get(&id);
                if let Some(circuit) = monitor.and_then(|monitor| monitor.state.circuit()) {
                    self.watch.add(&circuit, id, Instant::now());
                }
            }
            Command::Settled(id) => {
                self.pacing.settled(id);
                self.suspects.settled(id);
            }
            Command::Broken(id, server) => {
                if let Some(monitor) = self.monitors.get_mut(&id)
                    && self.suspects.broke(id, server)
                {
                    // Others of the server have their connection for themselves now.
                    monitor.subscription = None;
                    self.pacing.closed(id);
                }
            }
            Command::Checked(id, verdict) => self.checked(id, verdict),
            Command::Unreadable(id, why) => {
                if let Some(monitor) = self.monitors.get_mut(&id) {
                    monitor.subscription = None;
                    self.pacing.closed(id);
                    self.suspects.refused(id, Instant::now());
                    self.hold_back(
                        id,
                        &format!("{why}; its server's administrator must change that"),
                    );
                }
            }
            Command::Failed(id) => self.retry(id),
            Command::Close(id) => {
                self.pacing.closed(id);
                self.suspects.closed(id);
                self.monitors.remove(&id);
            }
            Command::Operate(operation) => self.operate(operation),
            Command::Done(id) => {
                self.operations.remove(&id);
            }
            Command::Cancel(id) => self.end_operation(id, OperationState::unwanted),
            Command::Renew | Command::Stop => {}
        }
    }

    fn open(&mut self, name: String, state: Arc<MonitorState>) {
        let id = state.id();
        let monitor = OpenMonitor {
            name,
            state,
            subscription: None,
        };
        self.monitors.insert(id, monitor);
        self.pacing.add(id);
    }

    /// Ends all that is open, operations for good.
    fn into_monitors(self) -> Vec<(String, Arc<MonitorState>)> {
        let monitors = self.monitors.into_values();
        monitors
            .map(|monitor| (monitor.name, monitor.state))
            .collect()
    }

    /// Ends a subscription that is dead and makes another one later.
    fn retry(&mut self, id: u64) {
        if let Some(monitor) = self.monitors.get_mut(&id) {
            monitor.subscription = None;
            self.pacing.failed(id, Instant::now());
        }
    }

    /// Fetches the value of the next suspect, and gives up one that is late.
    fn check_suspects(&mut self) {
        let now = Instant::now();
        if self.suspects.is_late(now)
            && let Some(Check { state, operation }) = self.check.take()
        {
            drop(operation);
            state.complete(Err(OpError::NotConnected));
        }
        let Some((id, server)) = self.suspects.next(now) else {
            return;
        };
        let Some(monitor) = self.monitors.get(&id) else {
            self.suspects.closed(id);
            return;
        };
        let commands = self.commands.clone();
        let done = Completion::new(move |result| {
            let verdict = match result {
                Err(OpError::Disconnected) => Verdict::Breaks,
                Err(OpError::TimedOut | OpError::NotConnected) => Verdict::Unknown,
                _ => Verdict::Good,
            };
            // Fails when the client is gone.
            let _ = commands.send(Command::Checked(id, verdict));
        });
        let commands = self.commands.clone();
        let state = Arc::new(OperationState::new(id, done, None, true, commands));
        let context = match self.checks.get() {
            Some(context) => Ok(context),
            None => Context::create().map(|context| self.checks.get_or_init(|| context)),
        };
        let started = context
            .and_then(|context| Operation::check(context, &monitor.name, &server, state.clone()));
        match started {
            Ok(operation) => self.check = Some(Check { state, operation }),
            Err(reason) => {
                log::error!("cannot check the value of {}: {reason}", monitor.name);
                state.late();
            }
        }
    }

    /// A check has ended.
    fn checked(&mut self, id: u64, verdict: Verdict) {
        self.check = None;
        let Some(held) = self.suspects.checked(id, verdict, Instant::now()) else {
            return;
        };
        match held {
            None => self.pacing.add(id),
            Some(server) => self.hold_back(
                id,
                &format!(
                    "the pvAccess server {server} sends what can't be decoded for this PV; its administrator \
                     must repair that"
                ),
            ),
        }
    }

    /// Says why a monitor isn't watched for now.
    fn hold_back(&self, id: u64, why: &str) {
        if let Some(monitor) = self.monitors.get(&id) {
            UNREADABLE.warn(format_args!(
                "{} isn't watched for now: {why}",
                monitor.name
            ));
            guard("unreadable", || monitor.state.held_back(why));
        }
    }

    fn create_monitors(&mut self) {
        while let Some(id) = self.pacing.next(Instant::now()) {
            let Some(monitor) = self.monitors.get_mut(&id) else {
                self.pacing.closed(id);
                continue;
            };
            monitor.state.begin();
            let state = Arc::clone(&monitor.state);
            match Subscription::create(self.context, &monitor.name, state) {
                Ok(subscription) => monitor.subscription = Some(subscription),
                Err(reason) => {
                    log::error!("cannot subscribe to {}: {reason}", monitor.name);
                    self.retry(id);
                }
            }
        }
    }

    fn operate(&mut self, operation: NewOperation) {
        let NewOperation {
            id,
            name,
            request,
            timeout,
            gate,
            completion,
        } = operation;
        let changes = !matches!(request, Request::Get);
        let state = OperationState::new(id, completion, gate, changes, self.commands.clone());
        let state = Arc::new(state);
        match Operation::start(self.context, &name, &request, Arc::clone(&state)) {
            Ok(operation) => {
                let open = OpenOperation {
                    state,
                    _operation: operation,
                };
                self.operations.insert(id, open);
                // Without a deadline when it is beyond what a clock can say.
                if let Some(deadline) = Instant::now().checked_add(timeout) {
                    self.deadlines.push(Reverse((deadline, id)));
                }
            }
            Err(reason) => state.complete(Err(OpError::Invalid(reason))),
        }
    }

    /// Asks servers that are quiet, and tells the monitors of those that don't answer, or do again.
    fn look(&mut self) {
        for (circuit, duty) in self.watch.look(Instant::now()) {
            match duty {
                Duty::Probe(id) => self.ask(&circuit, id),
                Duty::Doubt => {
                    let received = self.received(&circuit);
                    let asked = |question: &&mut Question<'_>| {
                        question.circuit.as_ptr() == Arc::as_ptr(&circuit)
                    };
                    if let Some(question) = self.questions.iter_mut().find(asked)
                        && (question.received.replace(received))
                            .is_some_and(|before| before != received)
                    {
                        circuit.heard();
                    }
                }
                Duty::Unresponsive | Duty::Responsive => {
                    let answers = duty == Duty::Responsive;
                    for monitor in self.monitors.values() {
                        guard("circuit", || monitor.state.on_circuit(&circuit, answers));
                    }
                }
            }
        }
        // Of a connection that is lost pvxs would ask again when there is another.
        self.questions.retain(|question| {
            let circuit = question.circuit.upgrade();
            circuit.is_some_and(|circuit| circuit.heard_ns() == question.asked_ns)
        });
    }

    fn received(&self, circuit: &Arc<Circuit>) -> u64 {
        let peer = self.peers.name(circuit);
        peer.map_or(0, |peer| self.context.received(&peer))
    }

    fn ask(&mut self, circuit: &Arc<Circuit>, id: u64) {
        let is_of = |monitor: &&OpenMonitor<'_>| {
            (monitor.state.circuit()).is_some_and(|own| Arc::ptr_eq(&own, circuit))
        };
        // The last one may be closed.
        let last = self.monitors.get(&id).filter(is_of);
        let Some(monitor) = last.or_else(|| self.monitors.values().find(is_of)) else {
            return;
        };
        let asked_ns = circuit.heard_ns();
        match Operation::ask(self.context, &monitor.name, circuit) {
            Ok(operation) => {
                self.questions.push(Question {
                    circuit: Arc::downgrade(circuit),
                    asked_ns,
                    received: None,
                    _operation: operation,
                });
                self.watch.probed(circuit);
            }
            Err(reason) => log::debug!("cannot ask the server of {}: {reason}", monitor.name),
        }
    }

    fn end_late_operations(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((deadline, id))) = self.deadlines.peek()
            && deadline <= now
        {
            self.deadlines.pop();
            self.end_operation(id, OperationState::late);
        }
    }

    /// Ends an operation that isn't done, and then says so.
    fn end_operation(&mut self, id: u64, say: fn(&OperationState)) {
        if let Some(ended) = self.operations.remove(&id) {
            let state = Arc::clone(&ended.state);
            // Cancelled first, so that nothing is sent after it was said.
            drop(ended);
            say(&state);
        }
    }
}
