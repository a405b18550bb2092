//! Decides which requests are admitted, and with which identity: limits on connections, access to
//! the operators' pages, and the identity that a trusted proxy states.

use std::net::IpAddr;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};

use super::answer::{Refusal, too_many};
use super::trust::only;
use super::{Audience, Server, Visit};
use crate::access::auth;
use crate::access::rule::Identity;
use crate::config::Pages;

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

impl Server {
    /// Applies the limits on connections to a request; probes are exempt.
    pub(super) fn admit(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refusal> {
        if visit.audience == Audience::Operators {
            return Ok(());
        }
        let now = std::time::Instant::now();
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
    pub(super) fn forwarded(&self, headers: &HeaderMap, visit: &Visit) -> Option<IpAddr> {
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
        let Some(gate) = &self.gate else {
            return Ok(Identity::default());
        };
        if !self.is_proxy(visit.from.ip()) {
            let message =
                "only the relay's proxies may connect: the operator adds one by --trusted-proxy\n";
            return Err((StatusCode::FORBIDDEN, message).into());
        }
        gate.identity(headers)
    }
}
