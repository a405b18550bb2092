// Cost of an update in pvxs alone. Monitors the PVs of a file as the relay does, throws each
// update away, and counts: `floor NAMES WARM_UP_S SECONDS` prints one line of JSON.
#include <atomic>
#include <cstdio>
#include <deque>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <pvxs/client.h>

#include "floor.hpp"

namespace client = pvxs::client;

int main(int, char **arguments) {
    std::ifstream file(arguments[1]);
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

    const auto counted = [&] { return std::vector<long>(counts.begin(), counts.end()); };
    const auto found = measure(arguments[2], arguments[3], counted);
    std::printf("{\"updates\": %ld, \"least\": %ld, \"most\": %ld, \"cpuNs\": %.0f, \"wrong\": %s}\n",
                found.all, found.least, found.most, found.cpu, is_wrong ? "true" : "false");
}
