//! Guarded puts (compare-and-set), compared with the IOC's journal: each that was done follows the value that it expected.

use std::collections::HashMap;

use super::writers::End;

/// What the journal contains where an IOC has started. The record is empty then.
pub(super) const START: &str = "start";

/// A guarded put: how it ended, and the value that it expected.
#[derive(Clone, Debug)]
pub(super) struct Guarded {
    pub(super) end: Option<End>,
    pub(super) expected: String,
}

/// Every put that was done although the record had another value than the put expected. `written` is what was written to
/// the record, in order. Between a put and the value that it expected there may be puts whose outcome isn't known: the IOC
/// may have taken them before a relay that came later could see them.
pub(super) fn overtaken(puts: &HashMap<String, Guarded>, written: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for (at, value) in written.iter().enumerate() {
        let Some(put) = puts.get(value) else {
            continue;
        };
        if !put.end.is_some_and(End::is_done) {
            continue;
        }
        let before = written[..at].iter().rev();
        let unknown = |value: &&String| {
            puts.get(*value).is_some_and(|put| {
                put.end
                    .is_none_or(|end| !end.is_done() && !end.is_refusal())
            })
        };
        let is_expected = |value: &String| match put.expected.as_str() {
            "" => value == START,
            expected => value == expected,
        };
        let mut blocking = before.skip_while(|value| !is_expected(value) && unknown(value));
        if !blocking.next().is_some_and(is_expected) {
            let from = at.saturating_sub(4);
            found.push(format!(
                "{value} was done and expected {:?}, after {:?}",
                put.expected,
                &written[from..at]
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use pvwire_schema::types::Outcome;

    use super::*;

    fn found(puts: &[(&str, Option<End>, &str)], written: &[&str]) -> usize {
        let put = |(value, end, expected): &(&str, Option<End>, &str)| {
            let expected = (*expected).to_owned();
            (
                (*value).to_owned(),
                Guarded {
                    end: *end,
                    expected,
                },
            )
        };
        let written: Vec<String> = written.iter().map(|value| (*value).to_owned()).collect();
        overtaken(&puts.iter().map(put).collect(), &written).len()
    }

    #[test]
    fn put_that_follows_the_value_that_it_expected_is_true() {
        let done = Some(End::Answered(Outcome::Done));
        let lost = Some(End::Lost);
        let one = ("g0 1", done, "");
        assert_eq!(found(&[one], &["start", "g0 1"]), 0);
        let two = ("g1 1", done, "g0 1");
        assert_eq!(found(&[one, two], &["start", "g0 1", "g1 1"]), 0);
        let between = [("g0 2", lost, "g0 1"), ("g0 3", None, "g0 1")];
        let all = [one, two, between[0], between[1]];
        let written = ["start", "g0 1", "g0 2", "g0 3", "g1 1"];
        assert_eq!(found(&all, &written), 0, "their outcome isn't known");
    }

    #[test]
    fn put_that_overwrites_what_it_did_not_expect_is_found() {
        let done = Some(End::Answered(Outcome::Done));
        let (one, two) = (("g0 1", done, ""), ("g1 1", done, ""));
        assert_eq!(found(&[one, two], &["start", "g0 1", "g1 1"]), 1);
        let three = ("g0 2", done, "g0 1");
        assert_eq!(found(&[one, three], &["start", "g0 1", "start", "g0 2"]), 1);
        let refused = ("g1 1", Some(End::Answered(Outcome::Changed)), "");
        assert_eq!(
            found(&[one, refused, three], &["start", "g0 1", "g1 1", "g0 2"]),
            1
        );
    }
}
