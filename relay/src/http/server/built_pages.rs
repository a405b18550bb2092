//! The pages that a relay built with the feature `built-pages` contains: the app with what its operator has set for it, and
//! the page of the demo.

use std::str;

use hyper::header::{self, HeaderMap, HeaderValue};
use serde_json::json;

use super::answer::{Answer, Refusal, page, with_type};
use super::{Audience, Server, Visit};

const INDEX: &str = "index.html";

/// Files whose names change with their content.
const LASTING: &str = "public, max-age=31536000, immutable";

/// Content types by the ends of names.
const TYPES: [(&str, &str); 7] = [
    (".css", "text/css; charset=utf-8"),
    (".html", "text/html; charset=utf-8"),
    (".js", "text/javascript; charset=utf-8"),
    (".json", "application/json"),
    (".svg", "image/svg+xml"),
    (".wasm", "application/wasm"),
    (".woff2", "font/woff2"),
];

/// Files by their paths below `/`. Those with `.gz` at the end are what the names before it hold, compressed.
type Files = &'static [(&'static str, &'static [u8])];

/// A page and the files that it loads. It is static, so that a program contains its megabytes once.
pub(super) struct BuiltPage {
    files: Files,
    /// What it may run and load.
    policy: &'static str,
    /// The folder of the files whose names change with their content; none if empty.
    lasting: &'static str,
}

/// What the relay serves at `/`. It runs its own scripts and WebAssembly, has its own style sheet, and connects to its
/// own relay only.
pub(super) static APP: BuiltPage = BuiltPage {
    files: include!(concat!(env!("OUT_DIR"), "/app.rs")),
    policy: "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; \
             connect-src 'self'; worker-src 'self' blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    lasting: "app/",
};

/// The page of the command `demo`. Behind the dialogs of its console the page still scrolls, because what would stop
/// that is an inline style.
pub(super) static DEMO: BuiltPage = BuiltPage {
    files: include!(concat!(env!("OUT_DIR"), "/demo_page.rs")),
    policy: "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src 'self' data: blob:; \
             font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; base-uri 'self'; \
             form-action 'none'; frame-ancestors 'none'",
    lasting: "",
};

/// Whether this relay was built with the demo's page.
#[must_use]
pub fn has_demo_page() -> bool {
    DEMO.find(INDEX).is_some()
}

impl BuiltPage {
    /// The answer to a request for the page or one of its files; `None` for other paths.
    pub(super) fn answer(&self, path: &str, request: &HeaderMap) -> Option<Answer> {
        let name = path.strip_prefix('/')?;
        if name.is_empty() {
            let html = str::from_utf8(self.find(INDEX)?).ok()?;
            return Some(page(html, self.policy));
        }
        let known = TYPES.iter().find(|(end, _)| name.ends_with(end));
        let (_, content_type) = known?;
        let whole = self.find(name)?;
        let packed = self.find(&format!("{name}.gz"));
        let is_packed = packed.is_some() && takes_gzip(request);
        let content = packed.filter(|_| is_packed).unwrap_or(whole);
        let mut answer = with_type(content, content_type);
        let headers = answer.headers_mut();
        if packed.is_some() {
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        if is_packed {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        if !self.lasting.is_empty() && name.starts_with(self.lasting) {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(LASTING));
        }
        // A worker has its own script's policy.
        let policy = HeaderValue::from_static(self.policy);
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
        Some(answer)
    }

    fn find(&self, name: &str) -> Option<&'static [u8]> {
        let found = self.files.iter().find(|(known, _)| *known == name);
        found.map(|(_, content)| *content)
    }
}

/// Whether the client reads answers in gzip.
fn takes_gzip(request: &HeaderMap) -> bool {
    let named = request.get_all(header::ACCEPT_ENCODING).into_iter();
    let named = named.filter_map(|value| value.to_str().ok());
    named.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let weight = quality.trim().strip_prefix("q=").unwrap_or("1");
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse::<f32>().is_ok_and(|q| q > 0.0)
    })
}

/// Path of the settings.
pub(super) const SETTINGS_PATH: &str = "/app.json";

impl Server {
    /// Whether a listener serves the settings: where it serves the app.
    pub(super) fn has_app_settings(&self, visit: &Visit) -> bool {
        self.app && visit.audience == Audience::Clients
    }

    /// The settings, for clients that may connect.
    pub(super) fn app_settings(
        &self,
        headers: &HeaderMap,
        visit: &Visit,
    ) -> Result<Answer, Refusal> {
        self.gate.authenticated(headers, visit)?;
        let settings = json!({ "confirmPut": self.confirm_put });
        Ok(with_type(settings.to_string(), "application/json"))
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt, Either};

    use super::*;

    const PAGE: BuiltPage = BuiltPage {
        files: &[
            ("app/main-1.js", b"let all = 1;"),
            ("app/main-1.js.gz", b"packed"),
            ("index.html", b"<!doctype html>"),
            ("license.txt", b"none"),
        ],
        policy: "default-src 'none'",
        lasting: "app/",
    };

    fn asked(path: &str, coding: Option<&'static str>) -> Option<(HeaderMap, Vec<u8>)> {
        let mut request = HeaderMap::new();
        if let Some(coding) = coding {
            request.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(coding));
        }
        let (parts, body) = PAGE.answer(path, &request)?.into_parts();
        let Either::Left(whole) = body else {
            unreachable!("files are whole answers")
        };
        let waker = std::task::Waker::noop();
        let mut context = std::task::Context::from_waker(waker);
        let mut collecting = std::pin::pin!(whole.collect());
        let std::task::Poll::Ready(Ok(content)) = collecting.as_mut().poll(&mut context) else {
            unreachable!("files are there at once")
        };
        Some((parts.headers, content.to_bytes().to_vec()))
    }

    #[test]
    fn file_is_sent_packed_to_those_who_read_that() {
        for coding in ["gzip", "deflate, GZIP;q=0.5, br"] {
            let (headers, content) = asked("/app/main-1.js", Some(coding)).unwrap();
            assert_eq!(content, b"packed", "{coding}");
            assert_eq!(headers["content-encoding"], "gzip");
            assert_eq!(headers["vary"], "Accept-Encoding");
        }
        for coding in [
            None,
            Some("br"),
            Some("gzip;q=0"),
            Some("gzip;q=0.000, x-gzip"),
        ] {
            let (headers, content) = asked("/app/main-1.js", coding).unwrap();
            assert_eq!(content, b"let all = 1;", "{coding:?}");
            assert!(!headers.contains_key("content-encoding"));
            assert_eq!(headers["vary"], "Accept-Encoding");
        }
    }

    #[test]
    fn files_last_and_the_page_does_not() {
        let (file, _) = asked("/app/main-1.js", None).unwrap();
        assert_eq!(file["cache-control"], LASTING);
        assert_eq!(file["content-type"], "text/javascript; charset=utf-8");
        assert_eq!(file["content-security-policy"], "default-src 'none'");
        let (page, content) = asked("/", Some("gzip")).unwrap();
        assert_eq!(page["cache-control"], "no-store");
        assert_eq!(page["content-security-policy"], "default-src 'none'");
        assert_eq!(content, b"<!doctype html>");
    }

    #[test]
    fn other_paths_are_left_to_the_relay() {
        for path in [
            "/app/",
            "/app/main-1.js.gz",
            "/app/other.js",
            "/status",
            "/license.txt",
            "//",
            "",
        ] {
            assert!(asked(path, Some("gzip")).is_none(), "{path}");
        }
    }
}
