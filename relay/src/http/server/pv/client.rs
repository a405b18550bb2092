//! The clients of the routes below `/pv/`: who makes a request, and why the relay ends it.

use std::time::{Duration, Instant};

use hyper::StatusCode;
use hyper::header::HeaderMap;
use pvwire_schema::close::CloseCode;

use crate::access::auth::TokenError;
use crate::config::Access;
use crate::http::server::answer::Refusal;
use crate::http::server::{Server, Visit};
use crate::queries::plain_clients::PlainClient;

/// How long a token waits whose key may become known.
const KEY_PATIENCE: Duration = Duration::from_secs(5);

/// Interval between two checks of such a token.
const CHECK_EVERY: Duration = Duration::from_millis(250);

impl Server {
    /// The client that makes a request, unless it is refused like a WebSocket client.
    pub(in crate::http::server) async fn plain_client(
        &self,
        headers: &HeaderMap,
        visit: &Visit,
    ) -> Result<PlainClient, Refusal> {
        self.gate.check_origin(headers)?;
        let permit = self.gate.permit(visit)?;
        self.await_key(headers).await?;
        let (caller, login) = self.gate.identified(headers, visit)?;
        Ok(self.gate.plain_clients.enter(caller, login, permit)?)
    }

    /// Waits while the key of the request's token may become known.
    async fn await_key(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let Some(tokens) = &self.gate.tokens else {
            return Ok(());
        };
        let Some(token) = self.gate.token(headers) else {
            let message = "the relay asks for a token: Authorization: Bearer …\n";
            return Err((StatusCode::UNAUTHORIZED, message).into());
        };
        let until = Instant::now() + KEY_PATIENCE;
        while matches!(tokens.check(&token), Err(TokenError::UnknownKey)) && Instant::now() < until
        {
            tokio::time::sleep(CHECK_EVERY).await;
        }
        Ok(())
    }

    /// Waits until the relay ends a client that reads this PV; returns why.
    pub(super) async fn ended(&self, client: &mut PlainClient, name: &str) -> CloseCode {
        client.reads(name);
        let registry = &self.admin.registry;
        let ended = client.ended(|caller| {
            let permitted = registry.permit(name, &caller.identity, Access::Read);
            permitted.is_ok()
        });
        ended.await
    }
}
