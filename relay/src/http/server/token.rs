//! Tokens that requests bring in a header or a cookie, and the users that they prove.

use hyper::StatusCode;
use hyper::header::{self, HeaderMap};

use super::answer::Refusal;
use super::trust::{only, same};
use super::{Server, Visit};
use crate::access::auth::Login;
use crate::access::rule::Identity;

impl Server {
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
