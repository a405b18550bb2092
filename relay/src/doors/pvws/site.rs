//! The files that browsers load from `/pvws/`, and what `/pvws/info` reports.
//!
//! Pages of PVWS's clients load `js/pvws.js` and `js/base64.js` from the server's host, and health checks search
//! the index page for `img/connected.png`.

use pvwire_pvws::{Dialect, Target, target};
pub use pvwire_pvws::{SocketSeen, pool, sockets, summary};

use super::texts::{sample, value};
use crate::config::Config;
use crate::ingest::RowValue;
use crate::ops::latency::wall_ns;
use crate::state::batch::PvValue;

/// A file.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its content type.
    pub content_type: &'static str,
    /// Its content.
    pub content: &'static [u8],
}

/// The index page.
pub const INDEX: &str = include_str!("site/index.html");

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/png";

/// The file at a path relative to `/pvws/`.
#[must_use]
pub fn file(path: &str) -> Option<File> {
    let (content_type, content): (_, &[u8]) = match path {
        "" | "index.html" => (HTML, INDEX.as_bytes()),
        "css/page.css" => (CSS, include_bytes!("site/page.css")),
        "js/base64.js" => (SCRIPT, include_bytes!("site/base64.js")),
        "js/page.js" => (SCRIPT, include_bytes!("site/page.js")),
        "js/pvws.js" => (SCRIPT, include_bytes!("site/pvws.js")),
        "img/connected.png" => (PICTURE, include_bytes!("site/connected.png")),
        "img/disconnected.png" => (PICTURE, include_bytes!("site/disconnected.png")),
        _ => return None,
    };
    Some(File {
        content_type,
        content,
    })
}

/// The index page for an unknown path relative to `/pvws/`, with links that lead to the files.
#[must_use]
pub fn index_below(path: &str) -> String {
    let up = "../".repeat(path.matches('/').count());
    INDEX.replacen("<head>", &format!("<head>\n<base href=\"./{up}\">"), 1)
}

/// What the HTTP routes report about the relay.
#[derive(Clone, Debug)]
pub struct Site {
    default: Dialect,
    started_ns: i64,
    settings: [(&'static str, String); 4],
}

impl Site {
    /// The routes of a relay that starts now.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        let millis = |interval: std::time::Duration| interval.as_millis().to_string();
        Self {
            default: Dialect::of(&config.pvws_default_type).unwrap_or(Dialect::Ca),
            started_ns: wall_ns(),
            settings: [
                ("PV_DEFAULT_TYPE", config.pvws_default_type.clone()),
                ("PV_THROTTLE_MS", millis(config.pvws_throttle)),
                ("PV_ARRAY_THROTTLE_MS", millis(config.pvws_array_throttle)),
                ("PV_WRITE_SUPPORT", config.pvws_write.to_string()),
            ],
        }
    }

    /// The answer of `/pvws/info`. With `settings` it lists the relay's settings that PVWS has as environment
    /// variables, and nothing of the relay's environment.
    #[must_use]
    pub fn info(&self, settings: bool) -> Vec<u8> {
        let program = concat!("pvwire-relay ", env!("CARGO_PKG_VERSION"));
        let settings = settings.then_some(&self.settings[..]);
        pvwire_pvws::info(self.started_ns, program, settings)
    }

    /// The PV that a client means by this name; `None` for names that this door doesn't serve.
    #[must_use]
    pub fn target(&self, asked: &str) -> Option<Target> {
        target(asked, self.default)
    }
}

/// Number of elements of a value if it is an array.
#[must_use]
pub fn elements(row: &RowValue) -> Option<usize> {
    pvwire_pvws::elements(value(row))
}

/// A value in a few characters.
#[must_use]
pub fn brief(row: Option<&RowValue>) -> String {
    pvwire_pvws::brief(row.map(value))
}

/// The answer of `/pvws/pvget`: the value of a PV with its metadata.
#[must_use]
pub fn got(asked: &str, dialect: Dialect, seen: &PvValue) -> Vec<u8> {
    pvwire_pvws::got(
        asked,
        dialect,
        &seen.metadata,
        &sample(&seen.latest, dialect, wall_ns()),
        seen.connection.heard_ns == 0,
    )
}
