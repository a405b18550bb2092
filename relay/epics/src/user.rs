//! The user that a client presents to IOCs.
//!
//! libca and pvxs call `osiGetUserName` once per context, in the thread that creates it, and send
//! the result to every IOC for its access security. This file defines a function of that name. A
//! program whose linker exports the symbol uses it in place of the one of EPICS base: in a thread
//! that creates a context for a user it returns that user's name, in all others the process's own.

use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int, c_uint};

use crate::guard::guard;

/// Longest name of a user, in bytes: it fits into every buffer of the EPICS libraries.
pub const MAX_USER_BYTES: usize = 63;

/// Prefix that marks a name as that of a group in IOCs' access security.
const ROLE: &str = "role/";

/// Both values are defined by EPICS base.
const FAIL: c_int = 0;
const SUCCESS: c_int = 1;

/// Keeps the function in programs that call it only through a library.
#[used]
static EXPORTED: unsafe extern "C" fn(*mut c_char, c_uint) -> c_int = osiGetUserName;

/// A user name that can be sent to IOCs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct UserName(CString);

/// Why a user name can't be sent to IOCs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadUserName {
    /// It is empty.
    #[error("the name of the user is empty")]
    Empty,
    /// It would be truncated, and could then be another user's name.
    #[error("the name of the user has {length} bytes, and IOCs can be told {MAX_USER_BYTES}")]
    TooLong {
        /// Length in bytes.
        length: usize,
    },
    /// It would look like another name.
    #[error("the name of the user holds {0:?}")]
    Character(char),
    /// IOCs would treat it as a group.
    #[error("the name of the user begins with {ROLE}, as groups do")]
    Role,
}

impl UserName {
    /// A name, if it can be sent to IOCs unchanged.
    ///
    /// # Errors
    /// When it can't be sent.
    pub fn new(name: &str) -> Result<Self, BadUserName> {
        if name.is_empty() {
            return Err(BadUserName::Empty);
        }
        if name.len() > MAX_USER_BYTES {
            let length = name.len();
            return Err(BadUserName::TooLong { length });
        }
        if let Some(bad) = name.chars().find(|c| c.is_control()) {
            return Err(BadUserName::Character(bad));
        }
        if name.starts_with(ROLE) {
            return Err(BadUserName::Role);
        }
        let name = CString::new(name).map_err(|_| BadUserName::Character('\0'))?;
        Ok(Self(name))
    }
}

/// Why a client has no context.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ContextError {
    /// IOCs would receive a name other than the user's.
    #[error("the EPICS libraries did not ask for the user's name (osiGetUserName is not exported)")]
    NameNotAsked,
    /// The library created no context, for this reason.
    #[error("{0}")]
    Library(String),
    /// The thread that should create it has ended, which is a bug.
    #[error("the thread ended")]
    ThreadEnded,
}

struct Presented {
    name: CString,
    asked: bool,
}

thread_local! {
    static PRESENTED: RefCell<Option<Presented>> = const { RefCell::new(None) };
}

/// Creates a context that identifies itself as a user, or without one as the process's own user.
///
/// # Errors
/// As `create`; also when the library didn't ask for the name, because it would send IOCs another
/// one.
pub(crate) fn create_as<T>(
    user: Option<&UserName>,
    create: impl FnOnce() -> Result<T, ContextError>,
) -> Result<T, ContextError> {
    let Some(user) = user else {
        return create();
    };
    let name = user.0.clone();
    let asked = false;
    PRESENTED.set(Some(Presented { name, asked }));
    let context = create();
    let presented = PRESENTED.take();
    let context = context?;
    if presented.is_some_and(|presented| presented.asked) {
        return Ok(context);
    }
    Err(ContextError::NameNotAsked)
}

/// The function that the EPICS libraries call for the user's name.
///
/// # Safety
///
/// As for EPICS base's function: `buffer` has room for `size` bytes.
#[unsafe(no_mangle)]
#[allow(non_snake_case, reason = "a name of EPICS base")]
unsafe extern "C" fn osiGetUserName(buffer: *mut c_char, size: c_uint) -> c_int {
    let mut name = None;
    guard("osiGetUserName", || {
        name = PRESENTED.with(|presented| {
            let mut presented = presented.borrow_mut();
            let presented = presented.as_mut()?;
            let name = presented.name.clone();
            presented.asked = true;
            Some(name)
        });
    });
    match name {
        None => {
            // SAFETY: as the caller promises.
            unsafe { own_name(buffer, size) }
        }
        Some(name) => {
            let bytes = name.as_bytes_with_nul();
            // A truncated name may be another user's.
            if bytes.len() > size as usize {
                return FAIL;
            }
            // SAFETY: the buffer has room for these bytes and does not overlap the name.
            unsafe { buffer.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len()) };
            SUCCESS
        }
    }
}

/// The name that EPICS base determines itself.
///
/// # Safety
///
/// As for `osiGetUserName`.
unsafe fn own_name(buffer: *mut c_char, size: c_uint) -> c_int {
    type GetUserName = unsafe extern "C" fn(*mut c_char, c_uint) -> c_int;
    // SAFETY: the name is NUL-terminated.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"osiGetUserName".as_ptr()) };
    if next.is_null() {
        return FAIL;
    }
    // SAFETY: the next symbol of this name is the function of EPICS base, which has this type.
    let next = unsafe { std::mem::transmute::<*mut libc::c_void, GetUserName>(next) };
    // SAFETY: as the caller promises.
    unsafe { next(buffer, size) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(size: usize) -> Option<String> {
        let mut buffer = vec![0_u8; size];
        // SAFETY: the buffer has that size.
        let found = unsafe { osiGetUserName(buffer.as_mut_ptr().cast(), size as c_uint) };
        let end = buffer.iter().position(|byte| *byte == 0)?;
        (found == SUCCESS).then(|| String::from_utf8_lossy(&buffer[..end]).into_owned())
    }

    #[test]
    fn user_is_presented_only_while_the_context_is_created() {
        let jane = UserName::new("jane").unwrap();
        let own = ask(256);
        let asked = create_as(Some(&jane), || {
            let elsewhere = std::thread::spawn(|| ask(256)).join().unwrap();
            Ok((ask(256), ask(5), ask(4), elsewhere))
        });
        let jane = || Some("jane".to_owned());
        assert_eq!(asked, Ok((jane(), jane(), None, own.clone())));
        assert_eq!(ask(256), own);
        assert_ne!(own, jane());
        assert_eq!(create_as(None, || Ok(ask(256))), Ok(own));
    }

    #[test]
    fn context_whose_library_asked_for_no_name_is_refused() {
        let jane = UserName::new("jane").unwrap();
        let error = create_as(Some(&jane), || Ok(())).unwrap_err();
        assert_eq!(error, ContextError::NameNotAsked);
        let no_memory = ContextError::Library("no memory".into());
        let failed = create_as::<()>(Some(&jane), || Err(no_memory.clone()));
        assert_eq!(failed, Err(no_memory));
        assert_ne!(ask(256), Some("jane".into()));
    }

    #[test]
    fn name_that_iocs_would_take_for_another_is_refused() {
        assert!(UserName::new("Jane Doe@example.org").is_ok());
        assert!(UserName::new(&"x".repeat(63)).is_ok());
        for (name, expected) in [
            ("", BadUserName::Empty),
            ("jane\0", BadUserName::Character('\0')),
            ("jane\n", BadUserName::Character('\n')),
            ("role/operators", BadUserName::Role),
            (&"x".repeat(64), BadUserName::TooLong { length: 64 }),
        ] {
            assert_eq!(UserName::new(name), Err(expected));
        }
    }
}
