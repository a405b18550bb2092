//! The recorded PVs, and what frames of a recording have for them.

use std::collections::HashMap;

use bytes::Bytes;
use pvwire_schema::decode;
use pvwire_schema::types::{PvId, Reply};

use crate::ingest::feed::{self, Feed, Feeds};
use crate::ingest::recording::{Item, NAMES_PER_REQUEST, Timed};

/// Indices by name.
type ByName = HashMap<String, usize>;

/// The recorded PVs.
#[derive(Debug)]
pub(crate) struct Recorded {
    by_name: ByName,
    /// The first index of each recorded name: a PV may have been recorded by two names.
    indices: Vec<usize>,
    /// `None` if the PV is not open.
    feeds: Vec<Option<Feed>>,
    /// Indices by the numbers that the recorded relay gave.
    ids: HashMap<PvId, usize>,
}

impl Recorded {
    /// PVs by the names with which they are opened, in the order in which they were recorded.
    pub(crate) fn new(names: &[String]) -> Self {
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
    pub(crate) fn open(&mut self, name: &str, feed: Feed) -> Option<Feed> {
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
    pub(crate) fn number(&mut self, reply_to: u32, reply: Reply) {
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

    /// Passes an item on to the feeds of its PVs.
    pub(crate) fn take(&mut self, (time_ns, item): Timed) {
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
    pub(super) fn take_together(&mut self, items: &[Timed]) {
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

    pub(super) fn restart(&mut self) {
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
