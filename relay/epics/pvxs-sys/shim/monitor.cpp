// Turns the events of a pvxs subscription into calls.

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

#include "shim.hpp"

using pvxs::Kind;
using pvxs::StoreType;
using pvxs::TypeCode;
using pvxs::Value;
namespace client = pvxs::client;

namespace pvs {

namespace {

bool starts_with(const std::string &text, const char *start) {
    return text.compare(0, std::strlen(start), start) == 0;
}

bool is_scalar(TypeCode type) {
    return !type.isarray() && type.kind() != Kind::Compound && type.kind() != Kind::Null;
}

uint8_t kind_of(const Value &top, const Plan &plan) {
    if (top.type() != TypeCode::Struct)
        return PVS_STRUCTURE;
    const std::string &id = top.id();
    const TypeCode type = plan.type(VALUE), index = plan.type(INDEX);
    if (starts_with(id, "epics:nt/NTScalar:") && is_scalar(type))
        return PVS_SCALAR;
    if (starts_with(id, "epics:nt/NTScalarArray:") && type.isarray() &&
        type.kind() != Kind::Compound)
        return PVS_ARRAY;
    if (starts_with(id, "epics:nt/NTEnum:") && index.kind() == Kind::Integer &&
        !index.isarray() && plan.type(CHOICES) == TypeCode::StringA)
        return PVS_ENUM;
    return PVS_STRUCTURE;
}

void sign(uint64_t &signature, const void *bytes, size_t length) {
    // FNV-1a.
    for (size_t i = 0; i < length; i++)
        signature = (signature ^ static_cast<const unsigned char *>(bytes)[i]) * 0x100000001b3u;
}

void sign(uint64_t &signature, const std::string &text) {
    sign(signature, text.c_str(), text.size() + 1);
}

void sign(uint64_t &signature, const Value &value) {
    const TypeCode type = value.type();
    sign(signature, &type.code, sizeof type.code);
    if (type == TypeCode::Struct || type == TypeCode::Union) {
        sign(signature, value.id());
        for (auto child : value.ichildren()) {
            sign(signature, value.nameOf(child));
            sign(signature, child);
        }
        sign(signature, "", 1);
    } else if (type == TypeCode::StructA || type == TypeCode::UnionA) {
        sign(signature, value.cloneEmpty().allocMember());
    }
}

double real(const Value &structure, const char *field) {
    double number = std::numeric_limits<double>::quiet_NaN();
    const Value found(structure[field]);
    // Not of a string, which could also be read as a number.
    if (found.type().kind() == Kind::Real || found.type().kind() == Kind::Integer)
        found.as(number);
    return number;
}

std::string words(const Value &structure, const char *field) {
    std::string text;
    const Value found(structure[field]);
    if (found.type() == TypeCode::String)
        found.as(text);
    return text;
}

pvxs::shared_array<const std::string> strings(const Value &field) {
    if (field.type() != TypeCode::StringA)
        return {};
    Array array;
    field.copyOut(&array, StoreType::Array);
    return array.empty() ? pvxs::shared_array<const std::string>()
                         : array.castTo<const std::string>();
}

// When the metadata changes, one of these fields is marked as changed.
const Field METADATA[] = {DISPLAY, CONTROL, VALUE_ALARM, CHOICES, DESCRIPTOR};

// The cache lines that an update needs. Between two updates of a PV they leave the cache, and
// waiting for one after the other takes longer than the work itself. Therefore all of them are
// prefetched at once, while pvxs passes the update on.
class Lines {
    static const size_t LINE = 64;

    std::array<uintptr_t, 14> starts{};
    size_t count = 0;
    // The number of lines that don't depend on the type.
    size_t lasting = 0;

public:
    void add(const void *from, size_t bytes) {
        const auto start = reinterpret_cast<uintptr_t>(from);
        for (auto line = start - start % LINE; line < start + bytes; line += LINE)
            if (count < starts.size())
                starts[count++] = line;
    }

    // Lines added from now on can be removed.
    void keep() { lasting = count; }

    void forget() { count = lasting; }

    void fetch() const {
        for (size_t line = 0; line < count; line++)
            __builtin_prefetch(reinterpret_cast<const void *>(starts[line]));
    }
};

// The state of a subscription's callback. Used only on the thread of the context.
class Monitor {
    const User user;
    const pvs_monitor_calls &calls;
    Lines lines;
    const std::shared_ptr<Plans> plans;
    // The type of this connection; null before the first structure.
    const void *type = nullptr;
    std::shared_ptr<const Plan> plan;
    // Whether updates include the whole structure, whatever kind the type is reported as.
    const bool whole;
    uint8_t form = PVS_STRUCTURE;
    bool live = false;
    // Connected, and no value has arrived yet.
    bool awaited = false;
    // Whether the server has set the precision, if the field exists: a default of 0 is not a
    // precision.
    bool has_precision = false;
    // Not reported yet.
    uint64_t squashed = 0;
    // Kept so that its memory is reused.
    std::string message;
    std::string peer;

public:
    Monitor(void *user, const pvs_monitor_calls &calls, std::shared_ptr<Plans> plans, bool whole,
            const pvs_range *reads, size_t read_count)
        : user(user, calls.release), calls(calls), plans(std::move(plans)), whole(whole) {
        for (size_t read = 0; read < read_count; read++)
            lines.add(reads[read].start, reads[read].bytes);
        lines.keep();
    }

    void on_event(client::Subscription &subscription) noexcept {
        lines.fetch();
        client::SubscriptionStat counts;
        subscription.stats(counts, true);
        squashed += counts.nSrvSquash + counts.nCliSquash;
        for (;;) {
            try {
                Value structure(subscription.pop());
                if (!structure)
                    return;
                on_structure(structure);
            } catch (client::Connected &event) {
                // Reported with the type, when the first structure arrives.
                peer = event.peerName;
                awaited = true;
            } catch (client::Finished &) {
                fail("the server ended the monitor");
                on_gone();
            } catch (client::Disconnect &) {
                const bool is_known = awaited || live, had_values = !awaited;
                on_gone();
                if (is_known)
                    calls.broken(user.get(), text(peer), had_values);
            } catch (TooMany &error) {
                on_gone();
                calls.unreadable(user.get(), pvs_text{error.what(), std::strlen(error.what())});
            } catch (std::exception &error) {
                fail(error.what());
                on_gone();
            } catch (...) {
                fail("an exception without a message");
                on_gone();
            }
        }
    }

private:
    void fail(const char *reason) { calls.failed(user.get(), pvs_text{reason, std::strlen(reason)}); }

    void on_gone() {
        type = nullptr;
        squashed = 0;
        awaited = false;
        if (live) {
            live = false;
            calls.disconnected(user.get());
        }
    }

    void on_structure(Value &top) {
        awaited = false;
        const bool first = type_of(top) != type;
        if (first) {
            on_type(top);
            has_precision = is_precision_set(top);
            // A server may omit fields that have their default value.
            top.mark();
        }
        if (first) {
            tell_metadata(top);
        } else if (metadata_changed(top)) {
            has_precision |= is_precision_set(top);
            tell_metadata(top);
        }
        tell_update(top);
    }

    static bool is_precision_set(const Value &top) {
        const Value precision(top["display.precision"]);
        return precision && precision.isMarked(true, false);
    }

    void on_type(const Value &top) {
        plan = plans->of(top);
        type = type_of(top);
        lines.forget();
        for (const Field field : METADATA)
            if (plan->type(field) != TypeCode::Null)
                lines.add(plan->description(top, field), 1);
        const uint8_t kind = kind_of(top, *plan);
        form = whole ? uint8_t(PVS_STRUCTURE) : kind;
        pvs_type told;
        told.id = top.type() == TypeCode::Struct ? text(top.id()) : pvs_text{nullptr, 0};
        told.signature = 0xcbf29ce484222325u;
        sign(told.signature, top);
        told.kind = kind;
        told.code = plan->type(VALUE).code;
        told.peer = text(peer);
        live = true;
        calls.connected(user.get(), &told);
    }

    bool metadata_changed(const Value &top) const {
        Value found;
        for (const Field field : METADATA)
            if (plan->find(top, field, found) && found.isMarked(true, true))
                return true;
        return false;
    }

    void tell_metadata(const Value &top) const {
        const std::string units(words(top, "display.units"));
        std::string description(words(top, "display.description"));
        if (description.empty())
            description = words(top, "descriptor");
        std::string form;
        const auto forms(strings(top["display.form.choices"]));
        const double form_index = real(top, "display.form.index");
        if (form_index >= 0 && form_index < double(forms.size()))
            form = forms[size_t(form_index)];
        Value found;
        const auto labels(plan->find(top, CHOICES, found) ? strings(found) : strings(Value()));
        std::vector<pvs_text> choices;
        for (auto &label : labels)
            choices.push_back(text(label));

        pvs_metadata metadata;
        metadata.units = text(units);
        metadata.form = text(form);
        metadata.description = text(description);
        metadata.choices = choices.data();
        metadata.choice_count = choices.size();
        metadata.display_low = real(top, "display.limitLow");
        metadata.display_high = real(top, "display.limitHigh");
        metadata.control_low = real(top, "control.limitLow");
        metadata.control_high = real(top, "control.limitHigh");
        metadata.control_min_step = real(top, "control.minStep");
        metadata.alarm_low = real(top, "valueAlarm.lowAlarmLimit");
        metadata.warning_low = real(top, "valueAlarm.lowWarningLimit");
        metadata.warning_high = real(top, "valueAlarm.highWarningLimit");
        metadata.alarm_high = real(top, "valueAlarm.highAlarmLimit");
        const double precision = real(top, "display.precision");
        metadata.has_precision = !std::isnan(precision) && (has_precision || precision != 0);
        metadata.precision = metadata.has_precision ? int32_t(precision) : 0;
        calls.metadata(user.get(), &metadata);
    }

    int64_t integer(const Value &top, Field field, Value &found, int64_t absent = 0) const {
        const TypeCode type = plan->type(field);
        int64_t number = absent;
        // A server may give the field any type.
        if (type.kind() == Kind::Integer && !type.isarray() && plan->find(top, field, found))
            found.copyOut(&number, StoreType::Integer);
        return number;
    }

    static constexpr int64_t ABSENT = std::numeric_limits<int64_t>::min();

    // A severity or status: -1 if it is absent, and the largest number for one that no alarm has.
    static int32_t alarm_number(int64_t number) {
        const int64_t most = std::numeric_limits<int32_t>::max();
        if (number == ABSENT)
            return -1;
        return int32_t(number < 0 ? most : std::min(number, most));
    }

    void tell_update(const Value &top) {
        pvs_update update;
        // Shared by all fields, so that it isn't constructed and destroyed for each.
        Value found;
        const auto seconds = __int128(integer(top, SECONDS, found)) * 1000000000;
        const auto stamp = seconds + integer(top, NANOSECONDS, found);
        // No time: a record that was never processed has the start of the EPICS epoch.
        const __int128 never = __int128(631152000) * 1000000000;
        // Nor one that 64 bits can't hold, before 1677 or after 2262.
        const bool is_time = stamp != never && stamp == int64_t(stamp);
        update.time_ns = is_time ? int64_t(stamp) : 0;
        update.user_tag = int32_t(integer(top, USER_TAG, found));
        update.severity = alarm_number(integer(top, SEVERITY, found, ABSENT));
        update.status = alarm_number(integer(top, STATUS, found));
        message.clear();
        if (plan->type(MESSAGE) == TypeCode::String && plan->find(top, MESSAGE, found))
            found.copyOut(&message, StoreType::String);
        update.message = text(message);
        update.squashed = squashed;
        squashed = 0;

        if (form == PVS_SCALAR || form == PVS_ENUM) {
            const Field field = form == PVS_ENUM ? INDEX : VALUE;
            pvs_item item;
            std::memset(&item, 0, sizeof item);
            item.type = plan->type(field).code;
            item.changed = 1;
            if (plan->find(top, field, found) && number(found, item)) {
                update.items = &item;
                update.item_count = 1;
                calls.update(user.get(), &update);
                return;
            }
        }
        Items items;
        items.add(form == PVS_STRUCTURE ? top : top["value"], pvs_text{nullptr, 0});
        update.items = items.data();
        update.item_count = items.size();
        calls.update(user.get(), &update);
    }
};

} // namespace

} // namespace pvs

struct pvs_monitor {
    std::shared_ptr<client::Subscription> subscription;
};

pvs_monitor *pvs_monitor_create(pvs_context *context, pvs_text name, int whole,
                                const pvs_monitor_calls *calls, void *user,
                                const pvs_range *reads, size_t read_count, char *reason,
                                size_t size) {
    std::shared_ptr<pvs::Monitor> monitor;
    try {
        monitor = std::make_shared<pvs::Monitor>(user, *calls, context->plans, whole != 0, reads,
                                                 read_count);
    } catch (...) {
        calls->release(user);
        pvs::say("no memory", reason, size);
        return nullptr;
    }
    return pvs::no_throw(reason, size, [&] {
        auto created(std::make_unique<pvs_monitor>());
        created->subscription =
            context->context.monitor(pvs::string(name))
                .maskConnected(false)
                .maskDisconnected(false)
                .syncCancel(false)
                .event([monitor](client::Subscription &from) { monitor->on_event(from); })
                .exec();
        return created.release();
    });
}

void pvs_monitor_destroy(pvs_monitor *monitor) { delete monitor; }
