//! Decides which requests are admitted, and as whom: limits on connections, who sees the operators'
//! pages, and the identity that a trusted proxy states.

use std::net::IpAddr;

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};

use super::answer::{Refused, too_many};
use super::trust::{only, same};
use super::{Server, Side, Visit};
use crate::access::auth;
use crate::access::rule::Identity;
use crate::config::Pages;

/// Where proxies say who called them.
const FORWARDED_FOR: header::HeaderName = header::HeaderName::from_static("x-forwarded-for");

/// Where a proxy says who a client is.
pub struct ProxyHeaders {
    /// Name of the user.
    pub user: header::HeaderName,
    /// Names of the groups, with commas between them; `None` when the proxy says none, and what a
    /// client says itself counts for nothing.
    pub groups: Option<header::HeaderName>,
}

impl ProxyHeaders {
    /// Who a client of a trusted proxy is.
    fn identity(&self, headers: &HeaderMap) -> Result<Identity, Refused> {
        let user = only(headers, self.user.clone()).filter(|user| auth::is_name(user));
        let user = user.ok_or((
            StatusCode::UNAUTHORIZED,
            "the proxy doesn't say who you are: log in there\n",
        ))?;
        let named = self.groups.as_ref();
        let groups = match named.filter(|groups| headers.contains_key(*groups)) {
            None => "",
            // Of two the client may have sent one.
            Some(groups) => only(headers, groups.clone()).ok_or((
                StatusCode::UNAUTHORIZED,
                "the header with your groups came twice or isn't text: the proxy's operator sets it, so that \
                 what clients send is replaced\n",
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
    /// Whether a connection's address may ask for more than whether the relay is live.
    pub(super) fn admit(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refused> {
        if visit.side == Side::Operators {
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

    /// The address of a trusted proxy's client, if the proxy says it.
    pub(super) fn forwarded(&self, headers: &HeaderMap, visit: &Visit) -> Option<IpAddr> {
        if !self.is_proxy(visit.from.ip()) {
            return None;
        }
        let lists = headers.get_all(&FORWARDED_FOR).iter();
        let lists = lists.map(|value| value.to_str().unwrap_or("not text"));
        let entries: Vec<_> = lists.flat_map(|list| list.split(',')).collect();
        auth::forwarded(entries.into_iter(), &self.proxies)
    }

    /// Whether this request gets operators' pages where clients connect.
    pub(super) fn check_pages(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refused> {
        if self.has_admin_listener {
            return Err((
                StatusCode::NOT_FOUND,
                "the relay's pages are served elsewhere (admin_listen)\n",
            ));
        }
        match self.pages {
            Pages::Open => Ok(()),
            Pages::Off => Err((
                StatusCode::NOT_FOUND,
                "the relay's pages are switched off (pages)\n",
            )),
            Pages::Login => self.logged_in(headers, visit),
        }
    }

    /// Whether a request for a page shows who asks.
    fn logged_in(&self, headers: &HeaderMap, visit: &Visit) -> Result<(), Refused> {
        let Some(tokens) = &self.tokens else {
            return self.identity(headers, visit).map(drop);
        };
        let header = only(headers, header::AUTHORIZATION).unwrap_or_default();
        let token = header
            .split_once(' ')
            .filter(|(scheme, _)| same(scheme, "bearer"))
            .map(|(_, token)| token.trim());
        let is_good = token.is_some_and(|token| tokens.check(token).is_ok());
        is_good.then_some(()).ok_or((
            StatusCode::UNAUTHORIZED,
            "the relay's pages need a valid token: Authorization: Bearer … (pages)\n",
        ))
    }

    /// Who a client is, as far as its handshake says.
    pub(super) fn identity(&self, headers: &HeaderMap, visit: &Visit) -> Result<Identity, Refused> {
        let Some(gate) = &self.gate else {
            return Ok(Identity::default());
        };
        if !self.is_proxy(visit.from.ip()) {
            return Err((
                StatusCode::FORBIDDEN,
                "only the relay's proxies may connect: the operator adds one by --trusted-proxy\n",
            ));
        }
        gate.identity(headers)
    }
}
