//! When do changed rules take effect, and what happens to those who may do less by them?
//!
//! What says who may do what is read again when it changes, and at once on SIGHUP: the file's rules and
//! `allow_put`, the pvlist and the access security file. Everything else waits for the next start.

use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::Signal;

use crate::access::rule::Rules;
use crate::config::{Asked, Config, ConfigError};
use crate::ops::file_reads::{FileReads, NO_ANSWER};
use crate::ops::metrics::Metrics;
use crate::session::shard::ShardHandle;
use crate::state::registry::Registry;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The pvlist and the access security file; `None` where one can't be read.
type Files = [Option<Vec<u8>>; 2];

/// What was found at one look.
#[derive(PartialEq, Eq)]
struct Found {
    config: Result<Config, String>,
    /// The files that it names; what can't be read `Rules::read` says then.
    files: Files,
}

/// The rules in effect, and whom they concern.
pub struct Reload {
    /// As the relay was started.
    started: Config,
    /// Whose rules are in effect.
    in_effect: Config,
    /// The texts of its pvlist and its access security file.
    files_in_effect: Files,
    registry: Arc<Registry>,
    shards: Vec<ShardHandle>,
    metrics: Arc<Metrics>,
    /// What was found last can't take effect.
    is_stale: bool,
}

impl Reload {
    /// The rules of a configuration are in effect.
    #[must_use]
    pub fn new(
        started: Config,
        registry: Arc<Registry>,
        shards: Vec<ShardHandle>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            in_effect: started.clone(),
            files_in_effect: files(&started),
            started,
            registry,
            shards,
            metrics,
            is_stale: false,
        }
    }

    /// Looks at the files for ever; `read` reads the configuration as at the start. A change counts when
    /// it is still there at the next look, because several files are never written at once, or on SIGHUP.
    pub async fn keep_fresh(
        mut self,
        read: impl Fn() -> Result<Asked, ConfigError> + Send + Sync + 'static,
        mut hangup: Signal,
    ) {
        let (read, started) = (Arc::new(read), self.started.clone());
        let mut looks = FileReads::default();
        let mut in_effect = look(&started, &*read);
        let mut before = None;
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep(LOOK_EVERY) => false,
                _ = hangup.recv() => true,
            };
            let (read, started) = (Arc::clone(&read), started.clone());
            let found = looks.read(move || look(&started, &*read)).await;
            let Some(found) = found else {
                self.hangs();
                continue;
            };
            self.set_stale(self.is_stale);
            let settled = before.as_ref() == Some(&found);
            if asked || (settled && found != in_effect) {
                self.apply(&found).await;
                in_effect = found;
                before = None;
            } else {
                before = Some(found);
            }
        }
    }

    /// The disk of the files does not answer: what they say now can't be known.
    fn hangs(&self) {
        if self.metrics.rules_stale.set(1) == 0 {
            log::error!(
                "the configuration file, pvlist or access security file can't be read: {NO_ANSWER}; the rules \
                 from before stay in effect"
            );
        }
    }

    fn set_stale(&mut self, is_stale: bool) {
        self.is_stale = is_stale;
        self.metrics.rules_stale.set(i64::from(is_stale));
    }

    /// Refuses a pvlist or an access security file that was emptied or cut off.
    fn refuse_damage(&self, config: &Config, found: &Files) -> Result<(), String> {
        let paths = |config: &Config| [config.pvlist.clone(), config.access_security.clone()];
        let before = paths(&self.in_effect)
            .into_iter()
            .zip(&self.files_in_effect);
        let after = paths(config).into_iter().zip(found);
        for ((was, before), (path, after)) in before.zip(after) {
            if let (true, Some(before), Some(after)) = (was == path, before, after) {
                refuse_damaged(before, after).map_err(|why| format!("{path}: {why}"))?;
            }
        }
        Ok(())
    }

    /// The rules of a configuration, however long its files' disk takes.
    async fn rules(&self, config: Config) -> Result<(Rules, Config), String> {
        let mut reads = FileReads::default();
        loop {
            let asked = config.clone();
            if let Some(rules) = reads.read(move || Rules::read(&asked)).await {
                return Ok((rules?, config));
            }
            self.hangs();
        }
    }

    /// Has what was found take effect, or says what is wrong with it.
    async fn apply(&mut self, found: &Found) {
        let checked = found.config.clone().and_then(|config| {
            let differing = self.started.differing(&config);
            if !differing.is_empty() {
                let keys = differing.join(", ");
                log::warn!("changed, and in effect after the next start only: {keys}");
            }
            // Whether puts are taken at all is no rule.
            let enable_put = self.started.enable_put;
            let config = Config {
                enable_put,
                ..config
            };
            refuse_loss(&self.in_effect, &config)?;
            self.refuse_damage(&config, &found.files)?;
            Ok(config)
        });
        let rules = match checked {
            Ok(config) => self.rules(config).await,
            Err(error) => Err(error),
        };
        self.set_stale(rules.is_err());
        match rules {
            Ok((rules, config)) => {
                self.in_effect = config;
                self.files_in_effect = found.files.clone();
                self.registry.set_rules(rules);
                self.shards.iter().for_each(ShardHandle::recheck);
                self.metrics.rules_changed.inc();
                log::info!("the rules were read again and are in effect");
            }
            Err(error) => log::error!("{error}; the rules from before stay in effect"),
        }
    }
}

fn look(started: &Config, read: &impl Fn() -> Result<Asked, ConfigError>) -> Found {
    let config = match read() {
        Ok(Asked::Run(config)) => Ok(*config),
        Ok(_) => Ok(started.clone()),
        Err(error) => Err(error.to_string()),
    };
    let of = config.as_ref().unwrap_or(started);
    let files = files(of);
    Found { config, files }
}

fn files(config: &Config) -> Files {
    [&config.pvlist, &config.access_security].map(|path| std::fs::read(path).ok())
}

/// Refuses a file that is read again and was damaged in between: it is empty, or its last line has no end
/// though it had one. A list that lost its last lines may open what they deny.
///
/// # Errors
/// What the operator has to do.
pub fn refuse_damaged(before: &[u8], after: &[u8]) -> Result<(), String> {
    let is_empty = |text: &[u8]| text.iter().all(u8::is_ascii_whitespace);
    if is_empty(after) && !is_empty(before) {
        return Err(
            "it is empty, which it wasn't: write it again, or restart the relay if that is meant"
                .into(),
        );
    }
    if before.ends_with(b"\n") && !after.ends_with(b"\n") {
        return Err(
            "it may be cut off, because its last line has no end of line: write it again, with an end \
             of line"
                .into(),
        );
    }
    Ok(())
}

/// Refuses what a file that was emptied or cut off would say: without a pvlist, an access security file or
/// any `[[rule]]` everything can be read.
fn refuse_loss(before: &Config, after: &Config) -> Result<(), String> {
    let lost = [
        (
            "pvlist",
            !before.pvlist.is_empty() && after.pvlist.is_empty(),
        ),
        (
            "access_security",
            !before.access_security.is_empty() && after.access_security.is_empty(),
        ),
        (
            "[[rule]]",
            !before.rules.is_empty() && after.rules.is_empty(),
        ),
    ];
    let lost: Vec<_> = lost
        .into_iter()
        .filter_map(|(key, is_lost)| is_lost.then_some(key))
        .collect();
    if lost.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the configuration has no {} any more, which it had: if that is meant, restart the relay",
        lost.join(" and no ")
    ))
}
