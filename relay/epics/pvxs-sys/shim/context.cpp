// Client contexts of pvxs, and the arrays that come from them.

// For the report on connections.
#define PVXS_ENABLE_EXPERT_API
#include <pvxs/log.h>

#include "shim.hpp"

using pvs::Array;

pvs_context *pvs_context_create(char *reason, size_t size) {
    return pvs::no_throw(reason, size, [] {
        if (!pvxs::version_abi_check())
            throw std::runtime_error("libpvxs is another version than this program was built with; "
                                     "build it again");
        pvxs::logger_config_env();
        return new pvs_context{pvxs::client::Context::fromEnv(), std::make_shared<pvs::Plans>()};
    });
}

uint64_t pvs_received(pvs_context *context, pvs_text peer) {
    uint64_t bytes = 0;
    try {
        const std::string wanted(pvs::string(peer));
        for (auto &connection : context->context.report(false).connections)
            if (connection.peer == wanted)
                bytes += connection.rx;
    } catch (...) {
        // The connection is unknown.
    }
    return bytes;
}

void pvs_context_destroy(pvs_context *context) {
    try {
        context->context.close();
    } catch (...) {
        // The destructor closes it too.
    }
    delete context;
}

const void *pvs_array_retain(const void *array) {
    char reason[1];
    return pvs::no_throw(reason, sizeof reason,
                         [=] { return new Array(*static_cast<const Array *>(array)); });
}

void pvs_array_release(const void *array) { delete static_cast<const Array *>(array); }
