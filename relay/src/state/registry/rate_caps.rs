//! Applies the caps of `max_rate` to subscriptions, as a minimum interval of their filters.

use std::sync::Arc;

use pvwire_schema::types::Filter;

use super::Registry;
use super::acquire::Narrowed;
use crate::access::rule::RateCaps;
use crate::ingest::Form;

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
