//! Requests of GraphQL: a document, the name of the operation, and the values of its variables.

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
    /// It is a list of requests.
    #[error("Batching is not supported: send one operation in each request")]
    Batch,
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

impl Payload {
    /// Reads the body of a POST request.
    ///
    /// # Errors
    /// When it is not a request in JSON.
    pub fn from_json(body: &[u8]) -> Result<Self, PayloadError> {
        match serde_json::from_slice(body).map_err(|_| PayloadError::NotJson)? {
            Value::Array(_) => Err(PayloadError::Batch),
            value => Self::from_value(value),
        }
    }

    /// Reads the arguments of a GET request.
    ///
    /// # Errors
    /// When the document is missing, or the variables are not an object in JSON.
    pub fn from_arguments(
        query: Option<String>,
        operation_name: Option<String>,
        variables: Option<&str>,
    ) -> Result<Self, PayloadError> {
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
            return Err(PayloadError::NoQuery);
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
        let payload = Payload::from_json(body).unwrap();
        assert_eq!(payload.query, "{ a }");
        assert_eq!(payload.operation_name, None);
        assert_eq!(payload.variables, r#"{"id":"X"}"#);
        let named = Payload::from_json(br#"{"query":"q","operationName":"b"}"#).unwrap();
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
            assert_eq!(Payload::from_json(body.as_bytes()), Err(error), "{body}");
        }
    }

    #[test]
    fn arguments_of_a_request_are_read() {
        let of = |variables| Payload::from_arguments(Some("q".into()), None, variables);
        assert_eq!(of(None).unwrap().variables, "");
        assert_eq!(of(Some(r#"{"a": 1}"#)).unwrap().variables, r#"{"a":1}"#);
        assert_eq!(of(Some("x")), Err(PayloadError::BadVariables));
        let none = Payload::from_arguments(None, None, None);
        assert_eq!(none, Err(PayloadError::NoQuery));
    }
}
