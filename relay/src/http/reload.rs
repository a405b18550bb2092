//! Reloads access rules while the relay runs: clients lose what the new rules don't allow.
//!
//! The rules and `allow_put` of the configuration file, the pvlist and the access security file are
//! read again when they change, and at once on SIGHUP. All other settings take effect at the next
//! start.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;

use crate::access::rule::{RuleFiles, Rules, RulesError};
use crate::config::{Config, ConfigError, Invocation};
use crate::ops::file_reads::{FileReads, NO_ANSWER};
use crate::ops::metrics::Metrics;
use crate::ops::rhythm;
use crate::queries::plain_clients::PlainClients;
use crate::session::shard::ShardHandle;
use crate::state::registry::Registry;

/// Interval between reads of the files. With `SETTLES` it makes a change take effect within a second.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// A change that was found takes effect if the files are the same after this time.
const SETTLES: Duration = Duration::from_millis(200);

/// The result of one read of all files.
#[derive(PartialEq, Eq)]
struct Found {
    config: Result<Config, ConfigError>,
    /// The files that it names. The rules are made of these very bytes: the files may change again.
    files: RuleFiles,
}

/// Why the previous rules stay in effect.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// The configuration can't be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The rules can't be used.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// A file is damaged.
    #[error("{path}: {damage}")]
    Damaged {
        /// The file.
        path: String,
        /// How.
        damage: Damage,
    },
    /// The configuration lost all its rules, or the name of a file with rules.
    #[error("the configuration no longer has {0}: if that is intended, restart the relay")]
    Lost(String),
}

/// Damage of a file that is read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Damage {
    /// Its content is gone.
    #[error(
        "it is empty, which it wasn't before: write it again, or restart the relay if that is intended"
    )]
    Emptied,
    /// Its last line has no end of line, though it had one before.
    #[error(
        "it may be cut off, because its last line has no end of line: write it again, with an end of line"
    )]
    CutOff,
}

/// The rules in effect, and where they are applied.
pub struct Reload {
    /// The configuration at the start.
    started: Config,
    /// The configuration whose rules are in effect.
    in_effect: Config,
    /// Its pvlist and access security file.
    files_in_effect: RuleFiles,
    registry: Arc<Registry>,
    shards: Vec<ShardHandle>,
    plain_clients: Arc<PlainClients>,
    metrics: Arc<Metrics>,
    /// The last change can't take effect.
    is_stale: bool,
}

impl Reload {
    /// Begins with the rules of a configuration in effect.
    #[must_use]
    pub fn new(
        started: Config,
        registry: Arc<Registry>,
        shards: Vec<ShardHandle>,
        plain_clients: Arc<PlainClients>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            in_effect: started.clone(),
            files_in_effect: RuleFiles::read(&started),
            started,
            registry,
            shards,
            plain_clients,
            metrics,
            is_stale: false,
        }
    }

    /// Reads the files for ever; `read` reads the configuration as at the start. A change takes
    /// effect on SIGHUP, or when two reads in a row find it, because several files are never written
    /// at the same moment.
    pub async fn keep_fresh(
        mut self,
        read: impl Fn() -> Result<Invocation, ConfigError> + Send + Sync + 'static,
        mut hangup: Signal,
    ) {
        let (read, started) = (Arc::new(read), self.started.clone());
        let mut looks = FileReads::default();
        // Not read again here: a change between the start and this moment would count as in effect.
        let mut in_effect = Found {
            config: Ok(self.in_effect.clone()),
            files: self.files_in_effect.clone(),
        };
        let mut before = None;
        loop {
            let is_change = before.as_ref().is_some_and(|found| *found != in_effect);
            let pause = async {
                if is_change {
                    tokio::time::sleep(SETTLES).await;
                } else if has_files(&self.started) {
                    rhythm::next(LOOK_EVERY).await;
                } else {
                    pending().await
                }
            };
            let asked = tokio::select! {
                () = pause => false,
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

    /// The disk of the files hangs.
    fn hangs(&self) {
        if self.metrics.rules_stale.set(1) == 0 {
            log::error!(
                "the configuration file, pvlist or access security file can't be read: {NO_ANSWER}; the \
                 previous rules stay in effect"
            );
        }
    }

    fn set_stale(&mut self, is_stale: bool) {
        self.is_stale = is_stale;
        self.metrics.rules_stale.set(i64::from(is_stale));
    }

    /// Refuses a pvlist or an access security file that was emptied or cut off.
    fn refuse_damage(&self, config: &Config, found: &RuleFiles) -> Result<(), ReloadError> {
        let paths = |config: &Config| [config.pvlist.clone(), config.access_security.clone()];
        let before = paths(&self.in_effect)
            .into_iter()
            .zip(self.files_in_effect.contents());
        let after = paths(config).into_iter().zip(found.contents());
        for ((was, before), (path, after)) in before.zip(after) {
            if let (true, Ok(before), Ok(after)) = (was == path, before, after) {
                refuse_damaged(before, after)
                    .map_err(|damage| ReloadError::Damaged { path, damage })?;
            }
        }
        Ok(())
    }

    /// Puts a change into effect, or logs why it can't take effect.
    async fn apply(&mut self, found: &Found) {
        let config = found.config.clone().map_err(ReloadError::from);
        let checked = config.and_then(|config| {
            let differing = self.started.differing(&config);
            if !differing.is_empty() {
                let keys = differing.join(", ");
                log::warn!("changed, but takes effect only at the next start: {keys}");
            }
            // `enable_put` takes effect at the next start, too.
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
            Ok(config) => rules(config, found.files.clone()).await,
            Err(error) => Err(error),
        };
        self.set_stale(rules.is_err());
        match rules {
            Ok((rules, config)) => {
                self.in_effect = config;
                self.files_in_effect = found.files.clone();
                self.registry.set_rules(rules);
                self.shards.iter().for_each(ShardHandle::recheck);
                self.plain_clients.recheck();
                self.metrics.rules_changed.inc();
                log::info!("new rules are in effect");
            }
            Err(error) => log::error!("{error}; the previous rules stay in effect"),
        }
    }
}

/// Whether anything can change: flags and environment stay as they are.
fn has_files(config: &Config) -> bool {
    let files = [&config.config_file, &config.pvlist, &config.access_security];
    files.iter().any(|path| !path.is_empty())
}

fn look(started: &Config, read: &impl Fn() -> Result<Invocation, ConfigError>) -> Found {
    let config = match read() {
        Ok(Invocation::Run(config)) => Ok(*config),
        Ok(_) => Ok(started.clone()),
        Err(error) => Err(error),
    };
    let of = config.as_ref().unwrap_or(started);
    let files = RuleFiles::read(of);
    Found { config, files }
}

/// The rules of a configuration and the content of its files. They are parsed beside the thread that serves HTTP.
async fn rules(config: Config, files: RuleFiles) -> Result<(Rules, Config), ReloadError> {
    let parse = move || Rules::parse(&config, &files).map(|rules| (rules, config));
    let parsed = spawn_blocking(parse).await;
    Ok(parsed.expect("rules are parsed without a panic")?)
}

/// Refuses a file that was emptied or cut off since the last read: the missing lines may be those
/// that deny access.
///
/// # Errors
/// When it is empty, or its last line has no end of line any more.
pub fn refuse_damaged(before: &[u8], after: &[u8]) -> Result<(), Damage> {
    let is_empty = |text: &[u8]| text.iter().all(u8::is_ascii_whitespace);
    if is_empty(after) && !is_empty(before) {
        return Err(Damage::Emptied);
    }
    if before.ends_with(b"\n") && !after.ends_with(b"\n") {
        return Err(Damage::CutOff);
    }
    Ok(())
}

/// Refuses a configuration that lost its pvlist, its access security file or all its `[[rule]]`
/// tables: without them all PVs can be read.
fn refuse_loss(before: &Config, after: &Config) -> Result<(), ReloadError> {
    let is_lost = |before: bool, after: bool| before && !after;
    let lost = [
        (
            "pvlist",
            is_lost(!before.pvlist.is_empty(), !after.pvlist.is_empty()),
        ),
        (
            "access_security",
            is_lost(
                !before.access_security.is_empty(),
                !after.access_security.is_empty(),
            ),
        ),
        (
            "[[rule]]",
            is_lost(!before.rules.is_empty(), !after.rules.is_empty()),
        ),
    ];
    let lost: Vec<_> = lost
        .into_iter()
        .filter_map(|(key, is_lost)| is_lost.then_some(key))
        .collect();
    if lost.is_empty() {
        return Ok(());
    }
    Err(ReloadError::Lost(lost.join(" and ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::rule::Identity;
    use crate::config::Access;
    use crate::ingest::{Intake, Line, Monitor, OpenError, Queue, Source};
    use crate::limits::connections::Users;

    /// A source of which no PV is opened.
    struct Unopened;

    impl Source for Unopened {
        fn scheme(&self) -> &'static str {
            "ca"
        }

        fn open(&self, name: &str, _: Line, _: Queue) -> Result<Box<dyn Monitor>, OpenError> {
            panic!("{name} is opened")
        }
    }

    #[tokio::test]
    async fn file_that_is_cut_after_it_was_read_takes_no_effect() {
        let path = std::env::temp_dir().join(format!("pvwire-reload-{}", std::process::id()));
        let write = |text: &str| std::fs::write(&path, text).unwrap();
        write(".* ALLOW\n");
        let config = Config {
            pvlist: path.to_str().unwrap().to_owned(),
            ..Config::default()
        };
        let rules = Rules::read(&config).unwrap();
        let sources: Vec<Box<dyn Source>> = vec![Box::new(Unopened)];
        let registry = Registry::new(Intake::new(), sources, "ca", Duration::ZERO, rules);
        let registry = Arc::new(registry);
        let metrics = Arc::new(Metrics::default());
        let plain_clients = PlainClients::new(Arc::clone(&metrics), Users::new(1), None);
        let mut reload = Reload::new(
            config.clone(),
            Arc::clone(&registry),
            Vec::new(),
            plain_clients,
            metrics,
        );
        write(".* ALLOW\nSECRET DENY\n");
        let read = || Ok(Invocation::Run(Box::new(config.clone())));
        let found = look(&config, &read);
        // An editor that writes it again has written half of it.
        write(".* ALLOW\n");
        reload.apply(&found).await;
        let may_read = |name: &str| {
            let permitted = registry.permit(name, &Identity::default(), Access::Read);
            permitted.is_ok()
        };
        assert!(may_read("ca://OPEN"));
        assert!(!may_read("ca://SECRET"), "the rules of the whole file");
        std::fs::remove_file(&path).unwrap();
    }
}
