// Gets, puts and procedure calls.

#include <mutex>

#include <pvxs/nt.h>

#include "shim.hpp"

using pvxs::StoreType;
using pvxs::TypeCode;
using pvxs::Value;
namespace client = pvxs::client;

namespace pvs {

namespace {

// The top-level field on the path to a field, whose names are separated by dots.
std::string top(const std::string &name) { return name.substr(0, name.find('.')); }

// Whether a field is a structure whose value is written in its place, as that of a PV is.
bool is_normative(const Value &field) {
    if (field.type() != TypeCode::Struct || !field["value"].valid())
        return false;
    for (const char *id : {"epics:nt/NTScalar:", "epics:nt/NTScalarArray:", "epics:nt/NTEnum:"})
        if (field.id().compare(0, std::strlen(id), id) == 0)
            return true;
    return false;
}

// State shared by the callbacks of an operation. Used only on the thread of the context, except for
// `cancel`.
class Pending : public std::enable_shared_from_this<Pending> {
    const User user;
    const pvs_operation_calls calls;
    bool finished = false;
    // For a put: the server has confirmed the write.
    bool written = false;
    // For a put: the server has reported a failure, with this message.
    bool failed = false;
    std::string failure;
    // Guards the following members: whether anything may be started, and what was started.
    std::mutex lock;
    bool cancelled = false;
    // The read after a put, or a call.
    std::shared_ptr<client::Operation> next;

public:
    // Whether the channel is connected now.
    bool connected = false;
    // Whether the request may have been sent to the server.
    bool sent = false;
    // For a put: the sent value, with the fields that it sets marked.
    Value value;

    Pending(void *user, const pvs_operation_calls &calls)
        : user(user, calls.release), calls(calls) {}

    bool is_finished() const { return finished; }

    // From now on the server may receive the request.
    bool begin_to_send() {
        sent = sent || calls.sending(user.get()) != 0;
        return sent;
    }

    void finish(uint8_t outcome, const char *reason, const Items &items = Items()) {
        if (finished)
            return;
        finished = true;
        calls.done(user.get(), outcome, pvs_text{reason, std::strlen(reason)}, items.data(),
                   items.size());
    }

    // The connection broke.
    void lost() {
        if (written || failed)
            finish_put();
        else if (connected && sent)
            finish(PVS_DISCONNECTED, "disconnected");
        connected = false;
    }

    // Prevents any further start. Waits for a start in progress.
    void cancel() {
        std::shared_ptr<client::Operation> ended;
        const std::lock_guard<std::mutex> guard(lock);
        cancelled = true;
        ended.swap(next);
    }

    // A put was answered, and what the PV holds is not known.
    void finish_put() { finish(failed ? PVS_UNSURE : PVS_DONE, failure.c_str()); }

    // A put was answered. Reads back what it set, because servers limit and truncate values without
    // reporting it, and some report a failure after they have written the value. One that reports it before the
    // value was sent has written nothing.
    void on_put(client::Result &&result, pvs_context *context, const std::string &pv) noexcept {
        try {
            result();
            written = true;
        } catch (client::RemoteError &error) {
            if (!sent) {
                finish(PVS_REMOTE, error.what());
                return;
            }
            failed = true;
            failure = error.what();
        } catch (...) {
            on_result(std::move(result));
            return;
        }
        try {
            const std::lock_guard<std::mutex> guard(lock);
            if (cancelled)
                return;
            auto builder(context->context.get(pv));
            for (auto field : value.imarked())
                builder.field(top(value.nameOf(field)));
            const auto self(shared_from_this());
            next = builder.syncCancel(false)
                       .result([self](client::Result &&result) { self->on_read(result); })
                       .exec();
        } catch (...) {
            finish_put();
        }
    }

    // Starts a call if it may still be sent, and only once.
    template <typename Start> void send(Start &&start) noexcept {
        if (sent || finished || !begin_to_send())
            return;
        try {
            const std::lock_guard<std::mutex> guard(lock);
            if (!cancelled)
                next = start();
        } catch (std::exception &error) {
            finish(PVS_INVALID, error.what());
        } catch (...) {
            finish(PVS_INVALID, "an exception without a message");
        }
    }

    // Reports the first field that differs from the put value. An error of the read does not affect
    // the put.
    void on_read(client::Result &result) noexcept {
        Items items;
        try {
            const Value now(result());
            for (auto field : value.imarked()) {
                const Value held(now[value.nameOf(field)]);
                if (held && unlike(field, held)) {
                    if (failed) {
                        finish(PVS_REMOTE, failure.c_str());
                        return;
                    }
                    items.add(held, pvs_text{nullptr, 0});
                    break;
                }
            }
        } catch (...) {
        }
        if (failed)
            finish_put();
        else
            finish(PVS_DONE, "", items);
    }

    void on_result(client::Result &&result, bool is_wanted = true) noexcept {
        try {
            const Value value(result());
            Items items;
            if (value && is_wanted)
                items.add(value, pvs_text{nullptr, 0});
            finish(PVS_DONE, "", items);
        } catch (client::Disconnect &error) {
            finish(PVS_DISCONNECTED, error.what());
        } catch (client::RemoteError &error) {
            finish(PVS_REMOTE, error.what());
        } catch (std::exception &error) {
            finish(PVS_INVALID, error.what());
        } catch (...) {
            finish(PVS_INVALID, "an exception without a message");
        }
    }
};

typedef std::shared_ptr<Pending> SharedPending;

} // namespace

} // namespace pvs

using pvs::SharedPending;

struct pvs_operation {
    // For a put or call.
    SharedPending pending;
    // Destroyed after the operation.
    std::shared_ptr<client::Connect> watch;
    std::shared_ptr<client::Operation> operation;

    ~pvs_operation() {
        if (pending)
            pending->cancel();
    }
};

namespace {

template <typename Body>
pvs_operation *start(const pvs_operation_calls *calls, void *user, char *reason, size_t size,
                     Body &&body) {
    SharedPending pending;
    try {
        pending = std::make_shared<pvs::Pending>(user, *calls);
    } catch (...) {
        calls->release(user);
        pvs::say("no memory", reason, size);
        return nullptr;
    }
    return pvs::no_throw(reason, size, [&] {
        auto operation(std::make_unique<pvs_operation>());
        body(*operation, pending);
        return operation.release();
    });
}

// pvxs sends an operation again after a reconnect, even if the server carried it out before the
// connection broke. An operation with side effects must not be repeated, so it ends at the
// disconnect. It is not cancelled here, because pvxs is still shutting the channel down; the caller
// destroys it, which takes far less time than a reconnect.
std::shared_ptr<client::Connect> watch(pvs_context *context, const std::string &name,
                                       const SharedPending &pending, bool sends_at_once,
                                       const std::string &server = std::string()) {
    return context->context.connect(name)
        .server(server)
        .syncCancel(false)
        .onConnect([pending, sends_at_once] {
            pending->connected = true;
            if (sends_at_once)
                pending->begin_to_send();
        })
        .onDisconnect([pending] { pending->lost(); })
        .exec();
}

template <typename Builder> auto execute(Builder &&builder, const SharedPending &pending) {
    return builder.syncCancel(false)
        .result([pending](client::Result &&result) { pending->on_result(std::move(result)); })
        .exec();
}

} // namespace

pvs_operation *pvs_ask(pvs_context *context, pvs_text name, const pvs_operation_calls *calls,
                       void *user, char *reason, size_t size) {
    return start(calls, user, reason, size, [=](pvs_operation &self, const SharedPending &pending) {
        self.operation = context->context.info(pvs::string(name))
                             .syncCancel(false)
                             .result([pending](client::Result &&result) {
                                 pending->on_result(std::move(result), false);
                             })
                             .exec();
    });
}

pvs_operation *pvs_check(pvs_context *context, pvs_text name, pvs_text server,
                         const pvs_operation_calls *calls, void *user, char *reason, size_t size) {
    return start(calls, user, reason, size, [=](pvs_operation &self, const SharedPending &pending) {
        const std::string pv(pvs::string(name)), at(pvs::string(server));
        self.watch = watch(context, pv, pending, true, at);
        self.operation = context->context.get(pv)
                             .server(at)
                             .syncCancel(false)
                             .result([pending](client::Result &&result) {
                                 pending->on_result(std::move(result), false);
                             })
                             .exec();
    });
}

pvs_operation *pvs_get(pvs_context *context, pvs_text name, const pvs_operation_calls *calls,
                       void *user, char *reason, size_t size) {
    return start(calls, user, reason, size, [=](pvs_operation &self, const SharedPending &pending) {
        self.operation = execute(context->context.get(pvs::string(name)), pending);
    });
}

pvs_operation *pvs_put(pvs_context *context, pvs_text name, pvs_text field, const pvs_item *items,
                       size_t item_count, int wait, const pvs_operation_calls *calls, void *user,
                       char *reason, size_t size) {
    return start(calls, user, reason, size, [=](pvs_operation &self, const SharedPending &pending) {
        const std::string pv(pvs::string(name)), path(pvs::string(field));
        size_t at = 0;
        const Value argument(pvs::argument(items, item_count, at));
        self.watch = watch(context, pv, pending, false);
        auto builder(context->context.put(pv));
        // Fetches the choices of an enumeration, but not the elements of an array that is
        // overwritten.
        builder.fetchPresent(!argument.type().isarray());
        if (wait)
            builder.record("process", true).record("block", true);
        builder.build([pending, path, argument](Value &&present) {
            if (pending->sent || pending->is_finished())
                throw client::Disconnect();
            Value changed(present.cloneEmpty());
            const Value now(present);
            Value target(changed[path]), held(now[path]);
            if (!target)
                throw pvs::Refused("the structure has no field \"" + path + "\"");
            if (pvs::is_normative(target)) {
                target = target["value"];
                held = held["value"];
            }
            pvs::assign(target, held, argument);
            if (!pending->begin_to_send())
                throw client::Disconnect();
            pending->value = changed;
            return changed;
        });
        self.pending = pending;
        self.operation = builder.syncCancel(false)
                             .result([pending, context, pv](client::Result &&result) {
                                 pending->on_put(std::move(result), context, pv);
                             })
                             .exec();
    });
}

pvs_operation *pvs_rpc(pvs_context *context, pvs_text name, pvs_text server, const pvs_item *items,
                       size_t item_count, const pvs_operation_calls *calls, void *user,
                       char *reason, size_t size) {
    return start(calls, user, reason, size, [=](pvs_operation &self, const SharedPending &pending) {
        const std::string pv(pvs::string(name)), at(pvs::string(server));
        std::vector<pvxs::Member> members;
        std::vector<std::pair<std::string, Value>> arguments;
        for (size_t item = 0; item < item_count;) {
            const std::string argument_name(pvs::string(items[item].name));
            Value argument(pvs::argument(items, item_count, item));
            members.emplace_back(argument.type(), argument_name);
            arguments.emplace_back(argument_name, std::move(argument));
        }
        auto type(pvxs::nt::NTURI({}).build());
        type += {pvxs::members::Struct("query", members)};
        Value uri(type.create());
        uri["scheme"] = "pva";
        uri["path"] = pv;
        Value query(uri["query"]);
        for (auto &argument : arguments)
            query[argument.first].assign(argument.second);
        // Nothing is started before the service is found and the caller still wants the call: pvxs
        // would send it as soon as a connection exists.
        self.pending = pending;
        self.watch = context->context.connect(pv)
                         .server(at)
                         .syncCancel(false)
                         .onConnect([pending, context, pv, at, uri] {
                             pending->connected = true;
                             pending->send([&] {
                                 return execute(context->context.rpc(pv, uri).server(at), pending);
                             });
                         })
                         .onDisconnect([pending] { pending->lost(); })
                         .exec();
    });
}

void pvs_operation_destroy(pvs_operation *operation) { delete operation; }
