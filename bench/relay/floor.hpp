// What both programs of the floor have in common: the clock of this process's CPU time, and the
// measurement between two counts of the updates of each PV.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <ctime>
#include <thread>
#include <vector>

// CPU time of this process in nanoseconds.
inline double cpu_ns() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

// Updates of all PVs, of the PV with the fewest and of the one with the most, and the CPU time.
struct Measured {
    long all = 0, least = -1, most = 0;
    double cpu = 0;
};

// Measures for `seconds` after `warm_up`; `counts` returns the updates of each PV so far. Both
// arguments are words of the command line.
template <typename Counts> Measured measure(const char *warm_up, const char *seconds, Counts counts) {
    Measured measured;
    auto now = std::chrono::steady_clock::now();
    std::this_thread::sleep_until(now += std::chrono::seconds(std::atoi(warm_up)));
    const std::vector<long> before = counts();
    const double cpu_before = cpu_ns();
    std::this_thread::sleep_until(now += std::chrono::seconds(std::atoi(seconds)));
    measured.cpu = cpu_ns() - cpu_before;
    const std::vector<long> after = counts();
    for (std::size_t pv = 0; pv < after.size(); pv++) {
        const long count = after[pv] - before[pv];
        measured.all += count;
        measured.least = measured.least < 0 ? count : std::min(measured.least, count);
        measured.most = std::max(measured.most, count);
    }
    return measured;
}
