//! Lists of PVs that users save on the relay: one file a user, in the folder that the operator names.

//! A change reads a user's file and writes it again, on a thread that waits for the disk. Its CPU time is charged afterwards,
//! so that no client has a file while it waits for its turn to compute; before it, a client whose budget is used up waits.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::Hash;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use bytes::Bytes;
use pvwire_schema::limits::MAX_NAME_BYTES;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::{Mutex as Lock, OwnedMutexGuard, Semaphore};
use tokio::time::timeout;

use crate::access::caller::Caller;
use crate::access::rule::Identity;
use crate::compute::{NotComputed, PoolHandle, Size, charged};
use crate::limits::lines::Lines;
use crate::ops::file_reads::{
    PATIENCE, RegularFileError, create_beside, read_own_text, remove_left_over,
};

/// Largest file of a user.
pub const MAX_FILE_BYTES: u64 = 1 << 20;

/// Most lists of a user, and most names in one.
const MAX_LISTS: usize = 200;
const MAX_NAMES: usize = 10_000;

/// Longest title of a list.
const MAX_TITLE_BYTES: usize = 200;

/// Longest name of a file.
const MAX_FILE_NAME_BYTES: usize = 200;

/// File of all clients without a login.
const ANONYMOUS: &str = "everybody.json";

/// Requests that use the disk at the same time: a disk that hangs must not take all threads.
const MAX_AT_ONCE: usize = 4;

/// Number of locks at which those that no request needs are forgotten.
const SWEPT_FROM: usize = 64;

/// Lines of the log about files that can't be used: a second, and at once.
const FAULTS_PER_S: usize = 1;
const FAULTS_AT_ONCE: usize = 10;

/// Why lists are not read or saved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The body of the request isn't a list.
    #[error("the body is not {{\"names\": [\"…\"]}}: {0}")]
    Malformed(serde_json::Error),
    /// The request can't be carried out as it is.
    #[error("{0}")]
    Refused(String),
    /// The disk is slow, or too many clients save.
    #[error("the disk of the saved lists doesn't answer in time: try again later")]
    Busy,
    /// The file can't be read or written.
    #[error("the relay can't use its file of saved lists ({0}): its operator must look at it")]
    File(String),
    /// The client's turn to compute doesn't come in time.
    #[error(transparent)]
    NotComputed(#[from] NotComputed),
}

/// A user's lists: names of PVs, by title.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Lists {
    /// In the order of the titles.
    lists: BTreeMap<String, Vec<String>>,
}

/// The body of a request to save a list.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    names: Vec<String>,
}

/// One holder at a time for each key. Those that wait for a key have it in the order in which they came.
struct Locks<K>(Mutex<HashMap<K, Weak<Lock<()>>>>);

impl<K: Hash + Eq> Locks<K> {
    fn new() -> Self {
        Self(Mutex::default())
    }

    async fn lock(&self, key: K) -> OwnedMutexGuard<()> {
        let lock = self.of(key);
        lock.lock_owned().await
    }

    fn of(&self, key: K) -> Arc<Lock<()>> {
        let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lock) = locks.get(&key).and_then(Weak::upgrade) {
            return lock;
        }
        if locks.len() >= SWEPT_FROM && locks.len() == locks.capacity() {
            locks.retain(|_, lock| lock.strong_count() > 0);
        }
        let lock = Arc::new(Lock::new(()));
        locks.insert(key, Arc::downgrade(&lock));
        lock
    }
}

/// The saved lists of all users.
pub struct SavedLists {
    folder: PathBuf,
    /// One request at a time for each client (its user or its address), so that no client waits for many of another one.
    clients: Locks<usize>,
    /// One change at a time for each file.
    files: Locks<PathBuf>,
    disk: Arc<Semaphore>,
    /// Of the log, about files that can't be used: each request finds them.
    faults: Mutex<Lines>,
}

impl SavedLists {
    /// The lists in a folder; `None` without one.
    ///
    /// # Errors
    /// When it isn't a folder in which the relay may write; the text names it.
    pub fn open(folder: &str) -> Result<Option<Self>, String> {
        if folder.is_empty() {
            return Ok(None);
        }
        let path = PathBuf::from(folder);
        create_beside(&path.join("writable"))
            .and_then(|(_, trial)| fs::remove_file(trial))
            .and_then(|()| remove_left_over(&path))
            .map_err(|error| format!("saved: {folder}: {error}"))?;
        Ok(Some(Self::of(path)))
    }

    fn of(folder: PathBuf) -> Self {
        let faults = Lines::new(FAULTS_PER_S, FAULTS_AT_ONCE, Instant::now());
        Self {
            folder,
            clients: Locks::new(),
            files: Locks::new(),
            disk: Arc::new(Semaphore::new(MAX_AT_ONCE)),
            faults: Mutex::new(faults),
        }
    }

    /// The lists of a user, as JSON of at most [`MAX_FILE_BYTES`].
    ///
    /// # Errors
    /// When they can't be read.
    pub async fn read(&self, caller: &Caller, pool: &PoolHandle) -> Result<Vec<u8>, SavedError> {
        let path = self.path_of(&caller.identity)?;
        let file = path.clone();
        // A file is replaced as a whole: who reads it needs no lock.
        let read = self.run(caller, None, move || file_text(&file));
        let read = match read.await {
            Ok(Some(text)) => {
                let size = Size::of(text.len());
                let write = move || parsed(&text).map(|lists| lists.json());
                let written = pool.compute(caller.cpu(), size, write).await;
                written.map_err(SavedError::from).flatten()
            }
            Ok(None) => Ok(Lists::default().json()),
            Err(error) => Err(error),
        };
        self.noted(&path, read)
    }

    /// Saves the list that a request has as its body, or removes it with `None`; returns all lists of the user then, as
    /// JSON of at most [`MAX_FILE_BYTES`].
    ///
    /// # Errors
    /// When the body or a limit is wrong, or the file can't be read or written. Nothing has changed then.
    pub async fn set(
        &self,
        caller: &Caller,
        pool: &PoolHandle,
        title: String,
        body: Option<Bytes>,
    ) -> Result<Vec<u8>, SavedError> {
        let path = self.path_of(&caller.identity)?;
        let size = Size::of(body.as_ref().map_or(0, Bytes::len));
        let read = move || wanted(title, body.as_deref());
        let (title, names) = pool.compute(caller.cpu(), size, read).await??;
        let (file, share) = (path.clone(), caller.cpu().clone());
        let change = move || charged(&share, || change(&file, title, names)).0;
        let changed = self.run(caller, Some(path.clone()), change).await;
        self.noted(&path, changed)
    }

    /// Tells the operator about a file that can't be used.
    fn noted<T>(&self, path: &Path, done: Result<T, SavedError>) -> Result<T, SavedError> {
        if let Err(SavedError::File(why)) = &done {
            let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
            let path = path.display();
            faults.say(
                log::Level::Error,
                format_args!(
                    "saved: {path} can't be used: {why}; repair it, or remove it with its lists"
                ),
                Instant::now(),
            );
        }
        done
    }

    /// Each user's file has another name, whatever the user's name has in it.
    fn path_of(&self, user: &Identity) -> Result<PathBuf, SavedError> {
        let Some(user) = &user.user else {
            return Ok(self.folder.join(ANONYMOUS));
        };
        let mut name = "user-".to_owned();
        for byte in user.bytes() {
            match byte {
                b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => name.push(char::from(byte)),
                other => name.push_str(&format!("%{other:02X}")),
            }
        }
        name.push_str(".json");
        if name.len() > MAX_FILE_NAME_BYTES {
            let why = "your user name is too long for a file's name".to_owned();
            return Err(SavedError::Refused(why));
        }
        Ok(self.folder.join(name))
    }

    /// Runs work on the disk on another thread, in bounded time, when no other request of the client runs, and none
    /// that changes the same file. The file is not free before the disk has answered.
    async fn run<T: Send + 'static>(
        &self,
        caller: &Caller,
        file: Option<PathBuf>,
        work: impl FnOnce() -> Result<T, SavedError> + Send + 'static,
    ) -> Result<T, SavedError> {
        let running = async {
            let _client = self.clients.lock(caller.cpu().payer()).await;
            let file = match file {
                Some(file) => Some(self.files.lock(file).await),
                None => None,
            };
            let disk = Arc::clone(&self.disk).acquire_owned().await;
            let working = tokio::task::spawn_blocking(move || {
                let done = work();
                drop((file, disk));
                done
            });
            working.await
        };
        let done = timeout(PATIENCE, running).await;
        done.ok().and_then(Result::ok).ok_or(SavedError::Busy)?
    }
}

impl Lists {
    fn json(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("texts can be written as JSON")
    }
}

/// The title and the names of a list that a request has as its body.
fn wanted(title: String, body: Option<&[u8]>) -> Result<(String, Option<Vec<String>>), SavedError> {
    let names = body.map(|body| serde_json::from_slice(body).map(|List { names }| names));
    let names = names.transpose().map_err(SavedError::Malformed)?;
    check(&title, names.as_deref().unwrap_or_default()).map_err(SavedError::Refused)?;
    Ok((title, names))
}

fn check(title: &str, names: &[String]) -> Result<(), String> {
    let is_text = |text: &str, most: usize| {
        (1..=most).contains(&text.len()) && !text.chars().any(char::is_control)
    };
    if !is_text(title, MAX_TITLE_BYTES) {
        return Err(format!(
            "a list's title has 1 to {MAX_TITLE_BYTES} bytes and no control characters"
        ));
    }
    if names.len() > MAX_NAMES {
        let count = names.len();
        return Err(format!("a list has at most {MAX_NAMES} names, not {count}"));
    }
    match names.iter().find(|name| !is_text(name, MAX_NAME_BYTES)) {
        Some(name) => Err(format!("{name:?} is not the name of a PV")),
        None => Ok(()),
    }
}

/// The text of a user's file; `None` without one.
fn file_text(path: &Path) -> Result<Option<String>, SavedError> {
    match read_own_text(path, MAX_FILE_BYTES) {
        Ok(text) => Ok(Some(text)),
        Err(RegularFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(SavedError::File(error.to_string())),
    }
}

fn parsed(text: &str) -> Result<Lists, SavedError> {
    serde_json::from_str(text).map_err(|error| SavedError::File(error.to_string()))
}

/// Saves a list in a file, or removes it; returns all lists of the file then, as JSON.
fn change(path: &Path, title: String, names: Option<Vec<String>>) -> Result<Vec<u8>, SavedError> {
    let text = file_text(path)?;
    let mut lists = text.map_or_else(|| Ok(Lists::default()), |text| parsed(&text))?;
    match names {
        Some(names) => lists.lists.insert(title, names),
        None => lists.lists.remove(&title),
    };
    if lists.lists.len() > MAX_LISTS {
        let why = format!("a user has at most {MAX_LISTS} lists: remove one first");
        return Err(SavedError::Refused(why));
    }
    write(path, &lists)?;
    Ok(lists.json())
}

/// The file is the old or the new one, also after a crash.
fn write(path: &Path, lists: &Lists) -> Result<(), SavedError> {
    let of_file = |error: io::Error| SavedError::File(error.to_string());
    let text = serde_json::to_vec_pretty(lists).map_err(|error| of_file(error.into()))?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let mib = MAX_FILE_BYTES >> 20;
        let why = format!("your lists have more than {mib} MiB together: remove one first");
        return Err(SavedError::Refused(why));
    }
    let (mut file, new) = create_beside(path).map_err(of_file)?;
    let written = file
        .write_all(&text)
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path));
    written.map_err(|error| {
        // It has replaced nothing.
        let _ = fs::remove_file(&new);
        of_file(error)
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::Duration;

    use serde_json::json;
    use tokio::task::{LocalSet, yield_now};

    use super::*;
    use crate::access::auth::Peer;
    use crate::compute::Pool;
    use crate::limits::connections::SharedBudgets;
    use crate::limits::cpu::CpuLimits;
    use crate::limits::memory::{Memory, MemoryLimits};

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new() -> Self {
            let mut random = [0; 8];
            getrandom::fill(&mut random).unwrap();
            let name = format!("pvwire-saved-{:016x}", u64::from_ne_bytes(random));
            let path = std::env::temp_dir().join(name);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn lists(&self) -> SavedLists {
            SavedLists::open(self.0.to_str().unwrap()).unwrap().unwrap()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).unwrap();
        }
    }

    /// A client with a budget of this many milliseconds of CPU time a second; 0 for none.
    fn caller(address: &str, user: Option<&str>, ms_per_s: usize) -> Caller {
        let cpu = CpuLimits {
            client_ms_per_s: ms_per_s,
            ..CpuLimits::NONE
        };
        let memory = Memory::with_cpu(MemoryLimits::NONE, cpu);
        with_memory(&memory, address, user)
    }

    fn with_memory(memory: &Arc<Memory>, address: &str, user: Option<&str>) -> Caller {
        let identity = Identity {
            user: user.map(str::to_owned),
            groups: Vec::new(),
        };
        let peer = Peer {
            identity,
            ..Peer::default()
        };
        Caller::new(peer, memory.owner(address, user), SharedBudgets::default())
    }

    fn body(names: usize) -> Option<Bytes> {
        let names: Vec<_> = (0..names).map(|n| format!("SR:{n:06}:X")).collect();
        Some(json!({ "names": names }).to_string().into())
    }

    #[tokio::test]
    async fn work_for_lists_is_charged_to_the_cpu_budget_of_the_client() {
        let (folder, pool) = (Folder::new(), Pool::start().unwrap());
        let (saved, pool) = (folder.lists(), pool.handle());
        let unlimited = caller("10.0.0.1", Some("anna"), 0);
        for title in ["a", "b", "c"] {
            let done = saved.set(&unlimited, &pool, title.into(), body(MAX_NAMES));
            done.await.unwrap();
        }
        let is_charged = |caller: &Caller| {
            // A millisecond takes a second of this budget. It is charged a moment after the answer.
            testbed::eventually("its CPU time is charged", || {
                caller.cpu().missing(Instant::now()) > Duration::from_secs(1)
            });
        };
        let reader = caller("10.0.0.1", Some("anna"), 1);
        assert!(saved.read(&reader, &pool).await.unwrap().len() > 300_000);
        is_charged(&reader);
        let writer = caller("10.0.0.1", Some("anna"), 1);
        saved.set(&writer, &pool, "a".into(), None).await.unwrap();
        is_charged(&writer);
    }

    #[tokio::test]
    async fn file_that_is_in_use_holds_up_no_other_user_and_no_reader() {
        let (folder, pool) = (Folder::new(), Pool::start().unwrap());
        let (saved, pool) = (folder.lists(), pool.handle());
        let [anna, bob] = ["anna", "bob"].map(|user| caller("10.0.0.1", Some(user), 0));
        let _used = saved
            .files
            .lock(saved.path_of(&anna.identity).unwrap())
            .await;
        saved.set(&bob, &pool, "a".into(), body(1)).await.unwrap();
        saved.read(&anna, &pool).await.unwrap();
    }

    #[tokio::test]
    async fn client_that_saves_without_end_delays_others_of_its_file_by_one_change() {
        let (folder, pool) = (Folder::new(), Pool::start().unwrap());
        let (saved, pool) = (Rc::new(folder.lists()), pool.handle());
        let memory = Memory::new(MemoryLimits::NONE);
        let used = saved.files.lock(folder.0.join(ANONYMOUS)).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let all = LocalSet::new();
        let change = |address: &'static str| {
            let caller = with_memory(&memory, address, None);
            let (saved, pool, order) = (Rc::clone(&saved), pool.clone(), Rc::clone(&order));
            async move {
                saved
                    .set(&caller, &pool, "a".into(), body(1))
                    .await
                    .unwrap();
                order.borrow_mut().push(address);
            }
        };
        for _ in 0..20 {
            all.spawn_local(change("10.0.0.1"));
        }
        all.spawn_local(change("10.0.0.2"));
        all.spawn_local(async move {
            // All wait by now.
            yield_now().await;
            drop(used);
        });
        all.await;
        let order = order.borrow();
        let at = order.iter().position(|address| *address == "10.0.0.2");
        assert!(order.len() == 21 && at.unwrap() <= 1, "{order:?}");
    }

    #[test]
    fn locks_of_files_that_nobody_uses_are_forgotten() {
        let locks = Locks::new();
        for number in 0..10_000 {
            drop(locks.of(number));
        }
        assert!(locks.0.lock().unwrap().len() <= 4 * SWEPT_FROM);
    }

    #[test]
    fn each_user_has_a_file_inside_the_folder_whatever_the_name() {
        let saved = SavedLists::of("/saved".into());
        let path = |user: &str| {
            let user = Some(user.to_owned());
            let identity = Identity {
                user,
                groups: Vec::new(),
            };
            saved.path_of(&identity)
        };
        let users = [
            "anna",
            "Anna",
            "../anna",
            "an/na",
            "anna\0",
            "é",
            "%41nna",
            "everybody",
        ];
        let paths: Vec<_> = users.iter().map(|user| path(user).unwrap()).collect();
        for (nth, one) in paths.iter().enumerate() {
            assert_eq!(one.parent(), Some(Path::new("/saved")), "{one:?}");
            assert!(!paths[..nth].contains(one), "{one:?}");
        }
        assert!(path(&"x".repeat(300)).is_err());
        let anonymous = saved.path_of(&Identity::default()).unwrap();
        assert!(!paths.contains(&anonymous));
    }

    #[test]
    fn title_or_name_that_is_no_text_is_refused() {
        assert!(check("Ring 1", &["A".into(), "# Group".into()]).is_ok());
        for (title, names) in [
            ("", vec![]),
            ("a\nb", vec![]),
            ("a", vec![String::new()]),
            ("a", vec!["A\0".to_owned()]),
            ("a", vec!["A".to_owned(); MAX_NAMES + 1]),
        ] {
            assert!(check(title, &names).is_err(), "{title:?}");
        }
        assert!(check(&"a".repeat(MAX_TITLE_BYTES + 1), &[]).is_err());
    }
}
