//! GraphiQL, the page on which documents can be tried. `tools/graphiql` makes its script and its style sheet.

use hyper::StatusCode;
use hyper::header::{self, HeaderMap, HeaderValue};

use crate::http::server::answer::{self, Answer, plain, with_type};

const PAGE: &str = include_str!("graphiql/page.html");

/// The compressed files below `/graphiql/`, with their types.
const FILES: [(&str, &[u8], &str); 2] = [
    (
        "graphiql.js",
        include_bytes!("graphiql/graphiql.js.gz"),
        "text/javascript; charset=utf-8",
    ),
    (
        "graphiql.css",
        include_bytes!("graphiql/graphiql.css.gz"),
        "text/css; charset=utf-8",
    ),
];

/// The page runs no script except its own, and connects to its own relay only. Its script makes style elements, which
/// have the page's number.
const POLICY: &str = "default-src 'none'; script-src 'self' 'nonce-{NONCE}'; style-src 'self' 'nonce-{NONCE}'; \
                      img-src 'self' data:; font-src 'self' data:; connect-src 'self'; base-uri 'self'; \
                      form-action 'none'; frame-ancestors 'none'";

/// The answer to a request for the page or one of its files; `None` for other paths.
pub(super) fn answer(path: &str, headers: &HeaderMap) -> Option<Answer> {
    if path == "/graphiql" {
        return Some(page());
    }
    let name = path.strip_prefix("/graphiql/")?;
    let (_, content, content_type) = FILES.iter().find(|(known, ..)| *known == name)?;
    let accepted = headers.get(header::ACCEPT_ENCODING);
    let accepted = accepted.and_then(|list| list.to_str().ok());
    if !accepted.is_some_and(|list| list.contains("gzip")) {
        let why = "this file is compressed: ask for it with Accept-Encoding: gzip\n";
        return Some(plain(StatusCode::NOT_ACCEPTABLE, why));
    }
    let mut answer = with_type(*content, content_type);
    let headers = answer.headers_mut();
    let encoding = HeaderValue::from_static("gzip");
    headers.insert(header::CONTENT_ENCODING, encoding);
    Some(answer)
}

/// The page.
pub(super) fn page() -> Answer {
    answer::page(PAGE, POLICY)
}
