//! One request to an archiver, and its answer, passed on as it arrives.

use std::cell::RefCell;
use std::fmt::Write;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::header::LOCATION;
use hyper::{StatusCode, Uri};
use pvwire_schema::types::Outcome;
use tokio::sync::mpsc::Sender;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::places::{Place, Places};
use super::{Limits, Part, Permission};
use crate::limits::cpu::CpuShare;
use crate::ops::http_client::{self, Answer, RequestError};
use crate::ops::metrics::Metrics;
use crate::queries::moment;
use crate::session::question::Problem;

/// The one route that is requested.
const ROUTE: &str = "/data/getData.raw";

/// What the archiver answers.
const TYPE: &str = "application/x-protobuf";

/// Nodes of an archiver's cluster may send a request on to the node that has the PV.
const MAX_REDIRECTS: usize = 2;

/// Number of bytes up to which what has arrived is passed on together: each part wakes the thread of its client.
const TOGETHER_BYTES: usize = 64 << 10;

const MILLISECOND_NS: i64 = 1_000_000;

/// What an answer's body gives; `None` at its end.
type Given = Option<Result<Frame<Bytes>, hyper::Error>>;

/// What the requests of a relay share.
pub(super) struct ExchangeShared {
    pub(super) limits: Limits,
    pub(super) places: Rc<RefCell<Places>>,
    pub(super) metrics: Arc<Metrics>,
}

/// A request that is not made yet.
pub(super) struct Exchange {
    uri: Uri,
    /// The archiver as the operator named it.
    archiver: String,
    permission: Permission,
    /// Whose place it takes.
    share: CpuShare,
    parts: Sender<Part>,
}

/// The address of a PV's samples. The archiver reads whole milliseconds, so that the range is rounded to more.
pub(super) fn address(
    url: &str,
    name: &str,
    (from_ns, to_ns): (i64, i64),
    points: Option<usize>,
) -> Option<Uri> {
    let mut pv = String::new();
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            pv.push(byte.into());
        } else {
            // Writing to a string can't fail.
            let _ = write!(pv, "%{byte:02X}");
        }
    }
    if let Some(points) = points {
        pv = format!("optimized_{points}({pv})");
    }
    let to_ns = to_ns.saturating_add(MILLISECOND_NS - 1);
    let [from, to] = [from_ns, to_ns].map(|ns| {
        let text = moment::text(ns);
        // Three of the nine digits after the seconds.
        format!("{}Z", &text[..text.len() - "000000Z".len()])
    });
    format!("{url}{ROUTE}?pv={pv}&from={from}&to={to}")
        .parse()
        .ok()
}

fn failed(message: String) -> Problem {
    Problem::new(Outcome::Failed, message)
}

fn late(message: String) -> Problem {
    Problem::new(Outcome::TimedOut, message)
}

impl Exchange {
    pub(super) fn new(
        uri: Uri,
        archiver: String,
        permission: Permission,
        share: CpuShare,
        parts: Sender<Part>,
    ) -> Self {
        Self {
            uri,
            archiver,
            permission,
            share,
            parts,
        }
    }

    /// Makes the request and passes its answer on, until the client is gone.
    pub(super) async fn run(self, shared: &ExchangeShared) {
        let parts = self.parts.clone();
        let result = tokio::select! {
            () = parts.closed() => return,
            result = self.pass(shared) => result,
        };
        let end = match result {
            Ok(()) => Ok(None),
            Err(problem) => {
                if problem.outcome != Outcome::BadName && problem.outcome != Outcome::NotAllowed {
                    shared.metrics.archiver_failures.inc();
                    log::debug!("{}: {problem}", self.uri);
                }
                Err(problem)
            }
        };
        // The client may be gone.
        let _ = parts.send(end).await;
    }

    async fn pass(&self, shared: &ExchangeShared) -> Result<(), Problem> {
        let Limits {
            max_bytes,
            patience,
            ..
        } = shared.limits;
        let _place = self.place(shared).await?;
        shared.metrics.archiver_requests.inc();
        let mut answer = self.ask(patience).await?;
        let body = answer.response.body_mut();
        let (mut passed, ms) = (0, patience.as_millis());
        // How long the client, and not the archiver, may delay others' requests in all.
        let mut client_patience = patience;
        let mut arrived = None;
        loop {
            let next = async {
                match arrived.take() {
                    Some(given) => given,
                    None => body.frame().await,
                }
            };
            let frame = timeout(patience, next).await.map_err(|_| {
                late(format!(
                    "{} sent no further part of its answer for {ms} ms (archiver_timeout_ms): ask for a shorter time \
                     or for fewer points, or the archiver's operator finds out what delays it",
                    self.archiver
                ))
            })?;
            let Some(frame) = frame else {
                return Ok(());
            };
            let frame = frame.map_err(|error| {
                failed(format!(
                    "the answer of {} was cut after {passed} bytes ({error}): try again, or the archiver's operator \
                     reads its log",
                    self.archiver
                ))
            })?;
            let Ok(bytes) = frame.into_data() else {
                continue;
            };
            let room = TOGETHER_BYTES.min(max_bytes - passed);
            let bytes = together(bytes, body, room, &mut arrived).await;
            passed += bytes.len();
            if passed > max_bytes {
                return Err(failed(format!(
                    "the answer of {} is longer than {max_bytes} bytes: ask for a shorter time or for fewer points, or \
                     the relay's operator raises archiver_max_bytes",
                    self.archiver
                )));
            }
            self.permission.check()?;
            shared.metrics.archiver_bytes.inc_by(bytes.len() as u64);
            let begin = Instant::now();
            let given = timeout(client_patience, self.parts.send(Ok(Some(bytes)))).await;
            if given.is_err() {
                let why = format!(
                    "the client took the parts of the answer with a delay of more than {ms} ms in all"
                );
                return Err(late(why));
            }
            client_patience = client_patience.saturating_sub(begin.elapsed());
        }
    }

    /// Waits for its turn.
    async fn place(&self, shared: &ExchangeShared) -> Result<Place, Problem> {
        let mut place = Place::wait(&shared.places, &self.share);
        let granted = timeout(shared.limits.patience, place.granted()).await;
        granted.map(|()| place).map_err(|_| {
            late(format!(
                "{} requests to archivers, or half as many of yours, are under way: try again later, or the relay's \
                 operator raises archiver_max_requests",
                shared.limits.max_requests
            ))
        })
    }

    /// The beginning of a good answer.
    async fn ask(&self, patience: Duration) -> Result<Answer, Problem> {
        let archiver = &self.archiver;
        let mut uri = self.uri.clone();
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.ask_once(&uri, patience).await?;
            let status = answer.response.status();
            if status == StatusCode::OK {
                return Ok(answer);
            }
            if !status.is_redirection() {
                return Err(refused(archiver, status));
            }
            let to = answer.response.headers().get(LOCATION);
            let to = to.and_then(|to| to.to_str().ok()?.parse::<Uri>().ok());
            // The same request at another node.
            let is_same = |to: &Uri| {
                to.host().is_some() && to.path().ends_with(ROUTE) && to.query() == self.uri.query()
            };
            uri = to
                .filter(is_same)
                .ok_or_else(|| refused(archiver, status))?;
        }
        Err(failed(format!(
            "{archiver} redirects in a circle: its operator corrects the addresses of its cluster"
        )))
    }

    async fn ask_once(&self, uri: &Uri, patience: Duration) -> Result<Answer, Problem> {
        let (archiver, ms) = (&self.archiver, patience.as_millis());
        let check = "the relay's operator checks the option archiver and the network, the archiver's operator whether it \
                     runs";
        let lost =
            |error: RequestError| failed(format!("{archiver} can't be reached ({error}): {check}"));
        let connected = timeout(patience, http_client::connect(uri)).await;
        let connected = connected.map_err(|_| {
            late(format!(
                "{archiver} can't be reached within {ms} ms (archiver_timeout_ms): {check}"
            ))
        })?;
        let answer = connected.map_err(lost)?.get(uri, TYPE);
        let answer = timeout(patience, answer).await.map_err(|_| {
            late(format!(
                "{archiver} has not begun to answer within {ms} ms (archiver_timeout_ms): ask for a shorter time, or the \
                 archiver's operator finds out what delays it"
            ))
        })?;
        answer.map_err(|error| {
            failed(format!(
                "{archiver} gave no answer of HTTP ({error}): the archiver's operator reads its log"
            ))
        })
    }
}

/// Appends to a part of an answer what has arrived as well, as long as it has room. What ends that is in `arrived`.
async fn together(
    first: Bytes,
    body: &mut Incoming,
    room: usize,
    arrived: &mut Option<Given>,
) -> Bytes {
    let mut joined = BytesMut::new();
    let mut length = first.len();
    while length < room {
        // The connection's task reads now, if there is something.
        yield_now().await;
        let Poll::Ready(given) =
            poll_fn(|context| Poll::Ready(Pin::new(&mut *body).poll_frame(context))).await
        else {
            break;
        };
        let data = match &given {
            Some(Ok(frame)) => frame.data_ref(),
            _ => None,
        };
        let Some(more) = data.filter(|more| length + more.len() <= room) else {
            *arrived = Some(given);
            break;
        };
        if joined.is_empty() {
            joined.reserve(room);
            joined.extend_from_slice(&first);
        }
        joined.extend_from_slice(more);
        length += more.len();
    }
    match joined.is_empty() {
        true => first,
        false => joined.freeze(),
    }
}

/// What a refusal of the archiver means.
fn refused(archiver: &str, status: StatusCode) -> Problem {
    match status {
        StatusCode::NOT_FOUND => Problem::new(
            Outcome::BadName,
            format!(
                "{archiver} doesn't have this PV: its operator adds it to those that are archived"
            ),
        ),
        StatusCode::SERVICE_UNAVAILABLE => failed(format!(
            "{archiver} is not ready ({status}): try again later; it may be starting"
        )),
        _ => failed(format!(
            "{archiver} answered {status}: the relay's operator checks that the option archiver has the address of its \
             retrieval service, the archiver's operator reads its log"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_has_the_encoded_name_and_a_range_of_whole_milliseconds() {
        let range = (1_700_000_000_123_456_789, 1_700_000_001_000_000_001);
        let raw = address("http://a:1/retrieval", "SR:C.VAL", range, None).unwrap();
        assert_eq!(
            raw.to_string(),
            "http://a:1/retrieval/data/getData.raw?pv=SR%3AC.VAL&from=2023-11-14T22:13:20.123Z\
             &to=2023-11-14T22:13:21.001Z"
        );
        let thinned = address("http://a", "A&to=0 µ", range, Some(40)).unwrap();
        let query = thinned.query().unwrap();
        assert!(
            query.starts_with("pv=optimized_40(A%26to%3D0%20%C2%B5)&from="),
            "{query}"
        );
    }

    #[test]
    fn refusals_say_who_must_act() {
        for (status, outcome, word) in [
            (404, Outcome::BadName, "operator adds it"),
            (503, Outcome::Failed, "try again later"),
            (500, Outcome::Failed, "reads its log"),
            (302, Outcome::Failed, "option archiver"),
        ] {
            let problem = refused("http://a", StatusCode::from_u16(status).unwrap());
            assert_eq!(problem.outcome, outcome);
            assert!(problem.message.contains(word), "{problem}");
        }
    }
}
