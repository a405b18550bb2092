//! The memory that this process may use: the limit of its control group (versions 1 and 2) and the
//! machine's memory.

use std::path::Path;

/// Budget when neither is known.
const WITHOUT_LIMIT_MIB: usize = 1_000_000;

/// Default of `max_memory_mib`: three quarters of the control group's limit, or half of the machine's memory
/// if that is less. The rest is for socket buffers and the file cache, which count against the limit but not
/// against the relay's budget.
pub(super) fn default_budget_mib(read: impl Fn(&Path) -> Option<String>) -> usize {
    let group = limit_bytes(&read).map(|bytes| bytes / 4 * 3);
    let machine = machine_bytes(&read).map(|bytes| bytes / 2);
    let least = group.into_iter().chain(machine).min();
    least.map_or(WITHOUT_LIMIT_MIB, |bytes| {
        let mib = usize::try_from(bytes >> 20).unwrap_or(usize::MAX);
        mib.clamp(1, WITHOUT_LIMIT_MIB)
    })
}

/// The machine's memory.
fn machine_bytes(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let info = read(Path::new("/proc/meminfo"))?;
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib = line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?;
    kib.checked_mul(1 << 10)
}

/// The smallest limit of this process's group and of those above it.
fn limit_bytes(read: impl Fn(&Path) -> Option<String>) -> Option<u64> {
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let limits = groups.lines().flat_map(|line| {
        // "0::/path" in version 2; "4:memory:/path" in version 1.
        let mut parts = line.splitn(3, ':');
        let (_, controllers, group) = (parts.next(), parts.next(), parts.next());
        let (root, file) = match controllers {
            Some("") => ("/sys/fs/cgroup", "memory.max"),
            Some(list) if list.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => return Vec::new(),
        };
        let group = Path::new(group.unwrap_or("/").trim_start_matches('/'));
        // A container sees its own group as the root, whatever /proc says.
        let folders = group.ancestors().map(|group| Path::new(root).join(group));
        folders
            .filter_map(|folder| read(&folder.join(file))?.trim().parse().ok())
            .collect()
    });
    // Version 1 has a number near 2^63 where version 2 has "max".
    limits.filter(|bytes| *bytes < 1 << 60).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(files: &[(&str, &str)]) -> usize {
        default_budget_mib(|path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        })
    }

    #[test]
    fn budget_is_three_quarters_of_the_limit_of_the_control_group() {
        let container = [
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "536870912\n"),
        ];
        assert_eq!(budget(&container), 384);
        let version_1 = [
            (
                "/proc/self/cgroup",
                "5:cpu:/\n4:cpu,memory:/pod/one\n0::/\n",
            ),
            (
                "/sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes",
                "1073741824\n",
            ),
            (
                "/sys/fs/cgroup/memory/pod/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
        ];
        assert_eq!(budget(&version_1), 768);
    }

    #[test]
    fn limit_of_a_group_above_counts_too() {
        let slice = [
            ("/proc/self/cgroup", "0::/system.slice/pvwire.service\n"),
            (
                "/sys/fs/cgroup/system.slice/pvwire.service/memory.max",
                "max\n",
            ),
            ("/sys/fs/cgroup/system.slice/memory.max", "268435456\n"),
        ];
        assert_eq!(budget(&slice), 192);
    }

    #[test]
    fn without_a_limit_the_budget_is_half_of_the_machines_memory() {
        assert_eq!(budget(&[]), WITHOUT_LIMIT_MIB);
        let unlimited = [
            (
                "/proc/meminfo",
                "MemTotal:       8388608 kB\nMemFree: 1 kB\n",
            ),
            ("/proc/self/cgroup", "0::/\n"),
            ("/sys/fs/cgroup/memory.max", "max\n"),
        ];
        assert_eq!(budget(&unlimited), 4096);
        let larger_than_the_machine = [
            unlimited[0],
            unlimited[1],
            ("/sys/fs/cgroup/memory.max", "17179869184\n"),
        ];
        assert_eq!(budget(&larger_than_the_machine), 4096);
    }
}
