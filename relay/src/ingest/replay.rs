//! Serves the PVs of a recording as if they were live.
//!
//! One thread reads the recording and passes each frame on when its time has come. The PVs have the sources that they
//! had, so that pages, rules and formulas need not know of the recording.

mod control;
mod player;
mod recorded;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use pvwire_schema::types::Outcome;

use self::control::{Control, ControlSource};
use self::player::Player;
pub(crate) use self::recorded::Recorded;
use super::directory::{Directory, NameList, Origin};
use super::feed::Feed;
use super::recording::{Reader, RecordingError};
use super::{Line, Monitor, OpDone, OpEnd, OpTicket, OpenError, Put, Queue, Source};
use crate::ops::shutdown::Indispensable;

/// Name of the thread.
const THREAD: &str = "replay";

/// Sources whose PVs come from the recording alone.
const SCHEMES: [&str; 5] = ["ca", "pva", "sim", "ssim", "psim"];

/// How a recording is served.
#[derive(Clone, Copy, Debug)]
pub struct ReplayOptions<'a> {
    /// Source of recorded names that have none.
    pub default_source: &'a str,
    /// Times the speed of the recording.
    pub speed: f64,
    /// Whether it begins again at its end; otherwise its last state stays.
    pub is_looped: bool,
}

/// A recording that is served.
pub struct Replay {
    recorded: Arc<Mutex<Recorded>>,
    control: Arc<Control>,
    player: Option<Player>,
    names: Vec<String>,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Replay {
    /// Opens a recording.
    ///
    /// # Errors
    /// When the file can't be used.
    pub fn open(path: &Path, options: ReplayOptions<'_>) -> Result<Self, RecordingError> {
        let reader = Reader::open(path)?;
        if reader.torn_bytes > 0 {
            log::warn!(
                "{}: the last {} bytes are not whole and are not replayed",
                path.display(),
                reader.torn_bytes
            );
        }
        let with_source = |name: &String| match name.contains("://") {
            true => name.clone(),
            false => format!("{}://{name}", options.default_source),
        };
        let names: Vec<_> = reader.about.names.iter().map(with_source).collect();
        let recorded = Arc::new(Mutex::new(Recorded::new(&names)));
        let control = Arc::new(Control::new(reader.span_ns(), options.speed));
        let player = Player::new(
            reader,
            Arc::clone(&recorded),
            Arc::clone(&control),
            options.is_looped,
        );
        Ok(Self {
            recorded,
            control,
            player: Some(player),
            names,
            ended: Arc::default(),
            thread: None,
        })
    }

    /// Names of the recorded PVs, with their sources.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The sources of the recorded PVs, and that of the PVs that control the replay.
    #[must_use]
    pub fn sources(&self) -> Vec<Box<dyn Source>> {
        let recorded = SCHEMES.map(|scheme| {
            let recorded = Arc::clone(&self.recorded);
            Box::new(ReplaySource { scheme, recorded }) as Box<dyn Source>
        });
        let control = ControlSource(Arc::clone(&self.control));
        recorded
            .into_iter()
            .chain([Box::new(control) as _])
            .collect()
    }

    /// The names that clients may look for.
    #[must_use]
    pub fn directory(&self) -> Arc<dyn Directory> {
        let lists = SCHEMES.map(|scheme| {
            let names = self.names.iter().filter_map(|name| name.split_once("://"));
            let names = names.filter(|(of, _)| *of == scheme).map(|(_, name)| name);
            Arc::new(NameList::new(scheme, names))
        });
        Arc::new(RecordedNames(lists.into()))
    }

    /// Begins. The PVs that are open by now are shown from the first frame on.
    ///
    /// # Errors
    /// When the system can't start a thread.
    pub fn start(&mut self) -> io::Result<()> {
        let Some(player) = self.player.take() else {
            return Ok(());
        };
        let ended = Arc::clone(&self.ended);
        let thread = thread::Builder::new().name(THREAD.into()).spawn(move || {
            let _alive = Indispensable(THREAD);
            player.run(&ended);
        })?;
        self.control.wakes(thread.thread().clone());
        self.thread = Some(thread);
        Ok(())
    }
}

impl Drop for Replay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The panic hook has already reported a panic of the thread.
            let _ = thread.join();
        }
    }
}

struct RecordedNames(Vec<Arc<NameList>>);

impl Directory for RecordedNames {
    fn origin(&self) -> Origin {
        Origin::File
    }

    fn lists(&self) -> Vec<Arc<NameList>> {
        self.0.clone()
    }
}

/// The recorded PVs of one source.
struct ReplaySource {
    scheme: &'static str,
    recorded: Arc<Mutex<Recorded>>,
}

fn locked(recorded: &Mutex<Recorded>) -> MutexGuard<'_, Recorded> {
    // A panic of the thread ends the relay.
    recorded.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Source for ReplaySource {
    fn scheme(&self) -> &'static str {
        self.scheme
    }

    fn open(&self, name: &str, line: Line, _queue: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        let whole = format!("{}://{name}", self.scheme);
        let refused = locked(&self.recorded).open(&whole, Feed::new(line));
        if let Some(feed) = refused {
            feed.refused(format!(
                "{whole} is not in the recording that this relay replays"
            ));
        }
        Ok(Box::new(RecordedMonitor))
    }
}

/// A recorded PV, which can't be written.
struct RecordedMonitor;

impl Monitor for RecordedMonitor {
    fn put(&self, _put: Put, done: OpDone) -> OpTicket {
        let why = "this relay replays a recording, whose PVs can't be written";
        done(OpEnd::failed(Outcome::NotSupported, why));
        OpTicket::ended()
    }
}
