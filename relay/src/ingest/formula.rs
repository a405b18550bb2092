//! Formulas as a source: PVs such as `` eq://`A` + `B` ``, which are computed from the values of other PVs.
//!
//! The registry holds the inputs for as long as a formula is open. A sink of the ticker gives a formula the values
//! of its inputs when one of them has changed; of several such sets the newest wins. One thread passes formulas that
//! are due to the threads that compute for clients, in turn, see [`crate::compute`].

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};
use std::{io, mem};

use crossbeam_queue::{ArrayQueue, SegQueue};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use pvwire_pvws::{Computed, Dialect, Formula, FormulaError, Known, Sample, Value, formula_failed};
use pvwire_schema::types::{Alarm, Detail, Metadata, PvId};

use super::local;
use super::{Event, Line, Monitor, OpenError, Queue, RowValue, Source};
use crate::compute::{PoolHandle, Size, cpu_time};
use crate::limits::cpu::CpuShare;
use crate::limits::memory::PvCharge;
use crate::ops::latency::wall_ns;
use crate::ops::shutdown::Indispensable;

/// Name of the thread.
const THREAD: &str = "formulas";

/// What a text occupies besides its bytes.
const TEXT_BYTES: usize = 64;

/// Bytes of the texts of formulas and of their inputs that are kept: more than those of one step of a request.
const KNOWN_INPUTS_BYTES: usize = 256 * 1024;

/// After an evaluation a formula rests for this many times as long, so that none takes more than a tenth of a
/// thread, and the other formulas of its client have their turns.
const REST: u32 = 9;

/// An evaluation that takes longer leaves a thread free for shorter ones.
const LONG: Duration = Duration::from_millis(2);

/// The value of a connected input.
#[derive(Clone, Debug)]
pub struct FormulaInput {
    /// Its type and display information.
    pub metadata: Arc<Metadata>,
    /// Its value.
    pub value: RowValue,
    /// Its alarm.
    pub alarm: Alarm,
    /// User tag and alarm message.
    pub detail: Option<Arc<Detail>>,
    /// Nanoseconds past the POSIX epoch.
    pub time_ns: i64,
    /// When its server was last heard from, if it doesn't respond; otherwise 0.
    pub heard_ns: i64,
}

/// The inputs of a formula in its order; `None` for those without a value.
type Inputs = Vec<Option<FormulaInput>>;

/// A formula that is open.
#[derive(Debug)]
pub struct OpenFormula {
    /// The newest values of the inputs.
    given: ArrayQueue<Inputs>,
    is_queued: AtomicBool,
    is_closed: AtomicBool,
    /// The last evaluation took long.
    is_long: AtomicBool,
    /// It is not evaluated again before this time.
    rests_until: Mutex<Instant>,
    running: Mutex<Running>,
    /// Who pays for it.
    charge: Weak<PvCharge>,
    shared: Arc<FormulaShared>,
}

impl OpenFormula {
    /// Whether no client holds it any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Gives the present values of its inputs, from which its value is computed after the next
    /// [`OpenedFormulas::compute`]; then [`OpenedFormulas::next_computed`] returns it. Doesn't block.
    pub fn give(self: &Arc<Self>, inputs: Inputs) {
        self.given.force_push(inputs);
        self.queue();
    }

    fn queue(self: &Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            self.shared.due.push(Arc::clone(self));
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        // A panic is caught before it could leave a formula half changed.
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rests_until(&self) -> MutexGuard<'_, Instant> {
        (self.rests_until.lock()).unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets the value be computed when it is its clients' turn.
    fn compute(self: Arc<Self>) {
        let charge = self.charge.upgrade();
        let share = charge.map_or_else(CpuShare::unlimited, |charge| charge.cpu(Instant::now()));
        let size = if self.is_long.load(Ordering::Relaxed) {
            Size::Long
        } else {
            Size::Short
        };
        let pool = self.shared.pool.clone();
        pool.run(&share, size, move || self.evaluate());
    }

    /// Computes the value from the newest inputs.
    fn evaluate(self: &Arc<Self>) {
        let begun = cpu_time();
        if let Some(inputs) = self.given.pop()
            && !self.is_closed()
        {
            self.running().evaluate(&inputs);
        }
        let took = cpu_time().saturating_sub(begun);
        self.is_long.store(took > LONG, Ordering::Relaxed);
        *self.rests_until() = Instant::now() + took * REST;
        self.shared.computed.push(Arc::clone(self));
        self.running().line.wake();
        // Until here it isn't queued again, so that no second thread waits for it. Inputs that it was given meanwhile are
        // seen here, or the thread that gives them queues it.
        self.is_queued.swap(false, Ordering::AcqRel);
        if !self.given.is_empty() {
            self.queue();
            self.shared.wake();
        }
    }
}

/// What the source, the sink of the ticker and the threads share.
#[derive(Debug)]
struct FormulaShared {
    /// New formulas for the sink, with the numbers of their inputs.
    opened: SegQueue<(Arc<OpenFormula>, Vec<PvId>)>,
    /// Formulas that were closed.
    closed: SegQueue<Arc<OpenFormula>>,
    /// Formulas that have computed their values from the inputs that they were given.
    computed: SegQueue<Arc<OpenFormula>>,
    /// Formulas with new inputs, each once.
    due: SegQueue<Arc<OpenFormula>>,
    thread: OnceLock<Thread>,
    is_ended: AtomicBool,
    pool: PoolHandle,
}

impl FormulaShared {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Passes the formulas with new inputs on, unless they rest.
    fn run(&self) {
        let mut waiting: Vec<Arc<OpenFormula>> = Vec::new();
        while !self.is_ended.load(Ordering::Acquire) {
            while let Some(formula) = self.due.pop() {
                waiting.push(formula);
            }
            let now = Instant::now();
            let mut next: Option<Instant> = None;
            for formula in mem::take(&mut waiting) {
                let rests_until = *formula.rests_until();
                if rests_until > now {
                    next = Some(next.map_or(rests_until, |next| next.min(rests_until)));
                    waiting.push(formula);
                } else {
                    formula.compute();
                }
            }
            match next {
                _ if !self.due.is_empty() => {}
                Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }
}

/// The formulas that the sink of the ticker has to follow.
#[derive(Clone, Debug)]
pub struct OpenedFormulas(Arc<FormulaShared>);

impl OpenedFormulas {
    /// Lets the formulas that were given inputs be computed. Waking the thread for each of them would interrupt the
    /// tick as often.
    pub fn compute(&self) {
        self.0.wake();
    }

    /// Whether no formula waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.opened.is_empty() && self.0.computed.is_empty()
    }

    /// Takes one, with the numbers of its inputs.
    #[must_use]
    pub fn next(&self) -> Option<(Arc<OpenFormula>, Vec<PvId>)> {
        self.0.opened.pop()
    }

    /// Takes one that has computed its value and may be given further inputs.
    #[must_use]
    pub fn next_computed(&self) -> Option<Arc<OpenFormula>> {
        self.0.computed.pop()
    }

    /// Takes one that was closed. It was opened before.
    #[must_use]
    pub fn next_closed(&self) -> Option<Arc<OpenFormula>> {
        self.0.closed.pop()
    }
}

/// PVs such as `` eq://`A` + `B` ``.
pub struct FormulaSource {
    /// The source of inputs without a prefix.
    default: Dialect,
    inputs: Mutex<KnownInputs>,
    shared: Arc<FormulaShared>,
    thread: Option<JoinHandle<()>>,
}

impl FormulaSource {
    /// Starts the thread. `default` is the scheme of inputs without one; `pool` computes the values.
    ///
    /// # Errors
    /// When the thread can't start.
    pub fn start(default: &str, pool: PoolHandle) -> io::Result<Self> {
        // Reads the time zones now: the many small blocks that stay would otherwise lie between what formulas
        // free, and keep its pages.
        let _ = TimeZone::system();
        let shared = Arc::new(FormulaShared {
            opened: SegQueue::new(),
            closed: SegQueue::new(),
            computed: SegQueue::new(),
            due: SegQueue::new(),
            thread: OnceLock::new(),
            is_ended: AtomicBool::new(false),
            pool,
        });
        let served = Arc::clone(&shared);
        let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let _alive = Indispensable(THREAD);
            served.run();
        })?;
        // The thread parks only after it has checked the queue.
        let _ = shared.thread.set(thread.thread().clone());
        Ok(Self {
            default: Dialect::of(default).unwrap_or(Dialect::Ca),
            inputs: Mutex::default(),
            shared,
            thread: Some(thread),
        })
    }

    /// The side of the sink that gives formulas their inputs.
    #[must_use]
    pub fn opened(&self) -> OpenedFormulas {
        OpenedFormulas(Arc::clone(&self.shared))
    }
}

impl Drop for FormulaSource {
    fn drop(&mut self) {
        self.shared.is_ended.store(true, Ordering::Release);
        self.shared.wake();
        if let Some(thread) = self.thread.take() {
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

impl Source for FormulaSource {
    fn scheme(&self) -> &'static str {
        "eq"
    }

    fn inputs(&self, name: &str) -> Arc<[String]> {
        let known = || self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(inputs) = known().of(name) {
            return inputs;
        }
        // A formula that can't be read has a value that says why.
        let inputs = Formula::read(name, self.default)
            .map(|read| read.inputs().map(str::to_owned).collect())
            .unwrap_or_default();
        known().keep(name, Arc::clone(&inputs));
        inputs
    }

    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let charge = line.charge();
        if let Some(charge) = &charge {
            charge.computes();
        }
        let running = Running {
            name: name.to_owned(),
            line,
            formula: Reading::Awaited(self.default),
            shown: None,
            last: None,
            is_connected: false,
            heard_ns: 0,
        };
        Ok(Box::new(FormulaMonitor(Arc::new(OpenFormula {
            given: ArrayQueue::new(1),
            is_queued: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            is_long: AtomicBool::new(false),
            rests_until: Mutex::new(Instant::now()),
            running: Mutex::new(running),
            charge: charge.as_ref().map(Arc::downgrade).unwrap_or_default(),
            shared: Arc::clone(&self.shared),
        }))))
    }
}

struct FormulaMonitor(Arc<OpenFormula>);

impl Monitor for FormulaMonitor {
    fn follow(&self, inputs: Vec<PvId>) {
        if inputs.is_empty() {
            self.0.give(Vec::new());
            return self.0.shared.wake();
        }
        let opened = (Arc::clone(&self.0), inputs);
        self.0.shared.opened.push(opened);
        // Wakes the tick thread, whose sink follows the inputs from now on.
        self.0.running().line.event(ACCESS);
    }
}

impl Drop for FormulaMonitor {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Relaxed);
        self.0.shared.closed.push(Arc::clone(&self.0));
    }
}

/// The rights to a formula that is connected.
const ACCESS: Event = Event::Access {
    read: true,
    write: false,
};

/// The text of a formula is read by the thread that evaluates it, at the client's expense.
#[derive(Debug)]
enum Reading {
    Awaited(Dialect),
    Done(Result<Formula, FormulaError>),
    Panicked,
}

/// The inputs of some formulas. A request asks for those of each several times, and holds locks meanwhile.
#[derive(Debug, Default)]
struct KnownInputs {
    by_name: HashMap<Box<str>, Arc<[String]>>,
    bytes: usize,
}

impl KnownInputs {
    fn of(&self, name: &str) -> Option<Arc<[String]>> {
        self.by_name.get(name).cloned()
    }

    fn keep(&mut self, name: &str, inputs: Arc<[String]>) {
        let text = |length: usize| length + TEXT_BYTES;
        let texts = inputs.iter().map(|input| text(input.len()));
        let bytes = text(name.len()) + texts.sum::<usize>();
        if self.bytes + bytes > KNOWN_INPUTS_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.by_name.insert(name.into(), inputs);
    }
}

/// The state of an open formula. Its line is called by the thread that opens it first, then only by the one that
/// evaluates it.
#[derive(Debug)]
struct Running {
    name: String,
    line: Line,
    formula: Reading,
    /// The metadata that clients know.
    shown: Option<Metadata>,
    /// The last update: value, alarm, message and time.
    last: Option<(RowValue, Alarm, String, i64)>,
    is_connected: bool,
    /// When the server of an input was last heard from, if one doesn't respond; otherwise 0.
    heard_ns: i64,
}

impl Running {
    fn evaluate(&mut self, inputs: &[Option<FormulaInput>]) {
        if let Reading::Awaited(default) = self.formula {
            self.formula = Reading::Done(Formula::read(&self.name, default));
        }
        let Reading::Done(formula) = &mut self.formula else {
            return;
        };
        // After a panic the formula is of no use.
        match catch_unwind(AssertUnwindSafe(|| value_of(formula, inputs))) {
            Ok(Some(computed)) => {
                let silent = inputs.iter().flatten().map(|input| input.heard_ns);
                let heard_ns = silent.filter(|heard_ns| *heard_ns != 0).min();
                self.show(computed, heard_ns.unwrap_or(0));
            }
            Ok(None) => self.disconnect(),
            Err(_) => {
                log::error!(
                    "the formula {:?} panicked; the PV is disconnected, please report it",
                    self.name
                );
                self.formula = Reading::Panicked;
                self.disconnect();
            }
        }
    }

    /// Shows a value. `heard_ns`: when the server of an input was last heard from, if one doesn't respond.
    fn show(&mut self, computed: Computed, heard_ns: i64) {
        let Computed {
            metadata,
            value,
            alarm,
            message,
            time_ns,
        } = computed;
        let is_changed = self.shown.as_ref() != Some(&metadata);
        if is_changed || !self.is_connected {
            self.line.event(ACCESS);
            self.line.connected(is_changed && self.shown.is_some());
            self.line.event(Event::Metadata(Box::new(Metadata {
                epoch: self.line.epoch(),
                ..metadata.clone()
            })));
            self.shown = Some(metadata);
            self.is_connected = true;
            (self.heard_ns, self.last) = (0, None);
        }
        let newest = (local::row(value), alarm, message, time_ns);
        let has_moved = self.heard_ns != heard_ns;
        // A server that stops responding brings no new value.
        if !has_moved || self.last.as_ref() != Some(&newest) {
            let (value, alarm, message, time_ns) = newest.clone();
            let detail = (!message.is_empty()).then(|| {
                Arc::new(Detail {
                    message,
                    ..Detail::default()
                })
            });
            self.line.update_with(time_ns, value, alarm, detail);
            self.last = Some(newest);
        }
        if has_moved {
            self.heard_ns = heard_ns;
            self.line.event(match heard_ns {
                0 => Event::Responsive,
                heard_ns => Event::Unresponsive { heard_ns },
            });
        }
    }

    fn disconnect(&mut self) {
        if std::mem::take(&mut self.is_connected) {
            self.line.event(Event::Disconnected);
        }
    }
}

/// The present value of a formula; `None` if an input has none.
fn value_of(
    formula: &mut Result<Formula, FormulaError>,
    inputs: &[Option<FormulaInput>],
) -> Option<Computed> {
    let now_ns = wall_ns();
    let formula = match formula {
        Ok(formula) => formula,
        Err(error) => return Some(formula_failed(error, now_ns)),
    };
    let known: Vec<_> = inputs
        .iter()
        .map(|input| input.as_ref().map(known))
        .collect();
    let now = Timestamp::from_nanosecond(now_ns.into()).unwrap_or_default();
    let offset = TimeZone::system().to_offset(now).seconds();
    formula.evaluate(&known, now_ns, offset)
}

fn known(input: &FormulaInput) -> Known<'_> {
    Known {
        metadata: &input.metadata,
        sample: Sample {
            value: match &input.value {
                RowValue::Number(number) => Value::Number(*number),
                RowValue::Blob(blob) | RowValue::Structure { whole: blob, .. } => Value::Blob(blob),
            },
            alarm: input.alarm,
            message: (input.detail.as_ref()).map_or("", |detail| &detail.message),
            time_ns: input.time_ns,
        },
    }
}
