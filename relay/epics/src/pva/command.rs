//! In which order are monitors and operations created and ended, and by whom?
//!
//! By the pva-cmd thread alone. It holds no lock that a callback takes.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::StartError;
use super::handle::{Context, Operation, Subscription};
use super::monitor_state::MonitorState;
use super::operation::{OpError, OperationState, Request};
use super::pacing::Pacing;
use crate::user::{UserName, create_as};

/// A batch ends here even when more commands wait, so that monitors are created meanwhile.
const BATCH: usize = 1_000;

/// What the pva-cmd thread is asked to do.
///
/// The queue of commands has no limit of its own; there are never more than a few for an open
/// monitor and two for an operation, and their numbers are the caller's.
pub(super) enum Command {
    /// Open a monitor.
    Open {
        name: String,
        state: Arc<MonitorState>,
    },
    /// The first value of the monitor with this id has come.
    Settled(u64),
    /// The monitor with this id is dead.
    Failed(u64),
    /// Close the monitor with this id.
    Close(u64),
    /// Do something once.
    Operate {
        name: String,
        request: Request,
        timeout: Duration,
        state: Arc<OperationState>,
    },
    /// The operation with this id has ended.
    Done(u64),
    /// Open all monitors anew, in a new context.
    Renew,
    /// Close all and end.
    Stop,
}

/// Body of the pva-cmd thread. Says through `started` whether there is a context.
pub(super) fn run(
    user: Option<&UserName>,
    commands: &Receiver<Command>,
    started: &SyncSender<Result<(), StartError>>,
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
    while let End::Renew(open) = serve(&context, commands, monitors) {
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
    commands: &Receiver<Command>,
    begin: Vec<(String, Arc<MonitorState>)>,
) -> End {
    let mut desk = Desk::new(context);
    for (name, state) in begin {
        desk.carry_out(Command::Open { name, state });
    }
    desk.create_monitors();
    loop {
        let first = match desk.wake() {
            None => commands.recv().ok(),
            Some(wake) => {
                match commands.recv_timeout(wake.saturating_duration_since(Instant::now())) {
                    Ok(command) => Some(command),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => return End::Stop,
                }
            }
        };
        for command in first.into_iter().chain(commands.try_iter()).take(BATCH) {
            match command {
                Command::Stop => return End::Stop,
                Command::Renew => return End::Renew(desk.into_monitors()),
                command => desk.carry_out(command),
            }
        }
        desk.create_monitors();
        desk.end_late_operations();
    }
}

/// All that is open.
struct Desk<'context> {
    context: &'context Context,
    monitors: HashMap<u64, OpenMonitor<'context>>,
    pacing: Pacing,
    operations: HashMap<u64, OpenOperation<'context>>,
    deadlines: BinaryHeap<Reverse<(Instant, u64)>>,
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
    fn new(context: &'context Context) -> Self {
        Self {
            context,
            monitors: HashMap::new(),
            pacing: Pacing::default(),
            operations: HashMap::new(),
            deadlines: BinaryHeap::new(),
        }
    }

    /// When something is to be done without a command.
    fn wake(&self) -> Option<Instant> {
        let deadline = self.deadlines.peek().map(|&Reverse((at, _))| at);
        self.pacing.wake().into_iter().chain(deadline).min()
    }

    fn carry_out(&mut self, command: Command) {
        match command {
            Command::Open { name, state } => {
                let id = state.id();
                let monitor = OpenMonitor {
                    name,
                    state,
                    subscription: None,
                };
                self.monitors.insert(id, monitor);
                self.pacing.add(id);
            }
            Command::Settled(id) => self.pacing.settled(id),
            Command::Failed(id) => self.retry(id),
            Command::Close(id) => {
                self.pacing.closed(id);
                self.monitors.remove(&id);
            }
            Command::Operate {
                name,
                request,
                timeout,
                state,
            } => self.operate(&name, &request, timeout, state),
            Command::Done(id) => {
                self.operations.remove(&id);
            }
            Command::Renew | Command::Stop => {}
        }
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

    fn operate(
        &mut self,
        name: &str,
        request: &Request,
        timeout: Duration,
        state: Arc<OperationState>,
    ) {
        match Operation::start(self.context, name, request, Arc::clone(&state)) {
            Ok(operation) => {
                let id = state.id();
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

    fn end_late_operations(&mut self) {
        let now = Instant::now();
        while let Some(&Reverse((deadline, id))) = self.deadlines.peek()
            && deadline <= now
        {
            self.deadlines.pop();
            if let Some(late) = self.operations.remove(&id) {
                late.state.complete(Err(OpError::TimedOut));
            }
        }
    }
}
