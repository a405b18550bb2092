//! The contexts of pvxs: one for each side of the monitors, and one for checks.

use std::cell::OnceCell;

use super::handle::{Context, Refused};
use super::isolation::Side;
use crate::user::ContextError;

/// A context for monitors and operations, and two others that are created when needed: one for
/// isolated monitors, and one for checks.
pub(super) struct Contexts {
    pub(super) main: Context,
    /// For monitors on the second side.
    second: OnceCell<Context>,
    checks: OnceCell<Context>,
}

impl Contexts {
    pub(super) fn create() -> Result<Self, ContextError> {
        let main =
            Context::create().map_err(|refused| ContextError::Library(refused.to_string()))?;
        Ok(Self {
            main,
            second: OnceCell::new(),
            checks: OnceCell::new(),
        })
    }

    /// The context of a side.
    pub(super) fn of(&self, side: Side) -> Result<&Context, Refused> {
        match side {
            Side::First => Ok(&self.main),
            Side::Second => created(&self.second),
        }
    }

    /// A value that breaks a connection of this context affects no monitor.
    pub(super) fn checks(&self) -> Result<&Context, Refused> {
        created(&self.checks)
    }

    /// Bytes received from a server.
    pub(super) fn received(&self, peer: &str) -> u64 {
        let second = self.second.get().map_or(0, |second| second.received(peer));
        self.main.received(peer) + second
    }
}

fn created(context: &OnceCell<Context>) -> Result<&Context, Refused> {
    match context.get() {
        Some(context) => Ok(context),
        None => Context::create().map(|created| context.get_or_init(|| created)),
    }
}
