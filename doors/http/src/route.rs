//! Paths: `/pv/NAME` and its forms.
//!
//! The form is told by the end of the path before percent-decoding. So a name that contains `/` or ends like a form
//! is written with `%2F` or `%2E`.

use pvwire_core::formula;
use pvwire_core::local;

/// The beginning of all paths.
pub const PREFIX: &str = "/pv/";

/// The form in which a PV is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// The PV as one JSON object, and puts.
    Json,
    /// Server-sent events.
    Stream,
    /// Past updates.
    History,
    /// The image as PNG.
    Png,
    /// Images as JPEG, one after the other.
    Mjpeg,
}

/// The ends of paths that tell a form.
const ENDS: [(&str, Form); 4] = [
    (".mjpeg", Form::Mjpeg),
    (".png", Form::Png),
    ("/history", Form::History),
    ("/stream", Form::Stream),
];

/// A PV and its form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The PV's name, decoded.
    pub name: String,
    /// The form.
    pub form: Form,
}

/// A path below `/pv/` that names no PV of a relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// There is no name.
    #[error("the path has no PV name: use /pv/NAME")]
    NoName,
    /// A `%` without two hexadecimal digits, or bytes that are not UTF-8.
    #[error("the PV name is not percent-encoded UTF-8: write % as %25")]
    BadEncoding,
    /// A formula or a local PV.
    #[error(
        "formulas and local PVs are evaluated by clients, not by the relay: ask for a PV of an IOC"
    )]
    Computed,
}

/// The PV that a path names; `None` for paths that don't begin with [`PREFIX`].
#[must_use]
pub fn route(path: &str) -> Option<Result<Route, RouteError>> {
    let rest = path.strip_prefix(PREFIX)?;
    let mut ends = ENDS.iter();
    let (name, form) = ends
        .find_map(|(end, form)| Some((rest.strip_suffix(end)?, *form)))
        .unwrap_or((rest, Form::Json));
    Some(decoded(name).and_then(|name| named(name, form)))
}

fn named(name: String, form: Form) -> Result<Route, RouteError> {
    if name.is_empty() {
        return Err(RouteError::NoName);
    }
    if formula::expression(&name).is_some() || name.starts_with(local::SCHEME) {
        return Err(RouteError::Computed);
    }
    Ok(Route { name, form })
}

/// Decodes `%` and two digits to a byte of UTF-8.
fn decoded(text: &str) -> Result<String, RouteError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            let value = digit().and_then(|high| Some(high * 16 + digit()?));
            value.ok_or(RouteError::BadEncoding)? as u8
        } else {
            byte
        });
    }
    String::from_utf8(bytes).map_err(|_| RouteError::BadEncoding)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_percent_decoded() {
        for (path, expected) in [
            ("/pv/A:B.C", Ok("A:B.C")),
            ("/pv/ca://A", Ok("ca://A")),
            ("/pv/pva:%2f%2FA%2Fb", Ok("pva://A/b")),
            ("/pv/A+B", Ok("A+B")),
            ("/pv/%C2%B5", Ok("µ")),
            ("/pv/", Err(RouteError::NoName)),
            ("/pv/%", Err(RouteError::BadEncoding)),
            ("/pv/%4", Err(RouteError::BadEncoding)),
            ("/pv/%zz", Err(RouteError::BadEncoding)),
            ("/pv/%ff", Err(RouteError::BadEncoding)),
            ("/pv/=1+1", Err(RouteError::Computed)),
            ("/pv/loc://a", Err(RouteError::Computed)),
        ] {
            let route = route(path).unwrap();
            let name = route.as_ref().map(|route| route.name.as_str());
            assert_eq!(name, expected.as_ref().copied(), "{path}");
        }
        assert_eq!(route("/pvws/x"), None);
    }

    #[test]
    fn paths_of_the_openapi_document_are_the_routes() {
        let document = include_str!("../../../docs/reference/openapi.json");
        let document: serde_json::Value = serde_json::from_str(document).unwrap();
        let documented = document["paths"].as_object().unwrap().keys();
        let documented: Vec<&String> = documented.filter(|path| path.starts_with("/pv/")).collect();
        let ends = ENDS.iter().map(|(end, _)| *end);
        let served: Vec<String> = [""]
            .into_iter()
            .chain(ends)
            .map(|end| format!("/pv/{{name}}{end}"))
            .collect();
        assert_eq!(documented, served.iter().collect::<Vec<_>>());
    }

    #[test]
    fn end_of_the_path_tells_the_form_unless_it_is_encoded() {
        for (path, name, form) in [
            ("/pv/A/stream", "A", Form::Stream),
            ("/pv/A/stream/stream", "A/stream", Form::Stream),
            ("/pv/A%2Fstream", "A/stream", Form::Json),
            ("/pv/pva://A/b", "pva://A/b", Form::Json),
            ("/pv/A.png", "A", Form::Png),
            ("/pv/A%2Epng", "A.png", Form::Json),
            ("/pv/A/history", "A", Form::History),
            ("/pv/A%2Fhistory", "A/history", Form::Json),
            ("/pv/A.mjpeg", "A", Form::Mjpeg),
        ] {
            let name = name.to_owned();
            assert_eq!(route(path), Some(Ok(Route { name, form })), "{path}");
        }
        assert_eq!(route("/pv//stream"), Some(Err(RouteError::NoName)));
    }
}
