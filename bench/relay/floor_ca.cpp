// Cost of an update in libca alone, and its time to a value of each PV. Monitors the PVs of a
// file as the relay does, throws each update away, and counts: `floor_ca NAMES WARM_UP_S SECONDS`
// prints one line of JSON. The warm-up begins when each PV has a value.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <cadef.h>

#include "floor.hpp"

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
    std::vector<std::string> names;
    for (std::string name; std::getline(file, name);)
        names.push_back(name);
    std::deque<Pv> pvs(names.size());
    const auto check = [](int status) {
        if (status != ECA_NORMAL)
            is_wrong = true;
    };
    check(ca_context_create(ca_enable_preemptive_callback));
    const auto requested = Clock::now();
    for (size_t pv = 0; pv < names.size(); pv++) {
        check(ca_create_channel(names[pv].c_str(), connected, &pvs[pv], 0, &pvs[pv].channel));
        check(ca_create_subscription(DBR_TIME_DOUBLE, 1, pvs[pv].channel, DBE_VALUE | DBE_ALARM, take,
                                     &pvs[pv], nullptr));
    }
    check(ca_flush_io());
    while (with_value < long(names.size()) && Clock::now() < requested + PATIENCE)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const double first_values_s = std::chrono::duration<double>(Clock::now() - requested).count();
    const double connect_cpu = cpu_ns();

    const auto counted = [&] {
        std::vector<long> counts;
        for (const auto &pv : pvs)
            counts.push_back(pv.count);
        return counts;
    };
    const auto found = measure(arguments[2], arguments[3], counted);
    std::printf("{\"updates\": %ld, \"least\": %ld, \"most\": %ld, \"cpuNs\": %.0f, \"firstValuesS\": %.4f, "
                "\"connectCpuNs\": %.0f, \"wrong\": %s}\n",
                found.all, found.least, found.most, found.cpu, first_values_s, connect_cpu,
                is_wrong || with_value < long(names.size()) ? "true" : "false");
    std::fflush(stdout);
    // The context isn't destroyed: it would take longer than all that was measured.
    std::_Exit(0);
}
