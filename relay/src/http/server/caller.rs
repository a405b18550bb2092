//! The client that makes a request, and the memory that its answer is charged to.

use std::borrow::Cow;
use std::ops::Deref;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::StatusCode;
use hyper::body::{Body, Incoming};
use hyper::header::HeaderMap;
use pvwire_schema::types::NameProblem;
use tokio::time::timeout;

use super::Visit;
use super::answer::Refusal;
use super::gate::Gate;
use crate::access::auth::Login;
use crate::access::caller::Caller;
use crate::limits::connections::{ClientPermit, Permit, TooManyConnections};
use crate::limits::memory::{Charge, TooMuch};
use crate::state::registry;

/// Time limit for receiving a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes of a body that is too long which are read and dropped, and for how long: a client that still sends doesn't read the
/// answer, and unread bytes would end its connection without one.
const DISCARDED_BYTES: usize = 64 << 20;
const DISCARD_TIMEOUT: Duration = Duration::from_secs(5);

/// The refusal of a body that doesn't come.
const TOO_LATE: &str = "the body has not arrived within 10 s\n";

/// Bytes of a client with their charge.
struct Charged {
    text: Vec<u8>,
    _charge: Charge,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl From<registry::Refusal> for Refusal {
    fn from(refusal: registry::Refusal) -> Self {
        let status = match refusal.problem {
            NameProblem::NotAllowed => StatusCode::FORBIDDEN,
            NameProblem::TooManyPvs => StatusCode::TOO_MANY_REQUESTS,
            _ => StatusCode::BAD_REQUEST,
        };
        (status, format!("{refusal}\n")).into()
    }
}

impl From<TooManyConnections> for Refusal {
    fn from(why: TooManyConnections) -> Self {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into()
    }
}

/// The client of one request, which counts as a client, and as a connection of its user, until it is answered.
pub(super) struct Guest {
    caller: Caller,
    _permits: (ClientPermit, Option<Permit>),
}

impl Deref for Guest {
    type Target = Caller;

    fn deref(&self) -> &Caller {
        &self.caller
    }
}

impl From<TooMuch> for Refusal {
    fn from(why: TooMuch) -> Self {
        (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into()
    }
}

/// Bytes that are charged to a client as long as they are held.
pub(super) fn charged(text: Vec<u8>, charge: Charge) -> Bytes {
    Bytes::from_owner(Charged {
        text,
        _charge: charge,
    })
}

/// The body of an answer, charged to its client.
pub(super) fn charged_body(caller: &Caller, text: Vec<u8>) -> Result<Bytes, Refusal> {
    let charge = caller.owner.charge(text.len())?;
    Ok(charged(text, charge))
}

/// The body of a request, of at most `most` bytes, which are charged before they come: many requests could hold much
/// memory by bodies that they never end.
pub(super) async fn received(
    caller: &Caller,
    body: &mut Incoming,
    most: usize,
    too_long: &'static str,
) -> Result<(Bytes, Charge), Refusal> {
    let bad = |status: StatusCode, message: Cow<'static, str>| Refusal { status, message };
    let expected = body.size_hint().upper();
    let expected = expected.map_or(most, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    let charge = caller.owner.charge(expected.min(most))?;
    let limited = Limited::new(&mut *body, most);
    let collected = timeout(BODY_TIMEOUT, limited.collect()).await;
    let late = |_| bad(StatusCode::REQUEST_TIMEOUT, TOO_LATE.into());
    match collected.map_err(late)? {
        Ok(collected) => Ok((collected.to_bytes(), charge)),
        Err(error) if error.is::<LengthLimitError>() => {
            drop(charge);
            // Whether all of it came makes no difference.
            let _ = timeout(DISCARD_TIMEOUT, discard(body)).await;
            Err(bad(StatusCode::PAYLOAD_TOO_LARGE, too_long.into()))
        }
        Err(error) => {
            let message = format!("the body can't be read: {error}\n");
            Err(bad(StatusCode::BAD_REQUEST, message.into()))
        }
    }
}

async fn discard(body: &mut Incoming) {
    let mut left = DISCARDED_BYTES;
    while let Some(Ok(frame)) = body.frame().await
        && left > 0
    {
        left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
    }
}

impl Gate {
    /// The client of a door that makes a request, unless it is refused like a WebSocket client.
    pub(super) fn caller(&self, headers: &HeaderMap, visit: &Visit) -> Result<Guest, Refusal> {
        self.check_origin(headers)?;
        let permit = self.permit(visit)?;
        let (caller, _) = self.identified(headers, visit)?;
        let of_user = self.plain_clients.permit(&caller)?;
        Ok(Guest {
            caller,
            _permits: (permit, of_user),
        })
    }

    /// The client that asks a service of the relay, unless it is refused like a WebSocket client.
    pub(super) fn authenticated(
        &self,
        headers: &HeaderMap,
        visit: &Visit,
    ) -> Result<Guest, Refusal> {
        let caller = self.caller(headers, visit)?;
        if self.tokens.is_some() && self.token(headers).is_none() {
            let message = "the relay asks for a token: Authorization: Bearer …\n";
            return Err((StatusCode::UNAUTHORIZED, message).into());
        }
        Ok(caller)
    }

    /// The client that makes a request, and the login that its token has proved.
    pub(super) fn identified(
        &self,
        headers: &HeaderMap,
        visit: &Visit,
    ) -> Result<(Caller, Option<Login>), Refusal> {
        let (identity, login) = self.visitor(headers, visit)?;
        let (peer, rates) = self.peer(identity, headers, visit)?;
        let owner = (self.memory).owner(&peer.address, peer.identity.user.as_deref());
        Ok((Caller::new(peer, owner, rates), login))
    }
}
