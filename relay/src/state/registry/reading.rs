//! What rules say of a PV: who may access it, who may no longer read it after they changed, and how many updates a second
//! its subscriptions get at most (`max_rate`).

use std::sync::Arc;

use pvwire_schema::types::{Filter, NameProblem, PvId};

use super::acquire::Narrowed;
use super::{Named, Refusal, Registry};
use crate::access::rule::{Identity, RateCaps, Rules};
use crate::config::Access;
use crate::ingest::Form;

impl Registry {
    /// Whether `identity` may access a PV. It may read a PV with inputs if it may read all of them.
    ///
    /// # Errors
    /// The rule that denies it, or what is wrong with the name.
    pub fn permit(&self, name: &str, identity: &Identity, access: Access) -> Result<(), Refusal> {
        self.permit_named(&self.named(name)?, &self.rules(), identity, access)
    }

    /// Like `permit`, by these rules.
    pub(super) fn permit_named(
        &self,
        named: &Named<'_>,
        rules: &Rules,
        identity: &Identity,
        access: Access,
    ) -> Result<(), Refusal> {
        if access == Access::Read {
            let inputs = named.source.inputs(named.bare);
            if !inputs.is_empty() {
                return self.permit_inputs(&inputs, identity);
            }
        }
        let verdict = rules.decide(identity, named.scheme, named.key, access);
        if verdict.allowed {
            return Ok(());
        }
        Err(Refusal {
            problem: NameProblem::NotAllowed,
            message: format!("{identity} may not {access} this PV: {}", verdict.because),
        })
    }

    /// Whether `identity` may read all inputs of a PV.
    fn permit_inputs(&self, inputs: &[String], identity: &Identity) -> Result<(), Refusal> {
        inputs.iter().try_for_each(|input| {
            let permitted = self.permit(input, identity, Access::Read);
            permitted.map_err(|refusal| refusal.of_input(input))
        })
    }

    /// The current rules and the open PVs with their names. A PV with inputs is listed once for each input, with the
    /// input's name.
    pub fn to_judge(&self) -> (Arc<Rules>, Vec<(PvId, Arc<str>)>) {
        let (open, rules) = (self.lock(), self.rules());
        let mut named = Vec::with_capacity(open.slots.len());
        for (index, slot) in open.slots.iter().enumerate() {
            let Some(slot) = slot else { continue };
            let pv = PvId(index as u32);
            let mut names = Vec::new();
            open.names_to_judge(slot, &mut names);
            named.extend(names.into_iter().map(|name| (pv, name)));
        }
        drop(open);
        (rules, named)
    }

    /// The PVs of the list that `identity` may not read by these rules.
    pub fn unreadable(rules: &Rules, pvs: &[(PvId, Arc<str>)], identity: &Identity) -> Vec<PvId> {
        let denied = pvs.iter().filter(|(_, name)| {
            let (scheme, bare) = name.split_once("://").unwrap_or_default();
            !rules.decide(identity, scheme, bare, Access::Read).allowed
        });
        denied.map(|(pv, _)| *pv).collect()
    }
}

impl Registry {
    /// Limits the rate of updates to all clients.
    #[must_use]
    pub fn with_rate_caps(self, rate_caps: RateCaps) -> Self {
        Self { rate_caps, ..self }
    }

    /// The filter and form that a subscription of a PV gets: what the client asks for, but no more updates than the
    /// PV's cap permits. `None` if all updates pass.
    pub(super) fn capped<'a>(
        &self,
        name: &str,
        (filter, form, caller): Narrowed<'a>,
    ) -> Option<Narrowed<'a>> {
        let cap_ms = self.cap_ms(name);
        let filter = Filter {
            min_interval_ms: filter.min_interval_ms.max(cap_ms),
            ..filter
        };
        let form = form.map(|form| {
            if form.array_interval_ms >= cap_ms {
                return form;
            }
            Arc::new(Form {
                array_interval_ms: cap_ms,
                ..(*form).clone()
            })
        });
        (form.is_some() || filter != Filter::ALL).then_some((filter, form, caller))
    }

    /// The cap of a PV. A PV that is computed from others has the slowest of their caps too.
    fn cap_ms(&self, name: &str) -> u32 {
        if self.rate_caps.is_empty() {
            return 0;
        }
        let Ok((scheme, bare, source)) = self.source_of(name) else {
            return 0;
        };
        let own = self.rate_caps.min_interval_ms(scheme, source.key(bare));
        let inputs = source.inputs(bare);
        let caps = inputs.iter().map(|input| self.cap_ms(input));
        caps.fold(own, u32::max)
    }
}
