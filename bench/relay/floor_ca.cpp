// Cost of an update in libca alone, and its time to a value of each PV. Monitors the PVs of a
// file as the relay does, throws each update away, and counts: `floor_ca NAMES WARM_UP_S SECONDS`
// prints one line of JSON. The warm-up begins when each PV has a value.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <cadef.h>

using Clock = std::chrono::steady_clock;

// How long all PVs together may take to have a value.
static const std::chrono::seconds PATIENCE(120);

struct Pv {
    // Written by the thread of its circuit alone.
    std::atomic<long> count{0};
    chid channel = nullptr;
};

static std::atomic<long> with_value{0};
static std::atomic<bool> is_wrong{false};

static double cpu_ns() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

static void take(event_handler_args event) {
    auto &count = static_cast<Pv *>(event.usr)->count;
    const long before = count.load(std::memory_order_relaxed);
    count.store(before + 1, std::memory_order_relaxed);
    if (event.status != ECA_NORMAL)
        is_wrong = true;
    if (before == 0)
        with_value++;
}

static void connected(connection_handler_args) {}

int main(int, char **arguments) {
    std::ifstream file(arguments[1]);
    const std::chrono::seconds warm_up(std::atoi(arguments[2])), seconds(std::atoi(arguments[3]));
    std::vector<std::string> names;
    for (std::string name; std::getline(file, name);)
        names.push_back(name);
    std::deque<Pv> pvs(names.size());
    const auto check = [](int status) {
        if (status != ECA_NORMAL)
            is_wrong = true;
    };
    check(ca_context_create(ca_enable_preemptive_callback));
    const auto asked = Clock::now();
    for (size_t pv = 0; pv < names.size(); pv++) {
        check(ca_create_channel(names[pv].c_str(), connected, &pvs[pv], 0, &pvs[pv].channel));
        check(ca_create_subscription(DBR_TIME_DOUBLE, 1, pvs[pv].channel, DBE_VALUE | DBE_ALARM, take,
                                     &pvs[pv], nullptr));
    }
    check(ca_flush_io());
    while (with_value < long(names.size()) && Clock::now() < asked + PATIENCE)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const double first_values_s = std::chrono::duration<double>(Clock::now() - asked).count();
    const double connect_cpu = cpu_ns();

    const auto wait = [](auto until) { std::this_thread::sleep_until(until); };
    const auto told = [&] {
        std::vector<long> counts;
        for (const auto &pv : pvs)
            counts.push_back(pv.count);
        return counts;
    };
    auto now = Clock::now();
    wait(now += warm_up);
    const auto before = told();
    const double cpu_before = cpu_ns();
    wait(now += seconds);
    const double cpu = cpu_ns() - cpu_before;
    const auto after = told();

    long all = 0, least = -1, most = 0;
    for (size_t pv = 0; pv < after.size(); pv++) {
        const long count = after[pv] - before[pv];
        all += count;
        least = least < 0 ? count : std::min(least, count);
        most = std::max(most, count);
    }
    std::printf("{\"updates\": %ld, \"least\": %ld, \"most\": %ld, \"cpuNs\": %.0f, \"firstValuesS\": %.4f, "
                "\"connectCpuNs\": %.0f, \"wrong\": %s}\n",
                all, least, most, cpu, first_values_s, connect_cpu,
                is_wrong || with_value < long(names.size()) ? "true" : "false");
    std::fflush(stdout);
    // The context isn't destroyed: it would take longer than all that was measured.
    std::_Exit(0);
}
