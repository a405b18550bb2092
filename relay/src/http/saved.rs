//! Lists of PVs that users save on the relay: one file a user, in the folder that the operator names.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pvwire_schema::limits::MAX_NAME_BYTES;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::access::rule::Identity;
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

/// Why lists are not read or saved.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SavedError {
    /// The request can't be carried out as it is.
    #[error("{0}")]
    Refused(String),
    /// The disk is slow, or too many clients save.
    #[error("the disk of the saved lists doesn't answer in time: try again later")]
    Busy,
    /// The file can't be read or written.
    #[error("the relay can't use its file of saved lists ({0}): its operator must look at it")]
    File(String),
}

/// A user's lists: names of PVs, by title.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lists {
    /// In the order of the titles.
    pub lists: BTreeMap<String, Vec<String>>,
}

/// The saved lists of all users.
pub struct SavedLists {
    folder: PathBuf,
    /// One file is used at a time: a change reads a file and writes it.
    one: Arc<Semaphore>,
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
        Ok(Some(Self {
            folder: path,
            one: Arc::new(Semaphore::new(1)),
        }))
    }

    /// The lists of a user.
    ///
    /// # Errors
    /// When they can't be read.
    pub async fn read(&self, user: &Identity) -> Result<Lists, SavedError> {
        let path = self.path_of(user)?;
        self.run(move || read(&path)).await
    }

    /// Saves a list, or removes it with `None`; returns all lists of the user then.
    ///
    /// # Errors
    /// When a limit is exceeded, or the file can't be read or written. Nothing has changed then.
    pub async fn set(
        &self,
        user: &Identity,
        title: String,
        names: Option<Vec<String>>,
    ) -> Result<Lists, SavedError> {
        check(&title, names.as_deref().unwrap_or_default()).map_err(SavedError::Refused)?;
        let path = self.path_of(user)?;
        self.run(move || {
            let mut lists = read(&path)?;
            match names {
                Some(names) => lists.lists.insert(title, names),
                None => lists.lists.remove(&title),
            };
            if lists.lists.len() > MAX_LISTS {
                let why = format!("a user has at most {MAX_LISTS} lists: remove one first");
                return Err(SavedError::Refused(why));
            }
            write(&path, &lists)?;
            Ok(lists)
        })
        .await
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

    /// Runs work on the disk on another thread, in bounded time.
    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, SavedError> + Send + 'static,
    ) -> Result<T, SavedError> {
        let permit = timeout(PATIENCE, Arc::clone(&self.one).acquire_owned()).await;
        let permit = permit.ok().and_then(Result::ok).ok_or(SavedError::Busy)?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(permit);
            done
        });
        let done = timeout(PATIENCE, working).await;
        done.ok().and_then(Result::ok).ok_or(SavedError::Busy)?
    }
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

fn read(path: &Path) -> Result<Lists, SavedError> {
    match read_own_text(path, MAX_FILE_BYTES) {
        Ok(text) => {
            serde_json::from_str(&text).map_err(|error| SavedError::File(error.to_string()))
        }
        Err(RegularFileError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {
            Ok(Lists::default())
        }
        Err(error) => Err(SavedError::File(error.to_string())),
    }
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
    use super::*;

    #[test]
    fn each_user_has_a_file_inside_the_folder_whatever_the_name() {
        let saved = SavedLists {
            folder: "/saved".into(),
            one: Arc::new(Semaphore::new(1)),
        };
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
