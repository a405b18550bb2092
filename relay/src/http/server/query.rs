//! Arguments in the query of a request.

use hyper::body::Incoming;
use hyper::{Request, Uri};

/// The first value of an argument, decoded.
pub(super) fn argument(request: &Request<Incoming>, name: &str) -> Option<String> {
    of_uri(request.uri(), name)
}

fn of_uri(uri: &Uri, name: &str) -> Option<String> {
    let arguments = uri.query()?.split('&');
    let mut pairs = arguments.map(|argument| argument.split_once('=').unwrap_or((argument, "")));
    let (_, value) = pairs.find(|(key, _)| decoded(key).as_deref() == Some(name))?;
    decoded(value)
}

/// Decodes a text of a form: `+` stands for a blank, `%` and two digits for a byte of UTF-8.
fn decoded(text: &str) -> Option<String> {
    decoded_path(&text.replace('+', " "))
}

/// Decodes a path: `%` and two digits stand for a byte of UTF-8.
pub(super) fn decoded_path(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_found_and_decoded() {
        for (query, expected) in [
            ("name=a", Some("a")),
            ("x=1&name=ca%3A%2F%2Fa:b", Some("ca://a:b")),
            ("name=a&name=b", Some("a")),
            ("name=a=b", Some("a=b")),
            ("name=%60a%60+%2B+1", Some("`a` + 1")),
            ("name=%c2%b5", Some("µ")),
            ("name=", Some("")),
            ("name", Some("")),
            ("names=a", None),
            ("name=%", None),
            ("name=%zz", None),
            ("name=%ff", None),
        ] {
            let uri: Uri = format!("/pvws/pvget?{query}").parse().unwrap();
            assert_eq!(of_uri(&uri, "name").as_deref(), expected, "{query}");
        }
        assert_eq!(of_uri(&"/pvws/pvget".parse().unwrap(), "name"), None);
    }
}
