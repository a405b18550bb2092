//! The thread of a replay: reads the recording and passes on what is due.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pvwire_schema::decode;
use pvwire_schema::types::{PvId, Reply};

use super::control::Control;
use super::{ByName, locked};
use crate::ingest::feed::{self, Feed, Feeds};
use crate::ingest::recording::{Item, NAMES_PER_REQUEST, Reader, Timed};

/// Frames before a seek's time are taken together, up to this many bytes: they have arrays, too.
const TOGETHER_BYTES: usize = 64 << 20;

/// How often the position is shown.
const SHOW_EVERY: Duration = Duration::from_millis(250);

/// The recorded PVs.
#[derive(Debug)]
pub(super) struct Recorded {
    by_name: ByName,
    /// The first index of each recorded name: a PV may have been recorded by two names.
    indices: Vec<usize>,
    /// `None` if the PV is not open.
    feeds: Vec<Option<Feed>>,
    /// Indices by the numbers that the recorded relay gave.
    ids: HashMap<PvId, usize>,
}

impl Recorded {
    pub(super) fn new(names: &[String]) -> Self {
        let mut by_name = ByName::new();
        let indices = names.iter().enumerate();
        let indices = indices.map(|(index, name)| *by_name.entry(name.clone()).or_insert(index));
        Self {
            indices: indices.collect(),
            by_name,
            feeds: names.iter().map(|_| None).collect(),
            ids: HashMap::new(),
        }
    }

    /// Opens a PV; returns its feed if there is no such PV.
    pub(super) fn open(&mut self, name: &str, feed: Feed) -> Option<Feed> {
        let Some(index) = self.by_name.get(name) else {
            return Some(feed);
        };
        self.feeds[*index] = Some(feed);
        None
    }

    fn open_feeds(&mut self) -> impl Iterator<Item = &mut Feed> {
        self.feeds.iter_mut().flatten()
    }

    /// A frame names the numbers of the PVs that its request has named.
    fn number(&mut self, reply_to: u32, reply: Reply) {
        let Reply::Subscribed { ids, errors } = reply else {
            return;
        };
        let first = (reply_to as usize)
            .saturating_sub(1)
            .saturating_mul(NAMES_PER_REQUEST);
        for (id, index) in ids.into_iter().zip(self.indices.iter().skip(first)) {
            if id != PvId::NONE {
                self.ids.insert(id, *index);
            }
        }
        for error in errors {
            let index = self.indices.get(first.saturating_add(error.index as usize));
            if let Some(feed) = index.and_then(|index| self.feeds[*index].as_ref()) {
                feed.refused(error.message);
            }
        }
    }

    fn take(&mut self, (time_ns, item): Timed) {
        match item {
            Item::Frame(message) => self.take_frame(&message),
            Item::Lost => {
                self.ids.clear();
                self.open_feeds().for_each(|feed| feed.lost(time_ns));
            }
        }
    }

    fn take_frame(&mut self, message: &Bytes) {
        // A damaged chunk is not replayed at all.
        let Ok(frame) = decode::frame(message) else {
            return;
        };
        if let Some(reply) = frame.reply() {
            self.number(frame.reply_to(), reply);
        }
        feed::apply(&frame, message, self);
    }

    /// Takes items of one connection to the relay of which only the state after the last one is shown.
    fn take_together(&mut self, items: &[Timed]) {
        let message = |(_, item): &Timed| match item {
            Item::Frame(message) => Some(message.clone()),
            Item::Lost => None,
        };
        let messages: Vec<_> = items.iter().filter_map(message).collect();
        let views = messages.iter().filter_map(|message| {
            let view = decode::frame(message).ok()?;
            Some((view, message))
        });
        let views: Vec<_> = views.collect();
        let mut left = HashMap::<PvId, u32>::new();
        for (view, _) in &views {
            let numbers = view.numbers().map(|row| row.id);
            for id in numbers.chain(view.blobs().map(|row| row.id)) {
                *left.entry(id).or_default() += 1;
            }
        }
        for (view, message) in views {
            if let Some(reply) = view.reply() {
                self.number(view.reply_to(), reply);
            }
            let mut last_rows = LastRows {
                recorded: self,
                left: &mut left,
            };
            feed::apply(&view, message, &mut last_rows);
        }
    }

    fn restart(&mut self) {
        self.ids.clear();
        self.open_feeds().for_each(Feed::restart);
    }
}

impl Feeds for Recorded {
    fn feed(&mut self, pv: PvId) -> Option<&mut Feed> {
        self.feeds[*self.ids.get(&pv)?].as_mut()
    }
}

/// Shows the last row of each PV.
struct LastRows<'a> {
    recorded: &'a mut Recorded,
    /// Rows of each PV that are still to come.
    left: &'a mut HashMap<PvId, u32>,
}

impl Feeds for LastRows<'_> {
    fn feed(&mut self, pv: PvId) -> Option<&mut Feed> {
        self.recorded.feed(pv)
    }

    fn shows(&mut self, pv: PvId) -> bool {
        let Some(left) = self.left.get_mut(&pv) else {
            return true;
        };
        *left = left.saturating_sub(1);
        *left == 0
    }
}

/// The work of the thread.
pub(super) struct Player {
    reader: Reader,
    recorded: Arc<Mutex<Recorded>>,
    control: Arc<Control>,
    is_looped: bool,
    /// Items of the chunk that is under way.
    items: VecDeque<Timed>,
    /// The recording can't be read: it has ended until the next seek.
    is_broken: bool,
}

impl Player {
    pub(super) fn new(
        reader: Reader,
        recorded: Arc<Mutex<Recorded>>,
        control: Arc<Control>,
        is_looped: bool,
    ) -> Self {
        Self {
            reader,
            recorded,
            control,
            is_looped,
            items: VecDeque::new(),
            is_broken: false,
        }
    }

    pub(super) fn run(mut self, ended: &AtomicBool) {
        let (first_ns, _) = self.reader.span_ns();
        self.control.go_to(first_ns, Instant::now());
        let mut shown = None::<Instant>;
        while !ended.load(Ordering::Acquire) {
            let now = Instant::now();
            if let Some(to_ns) = self.control.take_seek() {
                self.seek(to_ns);
                shown = None;
            }
            if shown.is_none_or(|shown| shown.elapsed() >= SHOW_EVERY) {
                shown = Some(now);
                self.control.show();
            }
            let wait = match self.next_ns() {
                Some(due_ns) => self.control.wait_for(due_ns, now),
                None if self.is_looped => {
                    let wait = self.control.wait_for_repeat(now);
                    if wait.is_zero() {
                        self.seek(first_ns);
                        continue;
                    }
                    wait
                }
                None => SHOW_EVERY,
            };
            match (wait.is_zero(), self.items.pop_front_if(|_| wait.is_zero())) {
                (true, Some(item)) => locked(&self.recorded).take(item),
                _ => thread::park_timeout(wait.min(SHOW_EVERY)),
            }
        }
    }

    /// Time of the next item; `None` at the end.
    fn next_ns(&mut self) -> Option<i64> {
        while self.items.is_empty() && !self.is_broken {
            match self.reader.next_items() {
                Ok(items) => self.items.extend(items?),
                Err(error) => {
                    let until = "its last state stays until the position is set";
                    log::error!("the recording can't be read: {error}; {until}");
                    self.is_broken = true;
                }
            }
        }
        self.items.front().map(|(time_ns, _)| *time_ns)
    }

    /// Shows the state at a time. What came between the last whole state and this time is not shown update by update.
    fn seek(&mut self, to_ns: i64) {
        self.items.clear();
        self.is_broken = false;
        self.reader.go_to(to_ns);
        locked(&self.recorded).restart();
        let (mut together, mut bytes) = (Vec::new(), 0);
        while self.next_ns().is_some_and(|next_ns| next_ns <= to_ns) {
            let Some(timed) = self.items.pop_front() else {
                break;
            };
            let is_last = match &timed.1 {
                Item::Frame(message) => {
                    bytes += message.len();
                    bytes >= TOGETHER_BYTES
                }
                Item::Lost => true,
            };
            together.push(timed);
            if is_last {
                self.take_past(&mut together);
                bytes = 0;
            }
        }
        self.take_past(&mut together);
        self.control.go_to(to_ns, Instant::now());
    }

    /// Takes items of the past, of which the last one may be the loss of the relay.
    fn take_past(&mut self, together: &mut Vec<Timed>) {
        let mut recorded = locked(&self.recorded);
        let lost = together.pop_if(|(_, item)| matches!(item, Item::Lost));
        recorded.take_together(together);
        together.clear();
        if let Some(lost) = lost {
            recorded.take(lost);
        }
    }
}
