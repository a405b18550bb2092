//! `GET /app.json`: what the operator has set for the app.

use hyper::header::HeaderMap;
use serde_json::json;

use super::answer::{Answer, Refusal, with_type};
use super::{Audience, Server, Visit};

/// Path of the route.
pub(super) const PATH: &str = "/app.json";

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
