//! One page of ChannelFinder's channels: how it is asked for, and what of it clients are told.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::ingest::pva::name::escaped;

/// Channels in a page.
pub(super) const PAGE: usize = 1_000;

/// The same, where the names of a whole page can't stand in a path. It is also the most that ChannelFinder answers.
pub(super) const LARGEST_PAGE: usize = 10_000;

/// Most bytes of what is known of a name. Of longer ones properties and then tags are left out.
const MAX_ABOUT: usize = 1_000;

/// Characters that servers and proxies refuse in one part of a path, or read otherwise, even when they are encoded.
const UNSAFE: [char; 4] = ['/', '\\', ';', '%'];

/// Characters that servers refuse in a query unless they are encoded.
const UNSAFE_IN_QUERY: &[u8] = b"\"<>[\\]^`{|}";

/// Which channels are wanted: those that match the operator's query, by name.
#[derive(Clone, Debug)]
pub(super) struct Pages {
    /// Address of the service.
    service: String,
    query: String,
}

/// The answer to a request for a page.
#[derive(Debug, Deserialize)]
struct Scroll {
    /// By which the next page is asked for: the name of the last channel.
    id: Option<String>,
    channels: Vec<Channel>,
}

#[derive(Debug, Deserialize)]
struct Channel {
    name: String,
    properties: Option<Vec<Property>>,
    tags: Option<Vec<Tag>>,
}

#[derive(Debug, Deserialize)]
struct Property {
    name: String,
    value: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Tag {
    name: String,
}

/// What clients are told of a name. A channel's `alias` is left out: it is the name of another PV, which a client may
/// not be permitted to read.
#[derive(Debug, Default, Serialize)]
struct About<'a> {
    #[serde(rename = "type", skip_serializing_if = "str::is_empty")]
    record_type: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    description: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    host: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    ioc: &'a str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tags: Vec<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    properties: BTreeMap<&'a str, &'a str>,
}

/// A channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) name: String,
    /// What is known of it, as an object of JSON; empty for nothing.
    pub(super) about: String,
}

/// The channels of an answer.
#[derive(Debug)]
pub(super) struct Page {
    id: Option<String>,
    pub(super) channels: Vec<Listed>,
}

/// What follows a page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The page after this name.
    After(String),
    /// The same page with more channels: no name of this one can stand in a path.
    Larger,
    /// Nothing.
    End,
}

/// Whether a name can be one part of a path.
fn is_segment(name: &str) -> bool {
    let is_unsafe = |c: char| c.is_control() || UNSAFE.contains(&c);
    !name.is_empty() && name != "." && name != ".." && !name.contains(is_unsafe)
}

/// A name as one part of a path.
fn segment(name: &str) -> String {
    encoded(name, |byte| {
        byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
    })
}

/// A text with the other bytes encoded.
fn encoded(text: &str, is_plain: impl Fn(u8) -> bool) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string can't fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

impl Pages {
    pub(super) fn new(service: &str, query: &str) -> Self {
        let parts = query.split('&').filter(|part| !part.is_empty());
        let mut parts: Vec<_> = parts.collect();
        if !parts.iter().any(|part| part.starts_with("~name=")) {
            parts.insert(0, "~name=*");
        }
        Self {
            service: service.to_owned(),
            query: encoded(&parts.join("&"), |byte| !UNSAFE_IN_QUERY.contains(&byte)),
        }
    }

    /// Address of the page of this many channels after a name.
    pub(super) fn address(&self, after: Option<&str>, size: usize) -> String {
        let Self { service, query } = self;
        let after = after.map(|name| format!("/{}", segment(name)));
        let after = after.unwrap_or_default();
        format!("{service}/resources/scroll{after}?{query}&~size={size}")
    }
}

impl Channel {
    /// What clients are told of it, with the values of these properties.
    fn about(&self, shown: &[String]) -> String {
        let mut about = About::default();
        for Property { name, value } in self.properties.iter().flatten() {
            let value = value.as_deref().unwrap_or_default();
            match name.as_str() {
                "recordType" => about.record_type = value,
                "recordDesc" => about.description = value,
                "hostName" => about.host = value,
                "iocName" => about.ioc = value,
                _ => {}
            }
            if shown.contains(name) {
                about.properties.insert(name, value);
            }
        }
        about.tags = (self.tags.iter().flatten())
            .map(|tag| tag.name.as_str())
            .collect();
        let json = |about: &About<'_>| {
            let json = serde_json::to_string(about).ok();
            json.filter(|json| json.len() <= MAX_ABOUT)
        };
        let whole = json(&about)
            .or_else(|| {
                about.properties.clear();
                json(&about)
            })
            .or_else(|| {
                about.tags.clear();
                json(&about)
            });
        whole.filter(|json| json != "{}").unwrap_or_default()
    }
}

impl Page {
    /// Reads an answer, whose channels have these properties for clients.
    pub(super) fn read(answer: &[u8], shown: &[String]) -> Result<Self, serde_json::Error> {
        let Scroll { id, channels } = serde_json::from_slice(answer)?;
        let channels = channels.into_iter().map(|channel| Listed {
            about: channel.about(shown),
            name: channel.name,
        });
        Ok(Self {
            id,
            channels: channels.collect(),
        })
    }

    /// What follows a page that could have had `size` channels. Channels that come again are removed.
    pub(super) fn next(&mut self, size: usize) -> Next {
        let Some(last) = self.channels.last() else {
            return Next::End;
        };
        let id = self.id.as_deref().unwrap_or(&last.name);
        if is_segment(id) {
            return Next::After(id.to_owned());
        }
        if self.channels.len() < size {
            return Next::End;
        }
        let mut known = self.channels.iter();
        let Some(last) = known.rposition(|channel| is_segment(&channel.name)) else {
            self.channels.clear();
            return Next::Larger;
        };
        self.channels.truncate(last + 1);
        Next::After(self.channels[last].name.clone())
    }
}

/// The protocol of a channel, which ChannelFinder doesn't know, and its name as clients open it; `None` if the relay has
/// no such protocol.
pub(super) fn placed<'a>(
    name: &'a str,
    default_scheme: &'a str,
) -> Option<(&'a str, Cow<'a, str>)> {
    match name.split_once("://") {
        Some((scheme @ ("ca" | "pva"), name)) => Some((scheme, name.into())),
        Some(_) => None,
        None if default_scheme == "pva" => Some((default_scheme, escaped(name))),
        None => Some((default_scheme, name.into())),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn page(answer: &str) -> Page {
        Page::read(answer.as_bytes(), &["area".to_owned()]).unwrap()
    }

    #[test]
    fn page_is_asked_for_by_the_operators_query_and_the_last_name() {
        let all = Pages::new("http://cf/CF", "");
        assert_eq!(
            all.address(None, 9),
            "http://cf/CF/resources/scroll?~name=*&~size=9"
        );
        assert_eq!(
            all.address(Some("SR:µ<1>"), 9),
            "http://cf/CF/resources/scroll/SR%3A%C2%B5%3C1%3E?~name=*&~size=9"
        );
        let some = Pages::new("http://cf", "pvStatus=Active&~name=SR:*|BR:*&");
        assert_eq!(
            some.address(None, 9),
            "http://cf/resources/scroll?pvStatus=Active&~name=SR:*%7CBR:*&~size=9"
        );
    }

    #[test]
    fn clients_are_told_type_description_host_ioc_tags_and_named_properties() {
        let Page { channels, .. } = page(
            r#"{"id":"B","channels":[
                {"name":"A","owner":"o","properties":[
                    {"name":"recordType","owner":"o","value":"ai","channels":[]},
                    {"name":"recordDesc","value":"a \"current\""},
                    {"name":"hostName","value":"10.0.0.1"},
                    {"name":"iocName","value":"ioc1"},
                    {"name":"alias","value":"SECRET"},
                    {"name":"area","value":"SR"},
                    {"name":"PASSWORD","value":"x"}],
                 "tags":[{"name":"archived","owner":"o"}]},
                {"name":"B","properties":null,"tags":[]},
                {"name":"C","properties":[{"name":"recordType","value":null}]}]}"#,
        );
        let abouts: Vec<_> = channels.iter().map(|channel| &*channel.about).collect();
        let of_a = r#"{"type":"ai","description":"a \"current\"","host":"10.0.0.1","ioc":"ioc1","tags":["archived"],"properties":{"area":"SR"}}"#;
        assert_eq!(abouts, [of_a, "", ""]);
    }

    #[test]
    fn what_is_too_long_is_left_out_properties_first() {
        let with = |tags: usize, property: usize, host: usize| {
            let tags = [format!(r#"{{"name":"{}"}}"#, "t".repeat(tags))];
            let (area, host) = ("a".repeat(property), "h".repeat(host));
            let answer = format!(
                r#"{{"channels":[{{"name":"A","properties":[{{"name":"area","value":"{area}"}},
                    {{"name":"hostName","value":"{host}"}}],"tags":[{}]}}]}}"#,
                tags.join(",")
            );
            page(&answer).channels.remove(0).about
        };
        assert!(with(10, 10, 10).contains("properties"));
        let without = with(10, 2_000, 10);
        assert!(without.contains("tags") && !without.contains("properties"));
        assert_eq!(with(2_000, 10, 10), r#"{"host":"hhhhhhhhhh"}"#);
        assert_eq!(with(10, 10, 2_000), "");
    }

    #[test]
    fn name_has_the_protocol_of_the_relay_unless_it_says_one() {
        let placed = |name| placed(name, "ca").map(|(scheme, name)| format!("{scheme}://{name}"));
        assert_eq!(placed("A/B").as_deref(), Some("ca://A/B"));
        assert_eq!(placed("pva://A").as_deref(), Some("pva://A"));
        assert_eq!(placed("file://A"), None);
        let of_pva = super::placed("A/B", "pva").unwrap();
        assert_eq!(of_pva, ("pva", "A%2FB".into()));
    }

    /// As ChannelFinder answers: the names after the id, by their bytes.
    fn answer(names: &[String], after: Option<&str>, size: usize) -> Page {
        let after = |name: &&String| after.is_none_or(|after| name.as_str() > after);
        let channels: Vec<_> = names.iter().filter(after).take(size).collect();
        let channels = channels.into_iter().map(|name| Listed {
            name: name.clone(),
            about: String::new(),
        });
        let channels: Vec<_> = channels.collect();
        Page {
            id: channels.last().map(|channel| channel.name.clone()),
            channels,
        }
    }

    proptest! {
        #[test]
        fn pages_have_each_name_once_whatever_its_characters(
            names in prop::collection::btree_set("[AB/;:%.]{1,4}", 0..40),
            size in 1_usize..6,
        ) {
            let names: Vec<_> = names.into_iter().collect();
            let (mut after, mut wanted, mut found) = (None, size, Vec::new());
            loop {
                let mut page = answer(&names, after.as_deref(), wanted);
                let next = page.next(wanted);
                found.extend(page.channels.into_iter().map(|channel| channel.name));
                match next {
                    Next::After(name) => {
                        prop_assert!(is_segment(&name));
                        prop_assert!(after.as_ref() < Some(&name));
                        (after, wanted) = (Some(name), size);
                    }
                    Next::Larger => wanted = names.len() + 1,
                    Next::End => break,
                }
            }
            prop_assert_eq!(found, names);
        }

        #[test]
        fn damaged_answers_are_refused_or_read_but_never_a_panic(
            at in 0_usize..200,
            bytes in prop::collection::vec(any::<u8>(), 0..4),
            noise in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut answer = br#"{"id":"A","channels":[{"name":"A","properties":[{"name":"area","value":"\u00b5"}],"tags":[{"name":"t"}]}]}"#.to_vec();
            let at = at.min(answer.len());
            let end = (at + bytes.len()).min(answer.len());
            answer.splice(at..end, bytes);
            for answer in [answer, noise] {
                if let Ok(mut page) = Page::read(&answer, &["area".to_owned()]) {
                    let _ = page.next(1);
                    prop_assert!(page.channels.iter().all(|channel| channel.about.len() <= MAX_ABOUT));
                }
            }
        }
    }
}
