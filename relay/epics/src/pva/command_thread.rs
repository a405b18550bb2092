//! The part of the pva-cmd thread that is specific to pvxs: the monitors and operations of one
//! context, and the execution of commands.

use std::cell::OnceCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::command::Command;
use super::handle::{Context, Operation, Refused, Subscription};
use super::isolation::{Isolation, Side, Step};
use super::monitor_state::{MonitorState, Peers};
use super::operation::OperationState;
use super::pacing::Pacing;
use super::refusals::Refusals;
use super::request::OpError;
use super::suspects::{Suspects, Verdict};
use crate::command_thread::{Commands, Contents, Library};
use crate::guard::guard;
use crate::liveness::{Circuit, Duty, OnCircuit, Watch, report};
use crate::throttle::Throttle;
use crate::ticket::Ticket;
use crate::user::ContextError;

static UNREADABLE: Throttle = Throttle::new();

/// pvxs, for the command thread.
#[derive(Default)]
pub(super) struct Pvxs {
    peers: Arc<Peers>,
}

/// A context for monitors and operations, and two others that are created when needed: one for
/// isolated monitors, and one for checks.
pub(super) struct Contexts {
    main: Context,
    /// For monitors on the second side.
    second: OnceCell<Context>,
    checks: OnceCell<Context>,
}

impl Contexts {
    /// The context of a side.
    fn of(&self, side: Side) -> Result<&Context, Refused> {
        match side {
            Side::First => Ok(&self.main),
            Side::Second => created(&self.second),
        }
    }

    /// A value that breaks a connection of this context affects no monitor.
    fn checks(&self) -> Result<&Context, Refused> {
        created(&self.checks)
    }

    /// Bytes received from a server.
    fn received(&self, peer: &str) -> u64 {
        let second = self.second.get().map_or(0, |second| second.received(peer));
        self.main.received(peer) + second
    }
}

fn created(context: &OnceCell<Context>) -> Result<&Context, Refused> {
    match context.get() {
        Some(context) => Ok(context),
        None => Context::create().map(|created| context.get_or_init(|| created)),
    }
}

impl Library for Pvxs {
    const THREAD: &'static str = "pva-cmd";
    const NAME: &'static str = "pvxs";
    type Command = Command;
    type Context = Contexts;
    type Contents<'context> = Monitors<'context>;
    type Kept = Vec<(String, Arc<MonitorState>)>;

    fn create() -> Result<Contexts, ContextError> {
        let main =
            Context::create().map_err(|refused| ContextError::Library(refused.to_string()))?;
        Ok(Contexts {
            main,
            second: OnceCell::new(),
            checks: OnceCell::new(),
        })
    }

    fn open<'context>(
        &self,
        context: &'context Contexts,
        commands: &Commands<Command>,
        kept: Self::Kept,
    ) -> Monitors<'context> {
        let mut monitors = Monitors {
            contexts: context,
            commands: commands.clone(),
            peers: Arc::clone(&self.peers),
            monitors: HashMap::new(),
            pacing: Pacing::default(),
            operations: HashMap::new(),
            deadlines: BinaryHeap::new(),
            watch: Watch::default(),
            questions: Vec::new(),
            suspects: Suspects::default(),
            isolation: Isolation::default(),
            refused: Refusals::default(),
            check: None,
        };
        for (name, state) in kept {
            monitors.open(name, state);
        }
        monitors
    }

    /// The old context stays if no new one can be created. Closing it ends its callbacks.
    fn replace(old: Contexts, create: impl Fn() -> Result<Contexts, ContextError>) -> Contexts {
        create().unwrap_or_else(|reason| {
            log::error!("the context of pvxs stays, there is no new one: {reason}");
            old
        })
    }

    fn closed(kept: &Self::Kept) {
        kept.iter().for_each(|(_, state)| state.closed());
    }
}

/// The monitors and operations of one context.
pub(super) struct Monitors<'context> {
    contexts: &'context Contexts,
    monitors: HashMap<u64, OpenMonitor<'context>>,
    pacing: Pacing,
    operations: HashMap<u64, OpenOperation<'context>>,
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
    watch: Watch,
    questions: Vec<Question<'context>>,
    suspects: Suspects,
    isolation: Isolation,
    refused: Refusals,
    /// The check in progress.
    check: Option<Check<'context>>,
    commands: Commands<Command>,
    peers: Arc<Peers>,
}

/// A value that is fetched to see whether it breaks the connection.
struct Check<'context> {
    state: Arc<OperationState>,
    operation: Operation<'context>,
}

/// A probe whether a server answers.
struct Question<'context> {
    circuit: Weak<Circuit>,
    /// Bytes received from the server when the answer was first found to be late.
    received: Option<u64>,
    /// When the server had last been heard from before the probe.
    asked_ns: i64,
    /// Held until the end, because dropping it cancels it.
    _operation: Operation<'context>,
}

struct OpenMonitor<'context> {
    name: String,
    state: Arc<MonitorState>,
    side: Side,
    /// `None` before its turn, and after a failure.
    subscription: Option<Subscription<'context>>,
}

struct OpenOperation<'context> {
    state: Arc<OperationState>,
    /// Held until the end, because dropping it cancels it.
    _operation: Operation<'context>,
}

impl Contents for Monitors<'_> {
    type Command = Command;
    type Kept = Vec<(String, Arc<MonitorState>)>;

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Open { id, name, events } => {
                let (commands, peers) = (self.commands.clone(), Arc::clone(&self.peers));
                let state = MonitorState::new(id, events, commands, peers);
                self.open(name, Arc::new(state));
            }
            Command::Connected(id) => {
                self.refused.closed(id);
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
                    // The server's other monitors now have the connection to themselves.
                    monitor.subscription = None;
                    self.pacing.closed(id);
                }
            }
            Command::BrokenLater(id, server) => {
                if let Some(monitor) = self.monitors.get(&id) {
                    (self.isolation).broke(id, monitor.side, server, Instant::now());
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
            Command::Failed(id, is_refused) => {
                if is_refused {
                    self.refused.answered(id);
                } else {
                    self.refused.closed(id);
                }
                self.retry(id);
            }
            Command::Close(id) => {
                self.pacing.closed(id);
                self.suspects.closed(id);
                self.isolation.closed(id);
                self.refused.closed(id);
                self.monitors.remove(&id);
            }
            Command::Operate {
                id,
                name,
                request,
                timeout,
                state,
            } => {
                let started =
                    Operation::start(&self.contexts.main, &name, &request, Arc::clone(&state));
                match started {
                    Ok(operation) => self.started(id, state, operation, timeout),
                    Err(refused) => state.complete(Err(OpError::Invalid(refused.to_string()))),
                }
            }
            Command::Done(id) => {
                self.operations.remove(&id);
            }
            Command::Cancel(id) => self.end_operation(id, OperationState::given_up),
        }
    }

    fn turn(&mut self) -> Option<Instant> {
        self.isolate();
        self.check_suspects();
        self.create_monitors();
        self.end_late_operations();
        self.end_refused();
        self.look();
        let deadline = self.deadlines.peek().map(|&Reverse((at, _))| at);
        let look = self.watch.next();
        let (check, step) = (self.suspects.wake(), self.isolation.wake());
        let answer = self.refused.wake();
        [self.pacing.wake(), check, step, deadline, look, answer]
            .into_iter()
            .flatten()
            .min()
    }

    /// Ends everything; operations are not restarted.
    fn close(self) -> Self::Kept {
        let monitors = self.monitors.into_values();
        monitors
            .map(|monitor| (monitor.name, monitor.state))
            .collect()
    }
}

impl<'context> Monitors<'context> {
    fn open(&mut self, name: String, state: Arc<MonitorState>) {
        let id = state.id();
        let monitor = OpenMonitor {
            name,
            state,
            side: Side::First,
            subscription: None,
        };
        self.monitors.insert(id, monitor);
        self.pacing.add(id);
    }

    /// Ends a dead subscription and creates another one later.
    fn retry(&mut self, id: u64) {
        if let Some(monitor) = self.monitors.get_mut(&id) {
            monitor.subscription = None;
            self.pacing.failed(id, Instant::now());
        }
    }

    /// Disconnects refused monitors whose servers don't answer any more.
    fn end_refused(&mut self) {
        for id in self.refused.lost(Instant::now()) {
            if let Some(monitor) = self.monitors.get(&id) {
                monitor.state.closed();
            }
        }
    }

    /// Moves or suspends monitors of servers whose connections keep breaking.
    fn isolate(&mut self) {
        let now = Instant::now();
        let (monitors, peers) = (&self.monitors, &self.peers);
        let steps = self.isolation.steps(now, |server, side| {
            let circuit = peers.known(server);
            circuit.is_some_and(|circuit| {
                let mut of_side = monitors.values().filter(|monitor| monitor.side == side);
                of_side.any(|monitor| monitor.state.is_on(&circuit))
            })
        });
        for step in steps {
            match step {
                Step::Move(ids) => ids.into_iter().for_each(|id| self.change_side(id)),
                Step::Hold(id, server, pause) => {
                    self.unsubscribe(id);
                    self.suspects.hold(id, pause, now);
                    self.hold_back(
                        id,
                        &format!(
                            "the pvAccess server {server} sends updates that can't be decoded for this PV; \
                             its administrator must repair that"
                        ),
                    );
                }
            }
        }
    }

    fn change_side(&mut self, id: u64) {
        self.unsubscribe(id);
        if let Some(monitor) = self.monitors.get_mut(&id) {
            monitor.side = monitor.side.other();
            self.pacing.add(id);
        }
    }

    fn unsubscribe(&mut self, id: u64) {
        if let Some(monitor) = self.monitors.get_mut(&id) {
            monitor.subscription = None;
            monitor.state.closed();
            self.pacing.closed(id);
        }
    }

    /// Fetches the value of the next suspect, and gives up a check that is late.
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
        let done = Box::new(move |result| {
            let verdict = match result {
                Err(OpError::Disconnected) => Verdict::Breaks,
                Err(OpError::TimedOut | OpError::NotConnected) => Verdict::Unknown,
                _ => Verdict::Good,
            };
            // Fails if the client was dropped.
            let _ = commands.send(Command::Checked(id, verdict));
        });
        let state = Arc::new(OperationState::new(Ticket::default(), done));
        let context = self.contexts.checks();
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

    /// Reports why a monitor is suspended.
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
            self.refused.asked(id, Instant::now());
            monitor.state.begin();
            let state = Arc::clone(&monitor.state);
            let created = (self.contexts.of(monitor.side))
                .and_then(|context| Subscription::create(context, &monitor.name, state));
            match created {
                Ok(subscription) => monitor.subscription = Some(subscription),
                Err(reason) => {
                    log::error!("cannot subscribe to {}: {reason}", monitor.name);
                    self.retry(id);
                }
            }
        }
    }

    fn started(
        &mut self,
        id: u64,
        state: Arc<OperationState>,
        operation: Operation<'context>,
        timeout: Duration,
    ) {
        let open = OpenOperation {
            state,
            _operation: operation,
        };
        self.operations.insert(id, open);
        // Without a deadline if it exceeds the range of the clock.
        if let Some(deadline) = Instant::now().checked_add(timeout) {
            self.deadlines.push(Reverse((deadline, id)));
        }
    }

    /// Probes quiet servers, and reports servers that don't answer, or answer again, to their
    /// monitors.
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
                    let states = self.monitors.values().map(|monitor| &*monitor.state);
                    report(states, &circuit, duty == Duty::Responsive);
                }
            }
        }
        // When a connection is lost, pvxs would send the probe again on the next connection.
        self.questions.retain(|question| {
            let circuit = question.circuit.upgrade();
            circuit.is_some_and(|circuit| circuit.heard_ns() == question.asked_ns)
        });
    }

    fn received(&self, circuit: &Arc<Circuit>) -> u64 {
        let peer = self.peers.name(circuit);
        peer.map_or(0, |peer| self.contexts.received(&peer))
    }

    fn ask(&mut self, circuit: &Arc<Circuit>, id: u64) {
        let is_of = |monitor: &&OpenMonitor<'_>| monitor.state.is_on(circuit);
        // The last one may be closed.
        let last = self.monitors.get(&id).filter(is_of);
        let Some(monitor) = last.or_else(|| self.monitors.values().find(is_of)) else {
            return;
        };
        let asked_ns = circuit.heard_ns();
        match Operation::ask(&self.contexts.main, &monitor.name, circuit) {
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

    /// Ends an unfinished operation and then reports it.
    fn end_operation(&mut self, id: u64, say: fn(&OperationState)) {
        if let Some(ended) = self.operations.remove(&id) {
            let state = Arc::clone(&ended.state);
            // Cancelled first, so that nothing is sent after the report.
            drop(ended);
            say(&state);
        }
    }
}
