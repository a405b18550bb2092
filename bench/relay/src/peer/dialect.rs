//! How PVs are requested from each kind of server and sends their values.

use std::collections::HashMap;
use std::error::Error;

use clap::ValueEnum;
use serde_json::{Value, json};

/// What a server speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dialect {
    /// GraphQL by `graphql-transport-ws`, one subscription a PV.
    Coniql,
    /// JSON with a list of PVs.
    Pvws,
}

/// What a message says.
#[derive(Debug, PartialEq)]
pub(crate) enum Said {
    /// A PV, by its place in the client's list, has this value.
    Update {
        pv: usize,
        value: f64,
        time_ns: Option<i64>,
    },
    /// This must be answered.
    Answer(&'static str),
    /// Nothing of a value.
    Nothing,
}

/// How much is requested from a server that lets clients choose: each field costs it something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Selection {
    /// What an update of ours says: value, time and severity.
    #[default]
    Values,
    /// What a screen shows: also text, arrays, limits and labels. Those that didn't change are null.
    Screens,
}

impl Selection {
    fn fields(self) -> &'static str {
        match self {
            Self::Values => "value { float } time { seconds } status { quality }",
            Self::Screens => {
                "id value { float string base64Array { numberType base64 } } time { seconds } \
                 status { quality message mutable } \
                 display { units form precision choices controlRange { min max } }"
            }
        }
    }
}

impl Dialect {
    pub(crate) fn subprotocol(self) -> Option<&'static str> {
        match self {
            Self::Coniql => Some("graphql-transport-ws"),
            Self::Pvws => None,
        }
    }

    /// What a client must say before anything else.
    pub(crate) fn greeting(self) -> Option<&'static str> {
        match self {
            Self::Coniql => Some(r#"{"type":"connection_init"}"#),
            Self::Pvws => None,
        }
    }

    /// Whether this answers the greeting.
    pub(crate) fn is_welcome(self, message: &str) -> bool {
        message.contains("connection_ack")
    }
}

/// How one client requests its PVs and reads the answers.
pub(crate) struct Speaker<'a> {
    dialect: Dialect,
    selection: Selection,
    names: Vec<&'a str>,
    places: HashMap<&'a str, usize>,
}

impl<'a> Speaker<'a> {
    pub(crate) fn new(dialect: Dialect, selection: Selection, names: Vec<&'a str>) -> Self {
        let places = (names.iter().enumerate()).map(|(place, name)| (*name, place));
        Self {
            dialect,
            selection,
            places: places.collect(),
            names,
        }
    }

    /// The messages that ask for all PVs.
    pub(crate) fn subscribe(&self) -> Vec<String> {
        match self.dialect {
            Dialect::Coniql => {
                let fields = self.selection.fields();
                let query = format!(
                    "subscription ($id: ID!) {{ subscribeChannel(id: $id) {{ {fields} }} }}"
                );
                let ask = |(place, name): (usize, &&str)| {
                    json!({
                        "type": "subscribe",
                        "id": place.to_string(),
                        "payload": {"query": query, "variables": {"id": name}},
                    })
                    .to_string()
                };
                self.names.iter().enumerate().map(ask).collect()
            }
            Dialect::Pvws => vec![json!({"type": "subscribe", "pvs": self.names}).to_string()],
        }
    }

    pub(crate) fn read(&self, message: &str) -> Result<Said, Box<dyn Error>> {
        let message: Value = serde_json::from_str(message)?;
        match self.dialect {
            Dialect::Coniql => self.read_coniql(&message),
            Dialect::Pvws => Ok(self.read_pvws(&message)),
        }
    }

    fn read_coniql(&self, message: &Value) -> Result<Said, Box<dyn Error>> {
        match message["type"].as_str() {
            Some("next") if message["payload"]["errors"].is_null() => {}
            Some("ping") => return Ok(Said::Answer(r#"{"type":"pong"}"#)),
            Some("pong") => return Ok(Said::Nothing),
            _ => return Err(format!("the server says {message}").into()),
        }
        let pv = (message["id"].as_str()).and_then(|id| id.parse().ok());
        let pv = pv.filter(|place| *place < self.names.len());
        let pv = pv.ok_or_else(|| format!("not requested: {message}"))?;
        let channel = &message["payload"]["data"]["subscribeChannel"];
        let seconds = channel["time"]["seconds"].as_f64();
        // What hasn't changed is null.
        Ok(channel["value"]["float"]
            .as_f64()
            .map_or(Said::Nothing, |value| Said::Update {
                pv,
                value,
                time_ns: seconds.map(|seconds| (seconds * 1e9) as i64),
            }))
    }

    fn read_pvws(&self, message: &Value) -> Said {
        let pv = message["pv"]
            .as_str()
            .and_then(|name| self.places.get(name));
        let (Some(pv), Some(value)) = (pv, message["value"].as_f64()) else {
            // Answers of other types; a PV that is not connected has no value.
            return Said::Nothing;
        };
        let seconds = message["seconds"].as_i64();
        Said::Update {
            pv: *pv,
            value,
            time_ns: seconds
                .map(|seconds| seconds * 1_000_000_000 + message["nanos"].as_i64().unwrap_or(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coniql_says_values_times_and_what_went_wrong() {
        let speaker = Speaker::new(Dialect::Coniql, Selection::Values, vec!["A", "B"]);
        let read = |text| speaker.read(text);
        let update = r#"{"id":"1","type":"next","payload":{"data":{"subscribeChannel":
            {"value":{"float":7.0},"time":{"seconds":2.5},"status":null}}}}"#;
        assert_eq!(
            read(update).unwrap(),
            Said::Update {
                pv: 1,
                value: 7.0,
                time_ns: Some(2_500_000_000)
            }
        );
        let no_value = r#"{"id":"1","type":"next","payload":{"data":{"subscribeChannel":
            {"value":null,"time":null,"status":{"quality":"INVALID"}}}}}"#;
        assert_eq!(read(no_value).unwrap(), Said::Nothing);
        let ping = read(r#"{"type":"ping"}"#).unwrap();
        assert_eq!(ping, Said::Answer(r#"{"type":"pong"}"#));
        for wrong in [
            r#"{"id":"1","type":"error","payload":[{"message":"no such field"}]}"#,
            r#"{"id":"1","type":"next","payload":{"data":null,"errors":[{"message":"no"}]}}"#,
            r#"{"id":"2","type":"next","payload":{"data":null}}"#,
            "no JSON",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn pvws_says_values_by_name_and_may_have_no_time() {
        let speaker = Speaker::new(Dialect::Pvws, Selection::Values, vec!["A", "B"]);
        let read = |text| speaker.read(text).unwrap();
        let update = |time_ns| Said::Update {
            pv: 1,
            value: 7.0,
            time_ns,
        };
        assert_eq!(
            read(r#"{"type":"update","pv":"B","value":7}"#),
            update(None)
        );
        assert_eq!(
            read(r#"{"type":"update","pv":"B","value":7.0,"seconds":2,"nanos":5}"#),
            update(Some(2_000_000_005))
        );
        for other in [
            r#"{"type":"update","pv":"B","readonly":true}"#,
            r#"{"type":"update","pv":"C","value":7}"#,
            r#"{"type":"list","pvs":[]}"#,
        ] {
            assert_eq!(read(other), Said::Nothing, "{other}");
        }
    }
}
