//! Requests of GraphQL: a document, the name of the operation, and the values of its variables.

use pvwire_core::format::push_quoted;
use serde_json::Value;

/// A request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The document.
    pub query: String,
    /// The operation to carry out, if the document has several.
    pub operation_name: Option<String>,
    /// The variables as a JSON object; empty without variables.
    pub variables: String,
}

/// Why a request can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PayloadError {
    /// It isn't JSON.
    #[error("Unable to parse request body as JSON")]
    NotJson,
    /// It is an empty list, or a list within a list.
    #[error("A batch is a list of one or more requests")]
    Batch,
    /// It is a list of too many requests.
    #[error("A batch has at most {MOST_IN_A_BATCH} requests, not {0}")]
    LargeBatch(usize),
    /// It names a document that the server should have kept.
    #[error("PersistedQueryNotSupported")]
    Persisted,
    /// It has no document.
    #[error("No GraphQL query found in the request")]
    NoQuery,
    /// The variables are not an object.
    #[error("Variables must be an object")]
    BadVariables,
    /// The name of the operation is not text.
    #[error("The name of the operation must be a string")]
    BadName,
}

/// Maximum number of requests in a batch.
pub const MOST_IN_A_BATCH: usize = 50;

/// What the body of a POST request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requests {
    /// One request, whose response is an object.
    One(Payload),
    /// A batch, whose response is the list of the responses.
    Batch(Vec<Result<Payload, PayloadError>>),
}

impl Requests {
    /// Reads the body of a POST request.
    ///
    /// # Errors
    /// When it is neither a request nor a list of requests in JSON.
    pub fn from_json(body: &[u8]) -> Result<Self, PayloadError> {
        match serde_json::from_slice(body).map_err(|_| PayloadError::NotJson)? {
            Value::Array(list) => match list.len() {
                0 => Err(PayloadError::Batch),
                1..=MOST_IN_A_BATCH => {
                    let payload = |value| match value {
                        Value::Array(_) => Err(PayloadError::Batch),
                        value => Payload::from_value(value),
                    };
                    Ok(Self::Batch(list.into_iter().map(payload).collect()))
                }
                count => Err(PayloadError::LargeBatch(count)),
            },
            value => Payload::from_value(value).map(Self::One),
        }
    }
}

impl PayloadError {
    /// The response to such a request: an object with this one error.
    #[must_use]
    pub fn response(&self) -> Vec<u8> {
        let mut out = b"{\"errors\":[{\"message\":".to_vec();
        push_quoted(&self.to_string(), &mut out);
        if *self == Self::Persisted {
            // Clients then send the document itself.
            out.extend_from_slice(b",\"extensions\":{\"code\":\"PERSISTED_QUERY_NOT_SUPPORTED\"}");
        }
        out.extend_from_slice(b"}]}");
        out
    }
}

impl Payload {
    /// Reads the arguments of a GET request.
    ///
    /// # Errors
    /// When the document is missing, or the variables are not an object in JSON.
    pub fn from_arguments(
        query: Option<String>,
        operation_name: Option<String>,
        variables: Option<&str>,
        extensions: Option<&str>,
    ) -> Result<Self, PayloadError> {
        let extensions = extensions.and_then(|text| serde_json::from_str(text).ok());
        if query.is_none() && is_persisted(extensions.as_ref()) {
            return Err(PayloadError::Persisted);
        }
        let variables = match variables.filter(|text| !text.is_empty()) {
            None => Value::Null,
            Some(text) => serde_json::from_str(text).map_err(|_| PayloadError::BadVariables)?,
        };
        Ok(Self {
            query: query.ok_or(PayloadError::NoQuery)?,
            operation_name: operation_name.filter(|name| !name.is_empty()),
            variables: variables_text(&variables)?,
        })
    }

    pub(crate) fn from_value(value: Value) -> Result<Self, PayloadError> {
        let Value::Object(mut fields) = value else {
            return Err(PayloadError::NoQuery);
        };
        let Some(Value::String(query)) = fields.remove("query") else {
            return Err(if is_persisted(fields.get("extensions")) {
                PayloadError::Persisted
            } else {
                PayloadError::NoQuery
            });
        };
        let operation_name = match fields.remove("operationName") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name).filter(|name| !name.is_empty()),
            Some(_) => return Err(PayloadError::BadName),
        };
        let variables = fields.get("variables").unwrap_or(&Value::Null);
        Ok(Self {
            query,
            operation_name,
            variables: variables_text(variables)?,
        })
    }
}

/// Whether a request without a document names one by its hash.
fn is_persisted(extensions: Option<&Value>) -> bool {
    extensions.is_some_and(|extensions| extensions.get("persistedQuery").is_some())
}

fn variables_text(variables: &Value) -> Result<String, PayloadError> {
    match variables {
        Value::Null => Ok(String::new()),
        Value::Object(_) => Ok(variables.to_string()),
        _ => Err(PayloadError::BadVariables),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_of_a_request_is_read() {
        let body =
            br#"{"query":"{ a }","operationName":null,"variables":{"id":"X"},"extensions":{}}"#;
        let one = |body: &[u8]| match Requests::from_json(body) {
            Ok(Requests::One(payload)) => payload,
            other => panic!("{other:?}"),
        };
        let payload = one(body);
        assert_eq!(payload.query, "{ a }");
        assert_eq!(payload.operation_name, None);
        assert_eq!(payload.variables, r#"{"id":"X"}"#);
        let named = one(br#"{"query":"q","operationName":"b"}"#);
        assert_eq!(named.operation_name.as_deref(), Some("b"));
    }

    #[test]
    fn body_that_is_no_request_is_refused_with_the_reason() {
        for (body, error) in [
            ("", PayloadError::NotJson),
            ("{", PayloadError::NotJson),
            ("[]", PayloadError::Batch),
            ("5", PayloadError::NoQuery),
            ("{}", PayloadError::NoQuery),
            (r#"{"query":5}"#, PayloadError::NoQuery),
            (
                r#"{"query":"q","variables":[]}"#,
                PayloadError::BadVariables,
            ),
            (r#"{"query":"q","operationName":5}"#, PayloadError::BadName),
        ] {
            assert_eq!(Requests::from_json(body.as_bytes()), Err(error), "{body}");
        }
    }

    #[test]
    fn arguments_of_a_request_are_read() {
        let of = |variables| Payload::from_arguments(Some("q".into()), None, variables, None);
        assert_eq!(of(None).unwrap().variables, "");
        assert_eq!(of(Some(r#"{"a": 1}"#)).unwrap().variables, r#"{"a":1}"#);
        assert_eq!(of(Some("x")), Err(PayloadError::BadVariables));
        let none = Payload::from_arguments(None, None, None, None);
        assert_eq!(none, Err(PayloadError::NoQuery));
    }

    #[test]
    fn batch_has_a_result_for_each_of_its_requests() {
        let batch = Requests::from_json(br#"[{"query":"a"},{},{"query":"b"},[]]"#).unwrap();
        let Requests::Batch(batch) = batch else {
            panic!("{batch:?}")
        };
        let queries: Vec<_> = (batch.iter())
            .map(|one| one.as_ref().map(|payload| &*payload.query))
            .collect();
        let (none, nested) = (PayloadError::NoQuery, PayloadError::Batch);
        assert_eq!(queries, [Ok("a"), Err(&none), Ok("b"), Err(&nested)]);
        let many = format!("[{}{{}}]", "{},".repeat(MOST_IN_A_BATCH));
        let too_many = Err(PayloadError::LargeBatch(MOST_IN_A_BATCH + 1));
        assert_eq!(Requests::from_json(many.as_bytes()), too_many);
    }

    #[test]
    fn client_that_names_a_kept_document_is_told_to_send_it() {
        let extensions = r#"{"persistedQuery":{"version":1,"sha256Hash":"a"}}"#;
        let body = format!(r#"{{"extensions":{extensions}}}"#);
        let posted = Requests::from_json(body.as_bytes()).unwrap_err();
        let got = Payload::from_arguments(None, None, None, Some(extensions)).unwrap_err();
        for error in [posted, got] {
            let response: Value = serde_json::from_slice(&error.response()).unwrap();
            let error = &response["errors"][0];
            assert_eq!(error["message"], "PersistedQueryNotSupported");
            assert_eq!(error["extensions"]["code"], "PERSISTED_QUERY_NOT_SUPPORTED");
        }
    }
}
