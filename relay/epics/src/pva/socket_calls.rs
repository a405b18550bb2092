//! Reads the searches of pvxs and their answers as they pass the functions of the C library.
//!
//! This file provides `sendto` and `recvmsg`, by which pvxs searches over UDP, and `writev` and
//! `readv`, by which libevent writes and reads its connections to name servers. All do the same as
//! the C library's. On the threads of pvxs's contexts the first bytes are compared, and messages of
//! searches are read. A program whose linker exports the symbols uses these functions; in other
//! programs a server that answers searches and then says nothing is not named.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::{c_int, c_long, c_void};
use std::mem::{self, MaybeUninit};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::slice;

use libc::{
    AF_INET, AF_INET6, iovec, msghdr, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage,
    socklen_t,
};

use super::search_replies::{is_of_search, received, sent};
use crate::guard::{guard, thread_name};

/// pvxs's name of the thread of a context.
const CONTEXT: &[u8] = b"PVXCTCP\0";

/// Bytes that say what a message is.
const HEADER: usize = 4;

thread_local! {
    static IS_CONTEXT: Cell<Option<bool>> = const { Cell::new(None) };
}

type SendTo =
    unsafe extern "C" fn(c_int, *const c_void, usize, c_int, *const sockaddr, socklen_t) -> isize;

/// Keeps the functions in programs that call them only through a library.
#[used]
static SENDTO: SendTo = sendto;
#[used]
static RECVMSG: unsafe extern "C" fn(c_int, *mut msghdr, c_int) -> isize = recvmsg;
#[used]
static READV: unsafe extern "C" fn(c_int, *const iovec, c_int) -> isize = readv;
#[used]
static WRITEV: unsafe extern "C" fn(c_int, *const iovec, c_int) -> isize = writev;

fn is_context() -> bool {
    IS_CONTEXT.get().unwrap_or_else(|| {
        let found = thread_name().starts_with(CONTEXT);
        IS_CONTEXT.set(Some(found));
        found
    })
}

/// The system's `sendto`, which pvxs also calls.
///
/// # Safety
///
/// As for the C library's function.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
unsafe extern "C" fn sendto(
    socket: c_int,
    bytes: *const c_void,
    count: usize,
    flags: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> isize {
    if is_context() {
        // SAFETY: as the caller promises.
        let message = unsafe { slice::from_raw_parts(bytes.cast::<u8>(), count) };
        if is_of_search(message) {
            guard("sendto", || sent(message));
        }
    }
    // SAFETY: as the caller promises.
    let sent = unsafe {
        libc::syscall(
            libc::SYS_sendto,
            socket,
            bytes,
            count,
            flags,
            address,
            length,
        )
    };
    sent as isize
}

/// The system's `recvmsg`, which pvxs also calls.
///
/// # Safety
///
/// As for the C library's function.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
unsafe extern "C" fn recvmsg(socket: c_int, message: *mut msghdr, flags: c_int) -> isize {
    // SAFETY: as the caller promises.
    let count = unsafe { libc::syscall(libc::SYS_recvmsg, socket, message, flags) };
    if count >= HEADER as c_long && is_context() {
        // SAFETY: the system has filled it.
        let message = unsafe { &*message };
        // SAFETY: as the caller promises; the system has written the bytes.
        let parts = unsafe { parts(message.msg_iov, message.msg_iovlen) };
        read(parts, count as usize, || {
            // SAFETY: the system has written an address of this length, if there is one.
            unsafe { address(message.msg_name.cast(), message.msg_namelen) }
        });
    }
    count as isize
}

/// The system's `readv`, which libevent also calls.
///
/// # Safety
///
/// As for the C library's function.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
unsafe extern "C" fn readv(file: c_int, vectors: *const iovec, vector_count: c_int) -> isize {
    // SAFETY: as the caller promises.
    let count = unsafe { libc::syscall(libc::SYS_readv, file, vectors, vector_count) };
    if count >= HEADER as c_long && is_context() {
        // SAFETY: as the caller promises; the system has written the bytes.
        let parts = unsafe { parts(vectors, vector_count as usize) };
        read(parts, count as usize, || peer(file));
    }
    count as isize
}

/// The system's `writev`, which libevent also calls.
///
/// # Safety
///
/// As for the C library's function.
#[cfg_attr(feature = "interpose", unsafe(no_mangle))]
unsafe extern "C" fn writev(file: c_int, vectors: *const iovec, vector_count: c_int) -> isize {
    if is_context() {
        // SAFETY: as the caller promises.
        let parts = unsafe { parts(vectors, vector_count as usize) };
        // The answer may arrive before the call returns.
        if let Some(bytes) = of_search(parts, usize::MAX) {
            guard("writev", || sent(&bytes));
        }
    }
    // SAFETY: as the caller promises.
    unsafe { libc::syscall(libc::SYS_writev, file, vectors, vector_count) as isize }
}

/// # Safety
///
/// There are `count` vectors, whose memory may be read.
unsafe fn parts<'a>(vectors: *const iovec, count: usize) -> &'a [iovec] {
    if vectors.is_null() {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { slice::from_raw_parts(vectors, count) }
}

fn read(parts: &[iovec], count: usize, sender: impl Fn() -> Option<SocketAddr>) {
    if let Some(bytes) = of_search(parts, count) {
        guard("read", || received(&bytes, sender));
    }
}

/// The first `count` bytes, if they begin with a search or the answer to one.
fn of_search(parts: &[iovec], count: usize) -> Option<Cow<'_, [u8]>> {
    let first = parts.first().map_or(&[][..], part);
    if first.len() >= HEADER && !is_of_search(first) {
        return None;
    }
    if first.len() >= count || parts.len() == 1 {
        let bytes = &first[..first.len().min(count)];
        return is_of_search(bytes).then_some(Cow::Borrowed(bytes));
    }
    let bytes = parts.iter().flat_map(part).copied().take(count);
    let bytes: Vec<u8> = bytes.collect();
    is_of_search(&bytes).then_some(Cow::Owned(bytes))
}

fn part(vector: &iovec) -> &[u8] {
    if vector.iov_base.is_null() {
        return &[];
    }
    // SAFETY: the caller of the C function promises that the memory may be read or written.
    unsafe { slice::from_raw_parts(vector.iov_base.cast(), vector.iov_len) }
}

/// The address at the other end of a connection.
fn peer(socket: c_int) -> Option<SocketAddr> {
    let mut storage = MaybeUninit::<sockaddr_storage>::zeroed();
    let mut length = mem::size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: the system writes at most the given length.
    let failed = unsafe { libc::getpeername(socket, storage.as_mut_ptr().cast(), &raw mut length) };
    if failed != 0 {
        return None;
    }
    // SAFETY: the system has written an address of this length.
    unsafe { address(storage.as_ptr().cast(), length) }
}

/// # Safety
///
/// `from` is null or points to an address of `length` bytes.
unsafe fn address(from: *const sockaddr, length: socklen_t) -> Option<SocketAddr> {
    if from.is_null() || (length as usize) < mem::size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: as the caller promises.
    let family = unsafe { (*from).sa_family };
    match c_int::from(family) {
        AF_INET => {
            // SAFETY: it is an address of this family.
            let of = unsafe { from.cast::<sockaddr_in>().read_unaligned() };
            let ip = Ipv4Addr::from(u32::from_be(of.sin_addr.s_addr));
            Some((ip, u16::from_be(of.sin_port)).into())
        }
        AF_INET6 if length as usize >= mem::size_of::<sockaddr_in6>() => {
            // SAFETY: it is an address of this family.
            let of = unsafe { from.cast::<sockaddr_in6>().read_unaligned() };
            let ip = Ipv6Addr::from(of.sin6_addr.s6_addr);
            Some((ip, u16::from_be(of.sin6_port)).into())
        }
        _ => None,
    }
}
