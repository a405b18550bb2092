//! Services that answer clients' questions, by name.

use std::sync::Arc;

use pvwire_schema::types::Outcome;

use crate::session::question::{Problem, Question, Reply, Services};

/// A kind of question, and what answers it.
pub trait Service: Send + Sync {
    /// By which clients name it.
    fn name(&self) -> &'static str;

    /// Answers a question with the first page, or says why it is missing; see
    /// [`Pages`](crate::session::question::Pages).
    fn answer(&self, question: &Question, reply: Reply);
}

/// The services of a relay.
#[derive(Default)]
pub struct ServiceTable(Vec<Arc<dyn Service>>);

impl ServiceTable {
    /// A table of these services.
    #[must_use]
    pub fn new(services: Vec<Arc<dyn Service>>) -> Self {
        Self(services)
    }
}

impl Services for ServiceTable {
    fn ask(&self, question: &Question, reply: Reply) {
        let mut services = self.0.iter();
        match services.find(|service| service.name() == question.service) {
            Some(service) => service.answer(question, reply),
            None => {
                let known: Vec<_> = self.0.iter().map(|service| service.name()).collect();
                let message = format!(
                    "this relay has no service {:?}; it has: {}",
                    question.service,
                    known.join(", ")
                );
                reply.give(Err(Problem::new(Outcome::BadName, message)));
            }
        }
    }
}
