//! `GET /pv/NAME/history`: past updates of a PV as JSON, CSV, or PB as an archiver sends them.

mod pb;

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header;
use hyper::{Request, StatusCode};
use pvwire_http::{Route, Value, push_json, push_text};
use pvwire_schema::types::{Outcome, Severity, Skips};
use tokio::sync::oneshot;

use self::pb::Pb;
use crate::compute::Size;
use crate::http::server::answer::{Answer, Refusal, shared_with, with_type};
use crate::http::server::caller::charged;
use crate::http::server::query::argument;
use crate::http::server::{Server, Visit};
use crate::limits::memory::TooMuch;
use crate::queries::history::{MAX_POINTS, MIN_POINTS, Piece, Query, Reading, Step, Waiting};
use crate::queries::moment;
use crate::session::question::Problem;
use crate::state::history::{PastBin, PastGap, PastSample, PastValue};

/// Points of an answer whose request doesn't say.
const DEFAULT_POINTS: usize = 1_000;

/// Value of `points` for an answer that is not thinned.
const ALL: &str = "all";

const JSON: &str = "application/json";
const CSV: &str = "text/csv; charset=utf-8";
const PB: &str = "application/x-protobuf";

/// The first line of CSV.
const COLUMNS: &str = "time,time_ns,value,severity,status,skipped,gap,until\n";

/// The form of an answer.
enum Form {
    Json,
    Csv,
    Pb(Pb),
}

impl Form {
    fn content_type(&self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Csv => CSV,
            Self::Pb(_) => PB,
        }
    }
}

/// The answer as text, as far as it is written.
struct Text {
    form: Form,
    out: Vec<u8>,
    rows: usize,
    /// Gaps that begin after the samples so far.
    gaps: VecDeque<PastGap>,
    bins: Vec<PastBin>,
    is_kept: bool,
    /// Why the relay that holds the PV may have more.
    incomplete: Option<String>,
}

/// What follows the text so far.
enum Rest {
    Last,
    Reading(Box<Reading>),
    Waiting(Waiting),
}

/// One step: the text so far, and the rest of the answer.
type Written = Result<(Text, Rest), Problem>;

/// The answer when another relay was asked.
async fn answered(waiting: Waiting) -> Result<Box<Reading>, Problem> {
    let (sender, answer) = oneshot::channel();
    waiting.ask(move |reading| {
        // The client may have gone.
        let _ = sender.send(reading);
    });
    answer
        .await
        .map_err(|_| Problem::new(Outcome::Interrupted, "the relay stops"))
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::NoAlarm => "NO_ALARM",
        Severity::Minor => "MINOR",
        Severity::Major => "MAJOR",
        Severity::Invalid => "INVALID",
    }
}

/// A text in a field of CSV.
fn push_field(text: &str, out: &mut Vec<u8>) {
    if text.contains([',', '"', '\n', '\r']) {
        out.push(b'"');
        out.extend(text.replace('"', "\"\"").as_bytes());
        out.push(b'"');
    } else {
        out.extend(text.as_bytes());
    }
}

impl Text {
    fn new(form: Form) -> Self {
        Self {
            form,
            out: Vec::new(),
            rows: 0,
            gaps: VecDeque::new(),
            bins: Vec::new(),
            is_kept: false,
            incomplete: None,
        }
    }

    fn push_piece(&mut self, name: &str, piece: Piece, is_last: bool) {
        if let Some(preface) = piece.preface {
            self.is_kept = preface.kept_since_ns.is_some();
            self.incomplete = preface.incomplete;
            let since = preface.kept_since_ns.unwrap_or_default();
            self.begin(name, since);
        }
        self.gaps.extend(piece.gaps);
        self.bins.extend(piece.bins);
        for sample in piece.samples {
            let is_before = |gap: &mut PastGap| gap.from_ns <= sample.time_ns;
            while let Some(gap) = self.gaps.pop_front_if(is_before) {
                self.gap(&gap);
            }
            self.sample(&sample);
        }
        if is_last {
            self.finish();
        }
    }

    fn begin(&mut self, name: &str, since_ns: i64) {
        match self.form {
            Form::Pb(_) => {}
            Form::Csv => self.out.extend(COLUMNS.as_bytes()),
            Form::Json => {
                self.out.extend(br#"{"name":"#);
                push_text(name, &mut self.out);
                let since = moment::text(since_ns);
                // Writing to memory can't fail.
                let _ = write!(self.out, r#","keptSince":"{since}""#);
                if let Some(why) = &self.incomplete {
                    self.out.extend(br#","incomplete":"#);
                    push_text(why, &mut self.out);
                }
                self.out.extend(br#","rows":["#);
            }
        }
    }

    fn separate(&mut self) {
        if self.rows > 0 && matches!(self.form, Form::Json) {
            self.out.push(b',');
        }
        self.rows += 1;
    }

    fn sample(&mut self, sample: &PastSample) {
        if let Form::Pb(pb) = &mut self.form {
            return pb.sample(sample, &mut self.out);
        }
        self.separate();
        let (ns, alarm) = (sample.time_ns, sample.alarm);
        let (time, severity, status) = (moment::text(ns), severity(alarm.severity), alarm.status);
        let skipped = sample.skips.total();
        let out = &mut self.out;
        if matches!(self.form, Form::Csv) {
            let _ = write!(out, "{time},{ns},");
            match &sample.value {
                PastValue::Number(number) if number.is_finite() => {
                    push_json(&Value::Number(*number), out);
                }
                PastValue::Number(number) => {
                    let _ = write!(out, "{number}");
                }
                PastValue::Int64(number) => {
                    let _ = write!(out, "{number}");
                }
                PastValue::UInt64(number) => {
                    let _ = write!(out, "{number}");
                }
                PastValue::Text(text) => push_field(text, out),
            }
            let _ = writeln!(out, ",{severity},{status},{skipped},,");
            return;
        }
        let _ = write!(out, r#"{{"time":"{time}","timeNs":"{ns}","value":"#);
        match &sample.value {
            PastValue::Number(number) => push_json(&Value::Number(*number), out),
            PastValue::Int64(number) => {
                let _ = write!(out, "{number}");
            }
            PastValue::UInt64(number) => {
                let _ = write!(out, "{number}");
            }
            PastValue::Text(text) => push_text(text, out),
        }
        let _ = write!(out, r#","severity":"{severity}","status":{status}"#);
        if sample.skips != Skips::NONE {
            let _ = write!(out, r#","skipped":{skipped}"#);
        }
        out.push(b'}');
    }

    fn gap(&mut self, gap: &PastGap) {
        if let Form::Pb(pb) = &mut self.form {
            return pb.gap(gap);
        }
        self.separate();
        let (cause, ns) = (gap.cause.token(), gap.from_ns);
        let (time, until) = (moment::text(ns), gap.to_ns.map(moment::text));
        let out = &mut self.out;
        if matches!(self.form, Form::Csv) {
            let _ = writeln!(out, "{time},{ns},,,,,{cause},{}", until.unwrap_or_default());
            return;
        }
        let _ = write!(
            out,
            r#"{{"time":"{time}","timeNs":"{ns}","gap":"{cause}","until":"#
        );
        let _ = match until {
            Some(until) => write!(out, r#""{until}"}}"#),
            None => write!(out, "null}}"),
        };
    }

    fn finish(&mut self) {
        while let Some(gap) = self.gaps.pop_front() {
            self.gap(&gap);
        }
        match &mut self.form {
            Form::Json => {}
            Form::Csv => return,
            Form::Pb(pb) => return pb.finish(&mut self.out),
        }
        self.out.push(b']');
        if !self.bins.is_empty() {
            self.out.extend(br#","bins":["#);
            for (number, bin) in self.bins.iter().enumerate() {
                let comma = if number > 0 { "," } else { "" };
                let (samples, updates) = (bin.samples, bin.updates);
                let (worst, skipped) = (severity(bin.worst.severity), bin.skips.total());
                let _ = write!(
                    self.out,
                    r#"{comma}{{"samples":{samples},"updates":{updates},"severity":"{worst}","skipped":{skipped}}}"#
                );
            }
            self.out.push(b']');
        }
        self.out.extend(b"}\n");
    }
}

/// The number of points that a request wants; `None` for all.
fn points(request: &Request<Incoming>) -> Result<Option<usize>, Refusal> {
    match argument(request, "points") {
        None => Ok(Some(DEFAULT_POINTS)),
        Some(text) if text == ALL => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| {
            let message = format!(
                "points is {text:?}: expected {MIN_POINTS} to {MAX_POINTS}, or {ALL} for every update\n"
            );
            (StatusCode::BAD_REQUEST, message).into()
        }),
    }
}

/// The form that a request wants for the past of this PV.
fn form(request: &Request<Incoming>, name: &str) -> Result<Form, Refusal> {
    let accept = request.headers().get(header::ACCEPT);
    let accept = accept.and_then(|accept| accept.to_str().ok());
    let accepts = |kind: &str| accept.is_some_and(|accept| accept.starts_with(kind));
    match argument(request, "format").as_deref() {
        Some("json") => Ok(Form::Json),
        Some("csv") => Ok(Form::Csv),
        Some("pb") => Ok(Form::Pb(Pb::new(name))),
        None if accepts("text/csv") => Ok(Form::Csv),
        None if accepts(PB) => Ok(Form::Pb(Pb::new(name))),
        None => Ok(Form::Json),
        Some(other) => {
            let message = format!("format is {other:?}: expected json, csv or pb\n");
            Err((StatusCode::BAD_REQUEST, message).into())
        }
    }
}

/// The refusal of an answer for which the client's share of memory is too small.
fn too_long(why: TooMuch) -> Refusal {
    let message = format!("{why}; or ask for a shorter time, or for fewer points\n");
    (StatusCode::SERVICE_UNAVAILABLE, message).into()
}

impl Server {
    /// Answers `GET /pv/NAME/history?from=&to=&points=&format=`.
    pub(super) async fn pv_history(
        &self,
        route: &Route,
        request: &Request<Incoming>,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        let headers = request.headers();
        let caller = self.gate.authenticated(headers, visit)?;
        let form = form(request, &route.name)?;
        let kind = form.content_type();
        let query = Query {
            name: route.name.clone(),
            from: argument(request, "from"),
            to: argument(request, "to"),
            points: points(request)?,
        };
        let (histories, identity) = (Arc::clone(&self.histories), Arc::clone(&caller.identity));
        let begin = move || histories.read(&identity, query);
        let begun = self.pool.compute(caller.cpu(), Size::Short, begin);
        let reading = begun.await??;
        let mut charge = caller.owner.charge(0)?;
        let (mut text, mut rest) = (Text::new(form), Rest::Reading(Box::new(reading)));
        loop {
            let reading = match rest {
                Rest::Last => break,
                Rest::Reading(reading) => reading,
                Rest::Waiting(waiting) => answered(waiting).await?,
            };
            let name = route.name.clone();
            let step = move || -> Written {
                let mut piece = match reading.step()? {
                    Step::Piece(piece) => piece,
                    Step::Wait(waiting) => return Ok((text, Rest::Waiting(waiting))),
                };
                let rest = piece.rest.take();
                text.push_piece(&name, piece, rest.is_none());
                Ok((text, rest.map_or(Rest::Last, Rest::Reading)))
            };
            let written = self.pool.compute(caller.cpu(), Size::Short, step).await?;
            (text, rest) = written?;
            charge.resize(text.out.len()).map_err(too_long)?;
        }
        if !text.is_kept {
            let mut message = "this relay keeps no past of the PV: it keeps what clients have had in the last ten \
                               minutes and what the option history names, and nothing if history_memory is 0\n"
                .to_owned();
            if let Some(why) = text.incomplete {
                message += &format!("{why}\n");
            }
            return Err((StatusCode::NOT_FOUND, message).into());
        }
        let answer = with_type(charged(text.out, charge), kind);
        Ok(shared_with(answer, headers))
    }
}
