//! The recorded PVs, and what frames of a recording have for them.

use std::collections::HashMap;

use bytes::Bytes;
use pvwire_schema::decode::{self, NumberRow};
use pvwire_schema::types::{PvId, Reply};

use crate::ingest::feed::{self, Feed, Feeds};
use crate::ingest::recording::{ByPv, Content, Item, NAMES_PER_REQUEST, Past, PastPart, Timed};

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
    ids: ByPv<Option<usize>>,
    /// By the same numbers.
    passed: ByPv<Passed>,
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
            ids: ByPv::default(),
            passed: ByPv::default(),
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
                *self.ids.of(id) = Some(*index);
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

    /// Takes what came before a time that is sought: only the state that it leaves is shown, by [`Self::show_passed`].
    pub(super) fn pass(&mut self, past: &Past) {
        for part in &past.parts {
            match part {
                PastPart::Item(timed) => self.pass_item(timed),
                PastPart::Numbers(of_frame) => {
                    let of_frame = of_frame.clone();
                    let ids = past.ids.get(of_frame.clone()).unwrap_or_default();
                    let numbers = past.numbers.get(of_frame).unwrap_or_default();
                    for (pv, number) in ids.iter().zip(numbers) {
                        self.passed.of(*pv).take(*number);
                    }
                }
            }
        }
    }

    /// The same for one item.
    pub(super) fn pass_item(&mut self, timed: &Timed) {
        let (_, Item::Frame(message)) = timed else {
            self.show_passed();
            return self.take(timed.clone());
        };
        let Ok(frame) = decode::frame(message) else {
            return;
        };
        if let Some(reply) = frame.reply() {
            // It may give PVs other numbers.
            self.forward_passed();
            self.number(frame.reply_to(), reply);
        }
        feed::apply(&frame, message, &mut Passing(self));
    }

    /// Shows what is the newest of all that has passed.
    pub(super) fn show_passed(&mut self) {
        self.forward_passed();
        self.open_feeds().for_each(Feed::show);
    }

    fn forward_passed(&mut self) {
        let mut passed = std::mem::take(&mut self.passed);
        for (pv, numbers) in passed.all() {
            if let Some(feed) = self.feed(pv) {
                numbers.forward(feed);
            }
        }
        passed.clear();
        self.passed = passed;
    }

    pub(super) fn restart(&mut self) {
        self.ids.clear();
        self.passed.clear();
        self.open_feeds().for_each(Feed::restart);
    }
}

impl Feeds for Recorded {
    fn feed(&mut self, pv: PvId) -> Option<&mut Feed> {
        self.feeds[(*self.ids.of(pv))?].as_mut()
    }
}

/// Numbers of a PV of which its feed doesn't know yet.
#[derive(Debug, Default)]
struct Passed {
    updates: u32,
    /// The last one.
    newest: Content,
}

impl Passed {
    fn take(&mut self, number: Content) {
        self.updates = self.updates.wrapping_add(1);
        self.newest = number;
    }

    fn forward(&mut self, feed: &mut Feed) {
        match std::mem::take(&mut self.updates) {
            0 => {}
            updates => feed.passed(updates, self.newest),
        }
    }
}

/// Frames of the past. Of most numbers the feeds learn together.
struct Passing<'a>(&'a mut Recorded);

impl Feeds for Passing<'_> {
    fn feed(&mut self, pv: PvId) -> Option<&mut Feed> {
        let Recorded {
            feeds, ids, passed, ..
        } = &mut *self.0;
        let feed = feeds[(*ids.of(pv))?].as_mut()?;
        passed.of(pv).forward(feed);
        Some(feed)
    }

    fn are_shown(&self) -> bool {
        false
    }

    fn passes(&mut self, number: NumberRow) -> bool {
        let content = (number.time_ns, number.value);
        self.0.passed.of(number.id).take(content);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use pvwire_schema::encode::{FrameEncoder, RowMarks};
    use pvwire_schema::types::{Alarm, BlobValue, Expected, FrameKind, Metadata, Severity, Skips};

    use crate::ingest::intake::Taken;
    use crate::ingest::recording::{About, Reader, Writer};
    use crate::ingest::{Intake, Line, Row};

    const PVS: [&str; 3] = ["A", "B", "C"];

    /// A row of a frame.
    #[derive(Clone, Debug)]
    struct Update {
        pv: u32,
        number: f64,
        is_text: bool,
        severity: Option<u8>,
        skipped: u32,
    }

    fn update() -> impl Strategy<Value = Update> {
        (
            0..3_u32,
            -9..9_i32,
            prop::bool::weighted(0.1),
            prop::option::weighted(0.1, 0..4_u8),
            prop_oneof![9 => Just(0_u32), 1 => 1..5_u32],
        )
            .prop_map(|(pv, number, is_text, severity, skipped)| Update {
                pv,
                number: number.into(),
                is_text,
                severity,
                skipped,
            })
    }

    /// A frame with the state of all PVs, then one with each of the lists.
    fn items(frames: &[Vec<Update>]) -> Vec<Timed> {
        let mut encoder = FrameEncoder::new();
        encoder.begin(FrameKind::Snapshot, 1, 0);
        let ids = (0..3).map(PvId).collect();
        let errors = Vec::new();
        encoder.reply(1, &Reply::Subscribed { ids, errors });
        for pv in 0..3 {
            let sequence = 10 * (pv + 1);
            let marks = RowMarks {
                alarm: Some(Alarm::NONE),
                sequence,
                ..RowMarks::default()
            };
            let metadata = Metadata {
                epoch: 7,
                ..Metadata::default()
            };
            encoder.metadata(PvId(pv), &metadata);
            encoder.number(PvId(pv), 1, 0.0, marks);
        }
        let frame = |encoder: &mut FrameEncoder| {
            let bytes = Bytes::copy_from_slice(encoder.finish());
            (0, Item::Frame(bytes))
        };
        let mut items = vec![frame(&mut encoder)];
        let mut time_ns = 1;
        for (updates, tick) in frames.iter().zip(2..) {
            encoder.begin(FrameKind::Update, tick, tick - 1);
            for update in updates {
                time_ns += 1;
                let alarm = |number| Alarm {
                    severity: Severity::from_number(number),
                    status: 0,
                };
                let skips = Skips {
                    source: update.skipped,
                    ..Skips::NONE
                };
                let marks = RowMarks {
                    alarm: update.severity.map(alarm),
                    skips,
                    ..RowMarks::default()
                };
                let pv = PvId(update.pv);
                if update.is_text {
                    let text = BlobValue::Text(update.number.to_string());
                    encoder.blob(pv, time_ns, &text, marks);
                } else {
                    encoder.number(pv, time_ns, update.number, marks);
                }
            }
            items.push(frame(&mut encoder));
        }
        items
    }

    /// A recording of these items.
    fn written(items: &[Timed]) -> Reader {
        let name = format!("pvwire-passed-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_file(&path);
        let mut writer = Writer::create(&path, &About::default()).unwrap();
        for (at, (time_ns, item)) in items.iter().enumerate() {
            writer.add_at(*time_ns, item, at == 0).unwrap();
            if at % 3 == 2 {
                writer.flush().unwrap();
            }
        }
        writer.flush().unwrap();
        let reader = Reader::open(&path).unwrap();
        std::fs::remove_file(path).unwrap();
        reader
    }

    /// The recorded PVs after what `take` does, and the last row of each.
    fn after(take: impl FnOnce(&mut Recorded)) -> (Recorded, Vec<Option<Row>>) {
        let intake = Intake::new();
        let mut recorded = Recorded::new(&PVS.map(str::to_owned));
        for (name, number) in PVS.iter().zip(0..) {
            let line = Line::open(&intake, PvId(number), false);
            assert!(recorded.open(name, Feed::new(line)).is_none());
        }
        take(&mut recorded);
        let mut rows = vec![None; PVS.len()];
        intake.drain(|taken| {
            if let Taken::Row(row) = taken {
                let at = row.pv.index();
                rows[at] = Some(row);
            }
        });
        (recorded, rows)
    }

    proptest! {
        #[test]
        fn frames_that_pass_leave_the_state_of_frames_shown_one_by_one(
            frames in prop::collection::vec(prop::collection::vec(update(), 0..12), 0..6)
        ) {
            let items = items(&frames);
            let one_by_one = after(|recorded| items.iter().cloned().for_each(|item| recorded.take(item)));
            let together = after(|recorded| {
                items.iter().for_each(|item| recorded.pass_item(item));
                recorded.show_passed();
            });
            let from_file = after(|recorded| {
                let mut reader = written(&items);
                while let Some(past) = reader.next_past(i64::MAX).unwrap() {
                    recorded.pass(&past);
                }
                recorded.show_passed();
            });
            for pv in 0..PVS.len() {
                let [one, other, third] = [&one_by_one, &together, &from_file].map(|(recorded, rows)| {
                    let row = rows[pv].as_ref().unwrap();
                    let at = Expected { epoch: row.epoch, sequence: row.sequence };
                    let feed = recorded.feeds[pv].as_ref().unwrap();
                    let there = feed.expected_there(at).map(|there| there.sequence);
                    assert!(there.is_some());
                    (row.time_ns, format!("{:?}", row.value), row.alarm, there)
                });
                prop_assert_eq!(&one, &other);
                prop_assert_eq!(&one, &third);
            }
        }
    }
}
