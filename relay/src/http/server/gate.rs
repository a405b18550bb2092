//! Decides which requests are admitted, and with which identity: limits on connections, access to the operators' pages,
//! and the identity that a trusted proxy states or a token proves.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};

use super::answer::{Refusal, too_many};
use super::trust::{Trust, only, same};
use super::{Audience, Visit};
use crate::access::auth::{self, Login, Peer, Tokens};
use crate::access::rule::Identity;
use crate::config::Pages;
use crate::limits::connections::{Callers, ClientPermit, Clients, SharedBudgets, Stay};
use crate::limits::descriptors::{Descriptors, Room};
use crate::limits::memory::Memory;
use crate::ops::shutdown::Readiness;
use crate::queries::plain_clients::PlainClients;
use crate::state::registry::Registry;

/// Refuses a client beyond `max_clients`.
const FULL: &str = "the relay is full: try again later\n";

/// Refuses a client whose descriptors are kept for others.
pub(super) const NO_DESCRIPTORS: &str = "the relay has no file descriptors left for clients: try again later (its \
                                         operator raises LimitNOFILE or ulimit -n)\n";

/// The header in which proxies name the address of their client.
const FORWARDED_FOR: header::HeaderName = header::HeaderName::from_static("x-forwarded-for");

/// The headers in which a proxy states a client's identity.
pub struct ProxyHeaders {
    /// Header with the name of the user.
    pub user: header::HeaderName,
    /// Header with the names of the groups, separated by commas. `None` when the proxy states no
    /// groups; then a header that a client sends is ignored.
    pub groups: Option<header::HeaderName>,
}

impl ProxyHeaders {
    /// The identity of a trusted proxy's client.
    fn identity(&self, headers: &HeaderMap) -> Result<Identity, Refusal> {
        let user = only(headers, self.user.clone()).filter(|user| auth::is_name(user));
        let user = user.ok_or((
            StatusCode::UNAUTHORIZED,
            "the proxy doesn't say who you are: log in there\n",
        ))?;
        let named = self.groups.as_ref();
        let groups = match named.filter(|groups| headers.contains_key(*groups)) {
            None => "",
            // One of two headers may come from the client.
            Some(groups) => only(headers, groups.clone()).ok_or((
                StatusCode::UNAUTHORIZED,
                "the header with your groups came twice or isn't text: the proxy's operator must let the proxy \
                 replace what clients send\n",
            ))?,
        };
        let groups = groups.split(',').map(str::trim);
        let groups = groups.filter(|name| auth::is_name(name));
        Ok(Identity {
            user: Some(user.to_owned()),
            groups: groups.map(str::to_owned).collect(),
        })
    }
}

/// Decides who may connect, and as whom.
pub struct Gate {
    /// Trusted pages and host names.
    pub trust: Trust,
    /// Whether new clients are accepted.
    pub readiness: Arc<Readiness>,
    /// Counts the clients.
    pub clients: Arc<Clients>,
    /// Limits the connections of each address, and how fast they come.
    pub callers: Arc<Callers>,
    /// Whether more connections may be open.
    pub descriptors: Descriptors,
    /// Proxies whose headers are trusted.
    pub proxies: Vec<auth::Network>,
    /// Headers in which a trusted proxy states a client's identity, with `auth = trusted-header`.
    pub proxy_headers: Option<ProxyHeaders>,
    /// The check of tokens, with `auth = jwt`.
    pub tokens: Option<Arc<Tokens>>,
    /// The cookie that may have a client's token.
    pub token_cookie: String,
    /// Whether the clients' listener serves operators' pages.
    pub pages: Pages,
    /// Who may disconnect clients at the clients' listener.
    pub disconnect_access: Vec<String>,
    /// Whether a separate listener serves them.
    pub has_admin_listener: bool,
    /// Knows whether the process is short of memory.
    pub registry: Arc<Registry>,
    /// Charges requests to their clients.
    pub memory: Arc<Memory>,
    /// The clients that use plain HTTP.
    pub plain_clients: Arc<PlainClients>,
}

impl Gate {
    /// The descriptors that a new connection may take; `None` if it must be closed.
    pub(super) fn room(&self, audience: Audience, now: Instant) -> Option<Room> {
        let is_operators = audience == Audience::Operators;
        self.descriptors.accepted(is_operators, now)
    }

    /// Counts a new connection of a client; `None` if its address has too many.
    pub(super) fn enter(&self, from: IpAddr, now: Instant) -> Option<Stay> {
        let known = Some(from).filter(|ip| !self.is_proxy(*ip));
        self.callers.enter(known, now)
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        self.proxies.iter().any(|network| network.holds(address))
    }

    /// Whether `Host` names this relay.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.trust.host(headers) {
            return Ok(());
        }
        let message =
            "this host name is not one of the relay's: the operator adds it by --allow-host\n";
        Err((StatusCode::MISDIRECTED_REQUEST, message).into())
    }

    /// Applies the limits on connections to a request; probes are exempt.
    pub(super) fn admit(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refusal> {
        if visit.audience == Audience::Operators {
            return Ok(());
        }
        let now = Instant::now();
        let mut stay = visit.stay();
        let Some(stay) = stay.as_mut() else {
            return Ok(());
        };
        if let Some(why) = stay.refused() {
            return Err(too_many(why));
        }
        if let Some(client) = self.forwarded(headers, visit) {
            stay.comes_from(client, now).map_err(too_many)?;
        }
        stay.arrive(now).map_err(too_many)
    }

    /// The address of a trusted proxy's client, if the proxy states it.
    fn forwarded(&self, headers: &HeaderMap, visit: &Visit) -> Option<IpAddr> {
        if !self.is_proxy(visit.from.ip()) {
            return None;
        }
        let lists = headers.get_all(&FORWARDED_FOR).iter();
        let lists = lists.map(|value| value.to_str().unwrap_or("not text"));
        let entries: Vec<_> = lists.flat_map(|list| list.split(',')).collect();
        auth::forwarded(entries.into_iter(), &self.proxies)
    }

    /// The address of a client, with its port if it is connected directly.
    pub(super) fn address_of(&self, headers: &HeaderMap, visit: &Visit) -> String {
        let client = self.forwarded(headers, visit);
        client.map_or_else(|| visit.from.to_string(), |client| client.to_string())
    }

    /// Whether this request gets operators' pages on the clients' listener.
    pub(super) fn check_pages(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refusal> {
        let missing = match self.pages {
            _ if self.has_admin_listener => {
                "the relay's pages are served elsewhere (admin_listen)\n"
            }
            Pages::Open => return Ok(()),
            Pages::Login => return self.logged_in(headers, visit),
            Pages::Off => "the relay's pages are switched off (pages)\n",
        };
        Err((StatusCode::NOT_FOUND, missing).into())
    }

    /// Whether a request for a page comes from a user who has logged in.
    fn logged_in(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refusal> {
        let Some(tokens) = &self.tokens else {
            return self.identity(headers, visit).map(drop);
        };
        let token = self.token(headers);
        let is_good = token.is_some_and(|token| tokens.check(&token).is_ok());
        let message = "the relay's pages need a valid token: Authorization: Bearer … (pages)\n";
        is_good
            .then_some(())
            .ok_or_else(|| (StatusCode::UNAUTHORIZED, message).into())
    }

    /// The identity of a request that disconnects clients. A full relay doesn't count it as a client.
    pub(super) fn operator(&self, headers: &HeaderMap, visit: &Visit) -> Result<Identity, Refusal> {
        self.check_origin(headers)?;
        if visit.audience == Audience::Operators {
            return Ok(Identity::default());
        }
        self.check_pages(headers, visit)?;
        if self.tokens.is_some() && self.token(headers).is_none() {
            let message = "the relay asks for a token: Authorization: Bearer …\n";
            return Err((StatusCode::UNAUTHORIZED, message).into());
        }
        Ok(self.visitor(headers, visit)?.0)
    }

    /// Whether this identity may disconnect clients.
    pub(super) fn may_disconnect(&self, by: &Identity, visit: &Visit) -> bool {
        visit.audience == Audience::Operators || by.is_in(&self.disconnect_access)
    }

    /// Whether a page may fetch from the relay. Programs other than browsers may.
    pub(super) fn check_origin(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.trust.origin(headers) {
            return Ok(());
        }
        let message =
            "pages of this origin may not fetch: the operator adds it by --allow-origin\n";
        Err((StatusCode::FORBIDDEN, message).into())
    }

    /// A client's identity, as far as its handshake states it.
    pub(super) fn identity(&self, headers: &HeaderMap, visit: &Visit) -> Result<Identity, Refusal> {
        let Some(stated) = &self.proxy_headers else {
            return Ok(Identity::default());
        };
        if !self.is_proxy(visit.from.ip()) {
            let message =
                "only the relay's proxies may connect: the operator adds one by --trusted-proxy\n";
            return Err((StatusCode::FORBIDDEN, message).into());
        }
        stated.identity(headers)
    }

    /// Why the relay takes no further client at present.
    fn full(&self, visit: &Visit) -> Option<&'static str> {
        if self.readiness.is_draining() {
            return Some("the relay is stopping\n");
        }
        if self.registry.is_short() {
            return Some("the relay is short of memory (max_memory_mib): try again later\n");
        }
        if !self.has_descriptors(visit) {
            return Some(NO_DESCRIPTORS);
        }
        self.clients.is_full().then_some(FULL)
    }

    /// Whether a connection may stay. One that came while there was room keeps its descriptor, however many came after it.
    pub(super) fn has_descriptors(&self, visit: &Visit) -> bool {
        visit.room == Room::Clients || self.descriptors.has_room(Instant::now())
    }

    /// A permit for one client, unless the relay takes no further client at present.
    pub(super) fn permit(&self, visit: &Visit) -> Result<ClientPermit, Refusal> {
        self.check_room(visit)?;
        self.take_permit()
    }

    /// A permit for one client beyond [`Gate::check_room`].
    pub(super) fn take_permit(&self) -> Result<ClientPermit, Refusal> {
        let permit = self.clients.permit();
        permit.ok_or_else(|| (StatusCode::SERVICE_UNAVAILABLE, FULL).into())
    }

    /// Whether the relay takes a further client at present.
    pub(super) fn check_room(&self, visit: &Visit) -> Result<(), Refusal> {
        match self.full(visit) {
            None => Ok(()),
            Some(message) => Err((StatusCode::SERVICE_UNAVAILABLE, message).into()),
        }
    }

    /// The client that makes a request with this identity, and the budgets that it shares.
    pub(super) fn peer(
        &self,
        identity: Identity,
        headers: &HeaderMap,
        visit: &Visit,
    ) -> Result<(Peer, SharedBudgets), Refusal> {
        let mut rates = visit.stay().as_ref().map(Stay::caller).unwrap_or_default();
        if let Some(user) = &identity.user {
            let arrived = self.callers.logged_in(&mut rates, user, Instant::now());
            arrived.map_err(too_many)?;
        }
        let origin = only(headers, header::ORIGIN).unwrap_or_default();
        let peer = Peer {
            address: self.address_of(headers, visit),
            origin: origin.to_owned(),
            identity,
        };
        Ok((peer, rates))
    }

    /// The token of a request: that of `Authorization`, or else the cookie that a login page has set.
    pub(super) fn token(&self, headers: &HeaderMap) -> Option<String> {
        bearer(headers).or_else(|| cookie(headers, &self.token_cookie))
    }

    /// The client of a door that makes a request. With `auth = jwt` it is the user whose token the request brings;
    /// without a token it is anonymous, and the rules decide what it may do.
    pub(super) fn visitor(
        &self,
        headers: &HeaderMap,
        visit: &Visit,
    ) -> Result<(Identity, Option<Login>), Refusal> {
        let Some(tokens) = &self.tokens else {
            return Ok((self.identity(headers, visit)?, None));
        };
        let Some(token) = self.token(headers) else {
            return Ok((Identity::default(), None));
        };
        let checked = tokens.check(&token);
        let login = checked.map_err(|why| (StatusCode::UNAUTHORIZED, format!("{why}\n")))?;
        Ok((login.identity.clone(), Some(login)))
    }
}

/// The token in the header `Authorization`.
fn bearer(headers: &HeaderMap) -> Option<String> {
    let (scheme, token) = only(headers, header::AUTHORIZATION)?.split_once(' ')?;
    same(scheme, "bearer").then(|| token.trim().to_owned())
}

/// The value of a cookie.
fn cookie(headers: &HeaderMap, name: &str) -> Option<String> {
    let lists = headers.get_all(header::COOKIE).iter();
    let lists = lists.filter_map(|list| list.to_str().ok());
    let mut pairs = lists
        .flat_map(|list| list.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let (_, value) = pairs.find(|(known, _)| *known == name)?;
    let quoted = value
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let value = quoted.unwrap_or(value);
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_is_found_among_others_by_its_whole_name() {
        for (lists, expected) in [
            (&["token=a.b.c"][..], Some("a.b.c")),
            (&["x=1; token=a=; y=2"], Some("a=")),
            (&["x=1", "token=\"a\""], Some("a")),
            (&["mytoken=a; tokens=b; Token=c"], None),
            (&["token="], None),
            (&["token"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for list in lists {
                headers.append(header::COOKIE, list.parse().unwrap());
            }
            assert_eq!(cookie(&headers, "token").as_deref(), expected, "{lists:?}");
        }
    }
}
