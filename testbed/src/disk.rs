//! A disk for one file or folder of a relay, which hangs or is full when a test wants it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What the relay's calls of the system go through.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/disk.c");

/// The disk of one file or folder.
pub struct Disk(PathBuf);

impl Disk {
    /// A disk that works. The path must be absolute and without links.
    pub fn of(file: &Path) -> Self {
        Self(file.to_owned())
    }

    /// Lets a relay, which is not started yet, use the disk.
    pub fn give_to(&self, relay: &mut Command) {
        relay.env("LD_PRELOAD", library());
        relay.env("TEST_DISK", &self.0);
    }

    fn flag(&self, ending: &str) -> PathBuf {
        let mut path = self.0.clone().into_os_string();
        path.push(ending);
        path.into()
    }

    /// From now on it doesn't answer.
    pub fn hang(&self) {
        File::create(self.flag(".hangs")).unwrap();
    }

    /// From now on nothing more can be written.
    pub fn fill(&self) {
        File::create(self.flag(".full")).unwrap();
    }

    /// It works again.
    pub fn mend(&self) {
        for ending in [".hangs", ".full"] {
            let _ = fs::remove_file(self.flag(ending));
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.mend();
    }
}

/// The compiled source.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        // Each test program has its own.
        let library = super::in_tmp(&format!("disk-{}.so", std::process::id()));
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let mut compile = Command::new(compiler);
        compile.args([
            "-O1", "-Wall", "-Werror", "-shared", "-fPIC", SOURCE, "-ldl", "-o",
        ]);
        assert!(compile.arg(&library).status().unwrap().success());
        library
    })
}
