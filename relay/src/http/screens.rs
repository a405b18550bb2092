//! The facility's displays: folders whose files clients read, and no file outside of them.

mod list;

use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use self::list::List;
pub use self::list::ListedFile;
use crate::access::rule::Identity;
use crate::config::{Config, ScreenAccess};
use crate::ops::file_reads::{PATIENCE, open_if_regular};

/// Path of all folders.
pub const PATH: &str = "/screens/";

/// Largest file; displays in use have up to 6 MB.
const MAX_FILE_BYTES: u64 = 32 << 20;

/// Longest path below a folder.
const MAX_PATH_BYTES: usize = 1024;

/// Files that are open at a time, from their opening to the end of their read: a disk that hangs must not take all
/// threads, and waiting requests no file descriptors.
const MAX_OPEN: usize = 16;

/// Content types by the ends of names. Files of other types are not served, among them pages and scripts.
const TYPES: [(&str, &str); 16] = [
    ("bcf", "text/plain; charset=utf-8"),
    ("bmp", "image/bmp"),
    ("bob", "text/xml; charset=utf-8"),
    ("csv", "text/csv; charset=utf-8"),
    ("def", "text/plain; charset=utf-8"),
    ("gif", "image/gif"),
    ("ico", "image/x-icon"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("md", "text/plain; charset=utf-8"),
    ("opi", "text/xml; charset=utf-8"),
    ("plt", "text/xml; charset=utf-8"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("txt", "text/plain; charset=utf-8"),
    ("webp", "image/webp"),
];

/// Why a file isn't served.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScreenError {
    /// No file has this path, or it is outside the folder, hidden or of another type.
    #[error("no such file of a display")]
    NotFound,
    /// The client may not read this folder.
    #[error("you may not read these displays (screens_access)")]
    NotAllowed,
    /// It is larger than any display.
    #[error("the file has more than {} MiB", MAX_FILE_BYTES >> 20)]
    TooLarge,
    /// The disk is slow, or too many clients read.
    #[error("the disk of the displays doesn't answer in time: try again later")]
    Busy,
}

/// All folders.
pub struct Screens {
    folders: Arc<[Folder]>,
    open: Arc<Semaphore>,
    list: List,
}

/// One folder.
struct Folder {
    prefix: String,
    path: PathBuf,
    /// Who may read it; `None`: every client.
    readers: Option<Vec<String>>,
}

/// The files of all folders.
pub struct Listing {
    files: Arc<[ListedFile]>,
    folders: Arc<[Folder]>,
}

/// An open file, not read yet.
pub struct OpenFile {
    file: File,
    permit: OwnedSemaphorePermit,
    /// Its size.
    pub bytes: u64,
    /// Differs after each change.
    pub version: String,
    /// Its content type.
    pub content_type: &'static str,
}

impl Screens {
    /// The folders of a configuration; `None` without any.
    ///
    /// # Errors
    /// When one isn't a folder; the text names it.
    pub fn open(config: &Config) -> Result<Option<Self>, String> {
        if config.screens.is_empty() {
            return Ok(None);
        }
        let folder = |folder: &crate::config::ScreenFolder| {
            let path = PathBuf::from(&folder.path);
            fs::read_dir(&path).map_err(|error| format!("screens: {}: {error}", folder.path))?;
            let of = |access: &&ScreenAccess| access.prefix == folder.prefix;
            let mut rules = config.screens_access.iter().filter(of).peekable();
            let readers = rules
                .peek()
                .is_some()
                .then(|| rules.flat_map(|access| access.readers.clone()).collect());
            let prefix = folder.prefix.clone();
            Ok(Folder {
                prefix,
                path,
                readers,
            })
        };
        let folders = config
            .screens
            .iter()
            .map(folder)
            .collect::<Result<Arc<[_]>, String>>()?;
        check_nested(&folders)?;
        Ok(Some(Self {
            folders,
            open: Arc::new(Semaphore::new(MAX_OPEN)),
            list: List::default(),
        }))
    }

    /// Opens a file by its decoded path below `/screens/`.
    ///
    /// # Errors
    /// When there is no such file for this client.
    pub async fn open_file(&self, path: &str, reader: &Identity) -> Result<OpenFile, ScreenError> {
        let (folder, rest) = folder_of(&self.folders, path).ok_or(ScreenError::NotFound)?;
        if !folder.is_for(reader) {
            return Err(ScreenError::NotAllowed);
        }
        let content_type = type_of(rest).ok_or(ScreenError::NotFound)?;
        let relative = checked(rest).ok_or(ScreenError::NotFound)?;
        let root = folder.path.clone();
        let permit = timeout(PATIENCE, Arc::clone(&self.open).acquire_owned()).await;
        let permit = permit.ok().and_then(Result::ok).ok_or(ScreenError::Busy)?;
        let opened = in_time(permit, move || open_below(&root, &relative)).await?;
        let ((file, metadata), permit) = opened.map_err(|error| {
            log::debug!("screens: {path:?}: {error}");
            ScreenError::NotFound
        })?;
        if metadata.len() > MAX_FILE_BYTES {
            return Err(ScreenError::TooLarge);
        }
        Ok(OpenFile {
            file,
            permit,
            bytes: metadata.len(),
            version: version_of(&metadata),
            content_type,
        })
    }

    /// The content of a file, of at most the size that it had when it was opened.
    ///
    /// # Errors
    /// When the disk doesn't give it.
    pub async fn read(&self, opened: OpenFile) -> Result<Vec<u8>, ScreenError> {
        let OpenFile {
            bytes,
            file,
            permit,
            ..
        } = opened;
        let read = move || {
            let mut content = Vec::with_capacity(bytes as usize);
            file.take(bytes).read_to_end(&mut content).map(|_| content)
        };
        let read = in_time(permit, read).await?;
        read.map(|(content, _)| content)
            .map_err(|_| ScreenError::Busy)
    }

    /// The files, at most a second old.
    ///
    /// # Errors
    /// When the disk doesn't answer in time.
    pub async fn list(&self) -> Result<Listing, ScreenError> {
        let files = self.list.get(&self.folders).await;
        Ok(Listing {
            files: files.ok_or(ScreenError::Busy)?,
            folders: Arc::clone(&self.folders),
        })
    }
}

impl Listing {
    /// Number of files.
    #[must_use]
    pub fn count(&self) -> usize {
        self.files.len()
    }

    /// Those that a client may read.
    pub fn readable(&self, reader: &Identity) -> impl Iterator<Item = &ListedFile> {
        // A prefix hides a folder of the same name in the folder without a prefix.
        self.files.iter().filter(|file| {
            let found = folder_of(&self.folders, &file.path);
            found.is_some_and(|(folder, _)| folder.prefix == file.prefix && folder.is_for(reader))
        })
    }
}

/// The folder of a path below `/screens/`, and the rest of the path.
fn folder_of<'a, 'b>(folders: &'a [Folder], path: &'b str) -> Option<(&'a Folder, &'b str)> {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    let named = folders.iter().find(|folder| folder.prefix == first);
    match named.filter(|_| !first.is_empty()) {
        Some(folder) => Some((folder, rest)),
        None => {
            let plain = folders.iter().find(|folder| folder.prefix.is_empty());
            Some((plain?, path))
        }
    }
}

/// Runs work on a disk on another thread, in bounded time. Gives the permit back with the result; if the disk is late,
/// when it has answered.
async fn in_time<T: Send + 'static>(
    permit: OwnedSemaphorePermit,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<io::Result<(T, OwnedSemaphorePermit)>, ScreenError> {
    let working = tokio::task::spawn_blocking(move || work().map(|done| (done, permit)));
    let done = timeout(PATIENCE, working).await;
    done.ok().and_then(Result::ok).ok_or(ScreenError::Busy)
}

impl Folder {
    fn is_for(&self, reader: &Identity) -> bool {
        let readers = self.readers.as_ref();
        readers.is_none_or(|readers| reader.is_in(readers))
    }
}

/// Refuses a folder inside another one that other clients may read: its files could be read by the path through that one.
fn check_nested(folders: &[Folder]) -> Result<(), String> {
    for inner in folders {
        for outer in folders {
            let is_other = inner.readers != outer.readers;
            let [inside, around] = [inner, outer].map(|folder| fs::canonicalize(&folder.path));
            if is_other && inside.is_ok_and(|inside| around.is_ok_and(|it| inside.starts_with(it)))
            {
                return Err(format!(
                    "screens: {} is inside {}: give both the same screens_access, or move one",
                    inner.path.display(),
                    outer.path.display()
                ));
            }
        }
    }
    Ok(())
}

/// The content type of a file that is served.
fn type_of(path: &str) -> Option<&'static str> {
    let (_, end) = path.rsplit_once('.')?;
    let known = TYPES
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(end))?;
    Some(known.1)
}

/// A path whose parts are plain visible names.
fn checked(path: &str) -> Option<PathBuf> {
    let is_name = |part: &str| {
        !part.is_empty() && !part.starts_with('.') && !part.contains(['\\', '\0', ':'])
    };
    (path.len() <= MAX_PATH_BYTES && path.split('/').all(is_name)).then(|| PathBuf::from(path))
}

/// Opens a regular file whose real path is below `root`.
fn open_below(root: &Path, relative: &Path) -> io::Result<(File, Metadata)> {
    let root = fs::canonicalize(root)?;
    let is_below = |real: &Path| {
        let outside = || io::Error::other("its real path is outside the folder");
        real.starts_with(&root).then_some(()).ok_or_else(outside)
    };
    // Before it is opened: to open a device may do something.
    let real = fs::canonicalize(root.join(relative))?;
    is_below(&real)?;
    let file = open_if_regular(&real)?;
    // What was opened, even if a link has changed since.
    is_below(&fs::read_link(format!(
        "/proc/self/fd/{}",
        file.as_raw_fd()
    ))?)?;
    let metadata = file.metadata()?;
    Ok((file, metadata))
}

/// Differs after each change of a file.
fn version_of(metadata: &Metadata) -> String {
    let mut hasher = DefaultHasher::new();
    let times = [
        (metadata.mtime(), metadata.mtime_nsec()),
        (metadata.ctime(), metadata.ctime_nsec()),
    ];
    (times, metadata.len(), metadata.ino()).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_plain_visible_names() {
        for path in ["a.bob", "a/b/c d.bob", "é+(1).bob", "a..bob"] {
            assert!(checked(path).is_some(), "{path}");
        }
        for path in [
            "",
            "/a.bob",
            "a//b.bob",
            "../a.bob",
            "a/../b.bob",
            "./a.bob",
            ".git/a.bob",
            "a/.b.bob",
            "a\\b.bob",
            "a\0.bob",
            "C:a.bob",
        ] {
            assert!(checked(path).is_none(), "{path:?}");
        }
        assert!(checked(&"a/".repeat(600)).is_none());
    }

    #[test]
    fn requests_that_wait_for_a_display_hold_no_open_files() {
        let name = format!("pvwire-screens-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.bob"), "<display/>").unwrap();
        let config = Config {
            screens: vec![crate::config::ScreenFolder {
                prefix: String::new(),
                path: folder.to_str().unwrap().to_owned(),
            }],
            ..Config::default()
        };
        let screens = Screens::open(&config).unwrap().unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().build().unwrap().block_on(async {
            let reader = Identity::default();
            let mut opened = Vec::new();
            while opened.len() < MAX_OPEN {
                opened.push(screens.open_file("a.bob", &reader).await.unwrap());
            }
            assert_eq!(screens.open.available_permits(), 0, "further ones wait");
            let content = screens.read(opened.pop().unwrap()).await;
            assert_eq!(content.unwrap(), b"<display/>");
            // One whose memory is refused, or that the browser has already.
            drop(opened.pop());
            assert_eq!(screens.open.available_permits(), 2);
            drop(opened);
            assert!(screens.open_file("b.bob", &reader).await.is_err());
            assert_eq!(screens.open.available_permits(), MAX_OPEN);
        });
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn pages_and_scripts_have_no_type() {
        assert_eq!(type_of("a/B.BOB"), Some("text/xml; charset=utf-8"));
        for path in ["a.html", "a.js", "a.py", "a", "bob", "a.bob/", "a.bob~"] {
            assert_eq!(type_of(path), None, "{path}");
        }
    }
}
