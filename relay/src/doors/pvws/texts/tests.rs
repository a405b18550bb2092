//! Tests of the texts with a table of one PV under one name.

use std::time::{Duration, Instant};

use pvwire_schema::types::{Filter, Metadata, Severity, ValueType};

use super::*;
use crate::ingest::{Event, FilteredLine, Intake, Line};

const PV: PvId = PvId(1);

/// An enum with one label, and its form.
struct Pv {
    intake: Arc<Intake>,
    line: Line,
    form: Option<FilteredLine>,
    table: Table,
    tick: u64,
}

fn open_form(intake: &Arc<Intake>, may_write: bool) -> FilteredLine {
    let form = Arc::new(Form {
        spelling: "X".to_owned(),
        scheme: "ca",
        may_write,
        array_interval_ms: 0,
    });
    FilteredLine::open(intake, PV, PvId(0), (Filter::ALL, Some(form)), None)
}

impl Pv {
    fn new() -> Self {
        let intake = Intake::new();
        let line = Line::open(&intake, PvId(0), false);
        let form = open_form(&intake, true);
        let table = Table::new(Duration::from_secs(5));
        let mut pv = Self {
            intake,
            line,
            form: Some(form),
            table,
            tick: 0,
        };
        pv.line.connected(false);
        pv.choices(&["off"]);
        pv.value(0.0);
        pv
    }

    /// Labels, with the next value.
    fn choices(&self, labels: &[&str]) {
        self.line.event(Event::Metadata(Box::new(Metadata {
            value_type: ValueType::Enum,
            choices: labels.iter().map(|label| (*label).to_owned()).collect(),
            ..Metadata::default()
        })));
    }

    fn value(&mut self, index: f64) -> Changes {
        let calm = Alarm {
            severity: Severity::NoAlarm,
            status: 0,
        };
        let time_ns = self.tick as i64;
        self.line.update(time_ns, RowValue::Number(index), calm);
        self.tick()
    }

    fn tick(&mut self) -> Changes {
        self.tick += 1;
        let mut changes = Changes {
            tick: self.tick,
            ..Changes::default()
        };
        let table = &mut self.table;
        (self.intake).drain(|taken| table.apply(&mut changes, now(), taken));
        changes
    }
}

fn now() -> Now {
    Now {
        instant: Instant::now(),
        wall_ns: 0,
    }
}

fn text(frame: &Frame) -> String {
    let bytes = frame.slices(0, usize::MAX).map(|slice| slice.to_vec());
    String::from_utf8_lossy(&bytes.concat()).into_owned()
}

fn newcomer(texts: &mut Texts, pv: &Pv) -> String {
    let reply = Reply::Subscribed {
        ids: vec![PV],
        errors: Vec::new(),
    };
    let values = (&pv.table, &[PV][..]);
    text(&texts.reply_with(FrameKind::Snapshot, pv.tick, 0, &reply, values))
}

#[test]
fn client_that_was_behind_gets_the_metadata_of_a_new_class() {
    let (mut pv, mut texts) = (Pv::new(), Texts::default());
    assert!(newcomer(&mut texts, &pv).contains(r#""vtype":"VEnum""#));
    let since = pv.tick;
    // Without labels the value is a number from now on.
    pv.choices(&[]);
    for index in [1.0, 2.0] {
        let changes = pv.value(index);
        texts.begin(&pv.table, &changes, now());
    }
    let set = PvSet::new(vec![PV]);
    let mut told = |since| {
        let since = (since, SkipCause::Behind);
        text(&texts.catch_up(&pv.table, &set, since, pv.tick))
    };
    assert!(told(since).contains(r#""vtype":"VShort""#));
    let known = told(since + 1);
    assert!(
        known.contains(r#""value":2"#) && !known.contains("vtype"),
        "{known}"
    );
}

#[test]
fn pv_that_leaves_is_forgotten() {
    let (mut pv, mut texts) = (Pv::new(), Texts::default());
    newcomer(&mut texts, &pv);
    texts.sweep(&pv.table);
    assert!(texts.lives[PV.index()].is_some());
    pv.form = None;
    pv.tick();
    texts.sweep(&pv.table);
    assert!(texts.lives.is_empty());
}

#[test]
fn text_of_one_form_is_known_in_the_next_and_forgotten_after_a_while() {
    let (mut pv, mut texts) = (Pv::new(), Texts::default());
    assert!(newcomer(&mut texts, &pv).contains(r#""text":"off""#));
    pv.form = None;
    pv.tick();
    assert!(texts.sweep(&pv.table));
    // Clients come with another right to write, to a PV without labels meanwhile.
    pv.choices(&[]);
    pv.value(1.0);
    pv.form = Some(open_form(&pv.intake, false));
    pv.tick();
    let told = newcomer(&mut texts, &pv);
    assert!(told.contains(r#""value":1,"text":"1""#), "{told}");
    pv.form = None;
    pv.tick();
    let sweeps = (0..100).find(|_| !texts.sweep(&pv.table));
    assert!(sweeps.is_some(), "it is kept for ever");
    // Clients that come then have nothing of it.
    pv.form = Some(open_form(&pv.intake, true));
    pv.tick();
    let told = newcomer(&mut texts, &pv);
    assert!(
        told.contains(r#""value":1,"#) && !told.contains("text"),
        "{told}"
    );
}
