// Cost of an update in pvxs alone. Monitors the PVs of a file as the relay does, throws each
// update away, and counts: `floor NAMES WARM_UP_S SECONDS` prints one line of JSON.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pvxs/client.h>

namespace client = pvxs::client;

static double cpu_ns() {
    timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1e9 + now.tv_nsec;
}

int main(int, char **arguments) {
    std::ifstream file(arguments[1]);
    const std::chrono::seconds warm_up(std::atoi(arguments[2])), seconds(std::atoi(arguments[3]));
    // Written by the thread of the context alone, which ends before they do; a deque doesn't move them.
    std::deque<std::atomic<long>> counts;
    std::atomic<bool> is_wrong{false};
    auto context(client::Context::fromEnv());
    std::vector<std::shared_ptr<client::Subscription>> subscriptions;
    for (std::string name; std::getline(file, name);) {
        auto &count = counts.emplace_back(0);
        const auto take = [&count, &is_wrong](client::Subscription &from) {
            try {
                while (from.pop())
                    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
            } catch (...) {
                is_wrong = true;
            }
        };
        name.erase(0, std::string("pva://").size());
        subscriptions.push_back(context.monitor(name).event(take).exec());
    }

    const auto wait = [](auto until) { std::this_thread::sleep_until(until); };
    const auto told = [&] { return std::vector<long>(counts.begin(), counts.end()); };
    auto now = std::chrono::steady_clock::now();
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
    std::printf("{\"updates\": %ld, \"least\": %ld, \"most\": %ld, \"cpuNs\": %.0f, \"wrong\": %s}\n",
                all, least, most, cpu, is_wrong ? "true" : "false");
}
