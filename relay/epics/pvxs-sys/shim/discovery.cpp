// Servers that announce themselves, and the name servers of the configuration.

#include "shim.hpp"

namespace client = pvxs::client;

namespace {

// Shared by the callbacks of a discovery.
class Found {
    const pvs::User user;
    const pvs_server_calls calls;

public:
    Found(void *user, const pvs_server_calls &calls) : user(user, calls.release), calls(calls) {}

    void tell(const std::string &server, pvs_text guid, bool is_online) const {
        calls.found(user.get(), pvs::text(server), guid, is_online);
    }
};

} // namespace

struct pvs_discovery {
    // The connections to name servers, which send no beacons.
    std::vector<std::shared_ptr<client::Connect>> name_servers;
    std::shared_ptr<client::Operation> beacons;
};

pvs_discovery *pvs_discover(pvs_context *context, const pvs_server_calls *calls, void *user,
                            char *reason, size_t size) {
    std::shared_ptr<const Found> found;
    try {
        found = std::make_shared<const Found>(user, *calls);
    } catch (...) {
        calls->release(user);
        pvs::say("no memory", reason, size);
        return nullptr;
    }
    return pvs::no_throw(reason, size, [&] {
        auto self(std::make_unique<pvs_discovery>());
        client::Context &ctxt = context->context;
        for (const std::string &server : ctxt.config().nameServers) {
            auto tell = [found, server](bool is_online) {
                found->tell(server, pvs_text{nullptr, 0}, is_online);
            };
            self->name_servers.push_back(ctxt.connect("server")
                                             .server(server)
                                             .syncCancel(false)
                                             .onConnect([tell] { tell(true); })
                                             .onDisconnect([tell] { tell(false); })
                                             .exec());
        }
        self->beacons = ctxt.discover([found](const client::Discovered &event) {
                                const auto guid = reinterpret_cast<const char *>(event.guid.data());
                                found->tell(event.server, pvs_text{guid, event.guid.size()},
                                            event.event == client::Discovered::Online);
                            })
                            .pingAll(true)
                            .syncCancel(false)
                            .exec();
        return self.release();
    });
}

void pvs_discovery_destroy(pvs_discovery *discovery) { delete discovery; }
