//! Watches the memory of the process: refuses new clients and PVs while it exceeds `max_memory_mib`, and
//! returns free memory to the system.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::http::server::Server;
use crate::limits::memory::resident_bytes;
use crate::ops::rhythm;
use crate::ops::shutdown::Readiness;
use crate::ops::thread_cache;
use crate::state::registry::Registry;

/// How often the memory of the process is compared with `max_memory_mib`.
const CHECK_EVERY: Duration = Duration::from_millis(250);

/// The same while it uses less than half of that and needs no more than before.
const CALM_CHECK_EVERY: Duration = Duration::from_secs(1);

/// A process that uses this many bytes more than at the last check is not calm.
const GROWTH_BYTES: usize = 1 << 20;

/// How often free memory is considered while clients come, go and release memory.
const RETURN_CHECK_EVERY: Duration = Duration::from_millis(500);

/// The same while clients neither come nor go nor release memory.
const IDLE_RETURN_CHECK_EVERY: Duration = Duration::from_secs(1);

/// This many charged bytes that became free are returned once no more become free…
const MUCH_BYTES: usize = 4 << 20;

/// … this many at once…
const VERY_MUCH_BYTES: usize = 256 << 20;

/// … and any bytes once none became free for this long: PVs are closed some time after their last client
/// has gone.
const QUIET: Duration = Duration::from_secs(1);

/// After the first of these times threads have given back what they kept, after the second nothing is on its way to clients
/// that have gone; after all no thread has anything of their PVs.
const STRAGGLERS: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(1000),
    Duration::from_millis(2500),
    Duration::from_millis(4000),
];

/// This many clients that came or went leave memory that is worth returning.
const MANY_CLIENTS: usize = 20;

/// Refuses new clients and PVs while the process uses more than `max_bytes`.
pub(super) async fn watch(registry: Arc<Registry>, readiness: Arc<Readiness>, max_bytes: usize) {
    let mut before = 0;
    loop {
        let mut used = resident_bytes().unwrap_or(0);
        let is_calm = used <= max_bytes / 2 && used <= before + GROWTH_BYTES;
        before = used;
        if used > max_bytes {
            // Some of it may be free.
            pvwire_epics::give_back_free_memory();
            used = resident_bytes().unwrap_or(0);
        }
        let is_short = used > max_bytes;
        if is_short != registry.is_short() {
            if is_short {
                log::warn!("memory use exceeds max_memory_mib: new clients and PVs are refused");
            } else {
                log::warn!(
                    "memory use is within max_memory_mib again: new clients and PVs are accepted"
                );
            }
            registry.set_short(is_short);
            readiness.set_short_of_memory(is_short);
        }
        let every = if is_calm {
            CALM_CHECK_EVERY
        } else {
            CHECK_EVERY
        };
        rhythm::next(every).await;
    }
}

/// Returns free memory to the system when many clients have come or gone and no more do, because first
/// values of a thousand clients are megabytes; and when much charged memory became free.
pub(super) async fn return_free(server: Arc<Server>) {
    let (mut settled, mut before) = (0_usize, 0);
    let (mut returned, mut released_before) = (0_usize, 0);
    let (mut again, mut last_release) = (Vec::new(), Instant::now());
    let mut every = RETURN_CHECK_EVERY;
    loop {
        rhythm::next(every).await;
        let clients = server.admin.sessions();
        let released = server.admin.memory.released();
        let free = released.wrapping_sub(returned);
        let is_idle = clients == 0 && before == 0 && settled < MANY_CLIENTS;
        every = if is_idle && free == 0 && again.is_empty() {
            IDLE_RETURN_CHECK_EVERY
        } else {
            RETURN_CHECK_EVERY
        };
        let is_settled = clients == before && clients.abs_diff(settled) >= MANY_CLIENTS;
        if released != released_before {
            last_release = Instant::now();
        }
        let is_free = free >= MUCH_BYTES
            && (released == released_before || free >= VERY_MUCH_BYTES)
            || free > 0 && last_release.elapsed() >= QUIET;
        let is_again = again.last().is_some_and(|at| Instant::now() >= *at);
        if is_settled || is_free || is_again {
            again.pop();
            if is_settled || is_free {
                let now = Instant::now();
                again = STRAGGLERS
                    .map(|later| now + later)
                    .into_iter()
                    .rev()
                    .collect();
            }
            thread_cache::ask_all();
            (settled, returned) = (clients, released);
            pvwire_epics::give_back_free_memory();
        }
        (before, released_before) = (clients, released);
    }
}
