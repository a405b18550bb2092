//! The list of all files, which pages compare to find changed ones. It is read at most once a second, however many
//! clients ask for it.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;
use tokio::time::timeout;

use super::{Folder, checked, type_of, version_of};
use crate::ops::file_reads::{FileReads, PATIENCE};

/// How long a list is used.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Files in a list; facilities have some thousands.
const MAX_FILES: usize = 20_000;

/// Folders inside folders.
const MAX_DEPTH: usize = 20;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ListedFile {
    /// Prefix of its folder.
    pub prefix: String,
    /// Path below `/screens/`.
    pub path: String,
    /// Size.
    pub bytes: u64,
    /// When it was written, in milliseconds past the POSIX epoch.
    pub modified_ms: i64,
    /// Differs after each change.
    pub version: String,
}

type Files = Arc<[ListedFile]>;

/// The last list.
#[derive(Default)]
pub(super) struct List(Mutex<LastList>);

#[derive(Default)]
struct LastList {
    reads: FileReads<Files>,
    last: Option<(Instant, Files)>,
}

impl List {
    /// All files; `None` while the disk hangs.
    pub(super) async fn get(&self, folders: &Arc<[Folder]>) -> Option<Files> {
        let mut list = timeout(PATIENCE, self.0.lock()).await.ok()?;
        if let Some((read, files)) = &list.last
            && read.elapsed() < FRESH_FOR
        {
            return Some(Arc::clone(files));
        }
        let folders = Arc::clone(folders);
        let files = list.reads.read(move || all_files(&folders)).await?;
        list.last = Some((Instant::now(), Arc::clone(&files)));
        Some(files)
    }
}

fn all_files(folders: &[Folder]) -> Files {
    let mut files = Vec::new();
    for folder in folders {
        let Ok(root) = fs::canonicalize(&folder.path) else {
            continue;
        };
        let path = match folder.prefix.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let mut walk = Walk {
            folder,
            root: &root,
            seen: HashSet::new(),
            files: &mut files,
        };
        walk.enter(&root, &path, 0);
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    files.into()
}

/// One walk through a folder.
struct Walk<'a> {
    folder: &'a Folder,
    root: &'a Path,
    /// Device and inode of each folder, because links may lead in circles.
    seen: HashSet<(u64, u64)>,
    files: &'a mut Vec<ListedFile>,
}

impl Walk<'_> {
    fn enter(&mut self, folder: &Path, path: &str, depth: usize) {
        let Ok(metadata) = fs::metadata(folder) else {
            return;
        };
        if depth > MAX_DEPTH || !self.seen.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if self.files.len() >= MAX_FILES {
                return;
            }
            let name = entry.file_name();
            let Some(name) = name.to_str().filter(|name| checked(name).is_some()) else {
                continue;
            };
            let found = entry.path();
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            // A link may lead out of the folder.
            if is_link && !fs::canonicalize(&found).is_ok_and(|real| real.starts_with(self.root)) {
                continue;
            }
            let Ok(metadata) = fs::metadata(&found) else {
                continue;
            };
            let path = format!("{path}{name}");
            if metadata.is_dir() {
                self.enter(&found, &format!("{path}/"), depth + 1);
            } else if metadata.is_file() && type_of(name).is_some() {
                self.files.push(ListedFile {
                    prefix: self.folder.prefix.clone(),
                    path,
                    bytes: metadata.len(),
                    modified_ms: metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000,
                    version: version_of(&metadata),
                });
            }
        }
    }
}
