//! Names under random rules, and how long a search in many names takes.

use std::sync::mpsc::channel;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config as Cases, TestRunner};

use super::*;
use crate::access::auth::Peer;
use crate::access::caller::Caller;
use crate::access::rule::Rules;
use crate::compute::cpu_time;
use crate::config::RuleText;
use crate::ingest::directory::NameList;
use crate::ingest::{Intake, Line, Monitor, OpenError, Queue, Source};
use crate::limits::connections::SharedBudgets;
use crate::limits::memory::Owner;

/// A source that opens nothing.
struct Closed(&'static str);

impl Source for Closed {
    fn scheme(&self) -> &'static str {
        self.0
    }
    fn open(&self, _: &str, _: Line, _: Queue) -> Result<Box<dyn Monitor>, OpenError> {
        Err(OpenError::name("nothing is opened here"))
    }
}

struct Listed(Vec<Arc<NameList>>);

impl Directory for Listed {
    fn origin(&self) -> Origin {
        Origin::Server
    }
    fn lists(&self) -> Vec<Arc<NameList>> {
        self.0.clone()
    }
}

fn names(rules: Rules, lists: Vec<Arc<NameList>>) -> Arc<Names> {
    let sources: Vec<Box<dyn Source>> = vec![Box::new(Closed("ca")), Box::new(Closed("pva"))];
    let registry = Registry::new(Intake::new(), sources, "ca", Duration::ZERO, rules);
    Names::new(Arc::new(registry), vec![Arc::new(Listed(lists))])
}

/// All names of an answer, without their protocols if that is `ca`, and its `next`.
fn all(mut search: Search) -> (Vec<String>, Option<String>) {
    let mut found = Vec::new();
    loop {
        let part = search.step();
        found.extend(part.names.into_iter().map(|name| name.name));
        match part.then {
            Then::Search(rest) => search = rest,
            Then::More(next) => return (found, Some(next)),
            Then::End => return (found, None),
        }
    }
}

#[test]
fn nobody_is_offered_a_name_that_the_rules_hide_whatever_the_rules_are() {
    let known = [
        "SR:1:I",
        "SR:1:V",
        "SR:2:I",
        "SR:SECRET",
        "BR:1:I",
        "BR:1:I.DESC",
        "BR:SECRET",
        "A",
        "a",
    ];
    let lists = vec![
        Arc::new(NameList::new("ca", known)),
        Arc::new(NameList::new("pva", known)),
        Arc::new(NameList::new("psim", known)),
    ];
    let text = |list: &[&'static str]| prop::sample::select(list.to_vec());
    let pattern = text(&[
        "*",
        "SR:*",
        "ca://SR:*",
        "pva://*",
        "*SECRET*",
        "?R:1:*",
        "A",
        "*.DESC",
        "BR:1:I",
        "pva://SR:1:I",
        "*:I",
    ]);
    let rule = (
        pattern,
        any::<bool>(),
        prop::option::of(text(&["jane", "joe", "*"])),
        any::<bool>(),
    );
    let rule = rule.prop_map(|(pattern, allows, user, by_group)| RuleText {
        origin: "a rule".into(),
        pvs: vec![pattern.to_owned()],
        users: user.map(str::to_owned).into_iter().collect(),
        groups: by_group
            .then(|| "operators".to_owned())
            .into_iter()
            .collect(),
        allow: allows.then_some(Access::Read).into_iter().collect(),
        deny: (!allows).then_some(Access::Read).into_iter().collect(),
        ..RuleText::default()
    });
    let identity = (
        prop::option::of(text(&["jane", "joe", "mallory"])),
        any::<bool>(),
    );
    let identity = identity.prop_map(|(user, is_operator)| Identity {
        user: user.map(str::to_owned),
        groups: is_operator
            .then(|| "operators".to_owned())
            .into_iter()
            .collect(),
    });
    let case = (
        prop::collection::vec(rule, 0..6),
        identity,
        text(&["", "sr", "i", "*", "*:?", "secret", "x"]),
        1_usize..30,
    );
    let mut runner = TestRunner::new(Cases::with_cases(2_000));
    let offered = runner.run(&case, |(rules, identity, text, limit)| {
        let rules = Rules::new(false, &rules).unwrap();
        let names = names(rules.clone(), lists.clone());
        let identity = Arc::new(identity);
        let search = |limit, after| names.search(&identity, text, Some(limit), after).unwrap();
        let pattern = Pattern::new(text);
        let may_read = |scheme: &str, name: &str| {
            let allowed = rules.decide(&identity, scheme, name, Access::Read).allowed;
            allowed && pattern.matches(&name.to_ascii_lowercase()).is_some()
        };
        let mut expected: Vec<_> = known
            .iter()
            .flat_map(|name| {
                let ca = may_read("ca", name).then(|| (*name).to_owned());
                ca.into_iter()
                    .chain(may_read("pva", name).then(|| format!("pva://{name}")))
            })
            .collect();
        expected.sort();
        let (mut found, next) = all(search(1_000, None));
        prop_assert_eq!(next, None);
        // In pages the same names come in the same order, and a page tells of no further ones unless there are some.
        let (mut after, mut by_pages) = (None, Vec::new());
        loop {
            let (page, next) = all(search(limit, after));
            prop_assert!(page.len() <= limit);
            prop_assert!(next.is_none() || !page.is_empty());
            by_pages.extend(page);
            after = next;
            if after.is_none() {
                break;
            }
        }
        prop_assert_eq!(&by_pages, &found);
        found.sort();
        prop_assert_eq!(found, expected);
        Ok(())
    });
    offered.unwrap();
}

#[test]
fn question_that_the_service_does_not_understand_is_refused_with_what_it_expects() {
    let service = NameService(names(Rules::default(), Vec::new()));
    let ask = |body: &str| {
        let question = Question {
            caller: Caller::new(
                Peer::default(),
                Owner::unlimited(),
                SharedBudgets::default(),
            ),
            service: "names".to_owned(),
            body: body.as_bytes().to_vec(),
        };
        let (sender, receiver) = channel();
        service.answer(
            &question,
            Reply::new(move |page| sender.send(page).unwrap()),
        );
        let page = receiver.recv().unwrap();
        page.map(|page| String::from_utf8(page.content).unwrap())
    };
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(513));
    for (body, expected) in [
        ("", "not a JSON object"),
        ("{\"text\":1}", "not a JSON object"),
        ("{\"tags\":[]}", "unknown field `tags`"),
        ("{\"limit\":0}", "limit is 0: expected 1 to 1000"),
        ("{\"limit\":1001}", "limit is 1001: expected 1 to 1000"),
        ("{\"after\":\"x\"}", "not the \"next\" of an earlier answer"),
        (&long, "text has 513 bytes: expected at most 512"),
    ] {
        let problem = ask(body).unwrap_err();
        assert_eq!(problem.outcome, Outcome::BadValue);
        assert!(problem.message.contains(expected), "{body}: {problem}");
    }
    assert_eq!(ask("{}").unwrap(), r#"{"names":[]}"#);
}

/// 100,000 names of a facility.
fn many() -> Vec<Arc<NameList>> {
    let name = |n: usize| {
        let (kind, signal) = (
            ["BPM", "PS", "VAC", "RF"][n % 4],
            ["X", "Y", "I", "TEMP", "STAT"][n % 5],
        );
        format!("SR{:02}:{kind}:{:04}:{signal}-{n:06}", n % 24, n / 20)
    };
    let half = |from: usize| Arc::new(NameList::new("pva", (from..from + 50_000).map(name)));
    vec![half(0), half(50_000)]
}

/// Run with `--release` to measure: p99 is at most 30 ms. Without optimisation it may take ten times as long.
#[test]
fn twenty_of_100_000_names_are_found_in_time() {
    let names = names(Rules::default(), many());
    let identity = Arc::default();
    let texts = [
        "",
        "s",
        "sr",
        "temp",
        "bpm:00",
        "SR07:*:X-*",
        "*-012345",
        "nothing",
        "*",
    ];
    let mut times = Vec::new();
    for text in texts.iter().cycle().take(180) {
        let begun = cpu_time();
        let search = names.search(&identity, text, Some(20), None).unwrap();
        let (found, next) = all(search);
        times.push(cpu_time() - begun);
        assert!(
            found.len() <= 20 && (next.is_none() || found.len() == 20),
            "{text}"
        );
    }
    times.sort();
    let p99 = times[times.len() * 99 / 100];
    println!("p50 {:?}, p99 {p99:?}", times[times.len() / 2]);
    let most = if cfg!(debug_assertions) { 10 } else { 1 };
    // CPU time also depends on what else the machine does.
    assert!(p99 < 3 * most * Duration::from_millis(30), "{p99:?}");
}
