//! The part of the pva-cmd thread that is specific to pvxs: the monitors and operations of one
//! context, and the execution of commands.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::command::Command;
use super::handle::{Contexts, Discovery, Operation, Subscription};
use super::isolation::{Isolation, Side, Step};
use super::monitor_state::{MonitorState, Peers};
use super::operation::OperationState;
use super::pacing::Pacing;
use super::questions::{Answer, Finding, Questions, Why};
use super::refusals::Refusals;
use super::request::OpError;
use super::search_replies;
use super::servers::Servers;
use super::suspects::{Suspects, Verdict};
use crate::command_thread::{Commands, Contents, Library};
use crate::guard::guard;
use crate::liveness::{Circuit, Duty, OnCircuit, Watch, report};
use crate::memory::shrink;
use crate::silence::{Unconnected, silent_server};
use crate::throttle::Throttle;
use crate::ticket::Ticket;
use crate::user::ContextError;

static UNREADABLE: Throttle = Throttle::new();

/// pvxs, for the command thread.
#[derive(Default)]
pub(super) struct Pvxs {
    peers: Arc<Peers>,
}

impl Library for Pvxs {
    const THREAD: &'static str = "pva-cmd";
    const NAME: &'static str = "pvxs";
    type Command = Command;
    type Context = Contexts;
    type Contents<'context> = Monitors<'context>;
    type Kept = Kept;

    fn create() -> Result<Contexts, ContextError> {
        Contexts::create()
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
            questions: Questions::default(),
            suspects: Suspects::default(),
            isolation: Isolation::default(),
            refused: Refusals::default(),
            unconnected: Unconnected::default(),
            check: None,
            discoveries: Vec::new(),
        };
        for (name, state) in kept.monitors {
            monitors.open(name, state);
        }
        for servers in kept.discoveries {
            monitors.discover(servers);
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
        kept.monitors.iter().for_each(|(_, state)| state.closed());
    }
}

/// What a new context opens again.
#[derive(Default)]
pub(super) struct Kept {
    monitors: Vec<(String, Arc<MonitorState>)>,
    discoveries: Vec<Arc<Servers>>,
}

/// The monitors and operations of one context.
pub(super) struct Monitors<'context> {
    contexts: &'context Contexts,
    monitors: HashMap<u64, OpenMonitor<'context>>,
    pacing: Pacing,
    operations: HashMap<u64, OpenOperation<'context>>,
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
    watch: Watch,
    questions: Questions<Operation<'context>>,
    suspects: Suspects,
    isolation: Isolation,
    refused: Refusals,
    unconnected: Unconnected,
    /// The check in progress.
    check: Option<Check<'context>>,
    /// Each is held until the end, because dropping it ends it.
    discoveries: Vec<(Arc<Servers>, Option<Discovery<'context>>)>,
    commands: Commands<Command>,
    peers: Arc<Peers>,
}

/// A value that is fetched to see whether it breaks the connection.
struct Check<'context> {
    state: Arc<OperationState>,
    operation: Operation<'context>,
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
    type Kept = Kept;

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Open { id, name, events } => {
                let (commands, peers) = (self.commands.clone(), Arc::clone(&self.peers));
                let state = MonitorState::new(id, events, commands, peers);
                self.open(name, Arc::new(state));
            }
            Command::Connected(id) => {
                self.refused.closed(id);
                if let Some(monitor) = self.monitors.get(&id)
                    && let Some(circuit) = monitor.state.circuit()
                {
                    let now = Instant::now();
                    self.watch.add(&circuit, id, now);
                    self.questions.add(&circuit, id);
                    search_replies::forget(&monitor.name);
                    let server = self.peers.name(&circuit).unwrap_or_default();
                    self.unconnected.connected(id, &server, now);
                }
            }
            Command::Lost(id) => {
                if self.monitors.contains_key(&id) {
                    self.unconnected.add(id, Instant::now());
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
            Command::BrokenLater(id, server, at) => {
                if let Some(monitor) = self.monitors.get(&id) {
                    (self.isolation).broke(id, monitor.side, server, at);
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
                self.unconnected.closed(id);
                self.monitors.remove(&id);
                shrink(&mut self.monitors);
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
            Command::Discover(servers) => self.discover(servers),
            Command::Done(id) => {
                self.operations.remove(&id);
                shrink(&mut self.operations);
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
        self.check_unconnected();
        self.look();
        let deadline = self.deadlines.peek().map(|&Reverse((at, _))| at);
        let look = self.watch.next();
        let (check, step) = (self.suspects.wake(), self.isolation.wake());
        let answer = self.refused.wake();
        let unconnected = self.unconnected.next();
        [
            self.pacing.wake(),
            check,
            step,
            deadline,
            look,
            answer,
            unconnected,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Ends everything; operations are not restarted.
    fn close(self) -> Self::Kept {
        let monitors = self.monitors.into_values();
        Kept {
            monitors: monitors
                .map(|monitor| (monitor.name, monitor.state))
                .collect(),
            discoveries: (self.discoveries.into_iter())
                .map(|(servers, _)| servers)
                .collect(),
        }
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

    fn discover(&mut self, servers: Arc<Servers>) {
        let started = Discovery::start(&self.contexts.main, Arc::clone(&servers));
        if let Err(reason) = &started {
            log::error!("servers of pvAccess are not looked for: {reason}");
        }
        self.discoveries.push((servers, started.ok()));
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

    /// Reports servers that have answered searches and don't connect monitors. pvxs gives such a connection up
    /// and searches again.
    fn check_unconnected(&mut self) {
        let now = Instant::now();
        for id in self.unconnected.due(now) {
            let Some(monitor) = self.monitors.get(&id) else {
                continue;
            };
            if monitor.subscription.is_none() || monitor.state.is_answered() {
                // A suspended one has another reason.
                self.unconnected.closed(id);
                continue;
            }
            let server = search_replies::server_of(&monitor.name).unwrap_or_default();
            let known = Some(server.clone()).filter(|server| !server.is_empty());
            if let Some(what) = self.unconnected.checked(id, known, now).report() {
                let reason = silent_server(&server, what);
                guard("reason", || monitor.state.on_reason(&reason));
            }
        }
    }

    /// Moves or suspends monitors of servers whose connections keep breaking.
    fn isolate(&mut self) {
        let now = Instant::now();
        let (monitors, peers) = (&self.monitors, &self.peers);
        let steps = self.isolation.steps(now, |server, side, before| {
            let is_held = |monitor: &OpenMonitor<'_>| {
                before.is_none_or(|before| monitor.state.is_connected_since(before))
            };
            let circuit = peers.known(server);
            circuit.is_some_and(|circuit| {
                let mut of_side = monitors.values().filter(|monitor| monitor.side == side);
                of_side.any(|monitor| monitor.state.is_on(&circuit) && is_held(monitor))
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
                Ok(subscription) => {
                    monitor.subscription = Some(subscription);
                    self.unconnected.add(id, Instant::now());
                }
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
        let now = Instant::now();
        if self.watch.next().is_none_or(|next| now < next) {
            return;
        }
        let duties = self.watch.look(now);
        self.find_silent();
        for (circuit, duty) in duties {
            match duty {
                Duty::Probe(_) => self.ask(&circuit, Why::Probe),
                Duty::Doubt => {
                    let peer = self.peers.name(&circuit);
                    let received = peer.map_or(0, |peer| self.contexts.received(&peer));
                    if self.questions.is_receiving(&circuit, received) {
                        circuit.heard();
                    } else {
                        self.ask(&circuit, Why::Doubt);
                    }
                }
                Duty::Unresponsive | Duty::Responsive => {
                    let answers = duty == Duty::Responsive;
                    if answers {
                        for id in self.questions.answers_again(&circuit) {
                            if let Some(monitor) = self.monitors.get(&id) {
                                monitor.state.is_silent_alone(true);
                            }
                        }
                    }
                    let states = self.monitors.values().map(|monitor| &*monitor.state);
                    let others = states.filter(|state| {
                        state.is_on(&circuit) && !self.questions.is_silent(state.id())
                    });
                    report(others, &circuit, answers);
                }
            }
        }
        for circuit in self.questions.hurried() {
            self.ask(&circuit, Why::Late);
        }
    }

    /// Reports monitors that are not answered while others of their circuit are, and those that are answered again.
    fn find_silent(&mut self) {
        let monitors = &self.monitors;
        let found = self.questions.look(|id, circuit| {
            let state = &monitors.get(&id)?.state;
            state.is_on(circuit).then(|| state.is_updated())
        });
        for (id, finding) in found {
            let state = &monitors[&id].state;
            guard("channel", || match finding {
                Finding::Silent => {
                    state.is_silent_alone(true);
                    state.unresponsive(state.heard_ns());
                }
                Finding::Answered { at_ns, was_silent } => {
                    state.heard(at_ns);
                    if was_silent {
                        state.is_silent_alone(false);
                        state.responsive();
                    }
                }
            });
        }
    }

    /// Asks servers of a circuit's channels.
    fn ask(&mut self, circuit: &Arc<Circuit>, why: Why) {
        let monitors = &self.monitors;
        let is_on = |id| (monitors.get(&id)).is_some_and(|found| found.state.is_on(circuit));
        for id in self.questions.next(circuit, why, is_on) {
            let monitor = &monitors[&id];
            monitor.state.asks();
            let answer = Answer::awaited(circuit);
            let asked = (self.contexts.of(monitor.side))
                .and_then(|context| Operation::ask(context, &monitor.name, Arc::clone(&answer)));
            match asked {
                Ok(operation) => {
                    (self.questions).asked(id, monitor.side, why, answer, operation);
                }
                Err(reason) => log::debug!("cannot ask the server of {}: {reason}", monitor.name),
            }
        }
        if self.questions.are_open(circuit) {
            self.watch.probed(circuit);
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
