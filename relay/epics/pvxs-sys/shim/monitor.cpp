// How do the events of a subscription of pvxs become calls?

#include <cmath>
#include <limits>

#include "shim.hpp"

using pvxs::Kind;
using pvxs::StoreType;
using pvxs::TypeCode;
using pvxs::Value;
namespace client = pvxs::client;

// pvxs declares this struct a friend of Value, so that code of its own can reach the fields. Ours
// has members that its own has not. A Value is a place among the fields of its structure and the
// description of what is there.
struct pvxs::Value::Helper {
    typedef impl::FieldDesc Description;

    static const Description *pvs_description(const Value &value) { return value.desc; }

    static ptrdiff_t pvs_offset(const Value &top, const Value &field) {
        return reinterpret_cast<const char *>(field.store.get()) -
               reinterpret_cast<const char *>(top.store.get());
    }

    static Value pvs_at(const Value &top, ptrdiff_t offset, const Description *description) {
        auto place = reinterpret_cast<char *>(top.store.get()) + offset;
        Value field;
        field.store = decltype(field.store)(
            top.store, reinterpret_cast<decltype(field.store.get())>(place));
        field.desc = description;
        return field;
    }
};

namespace pvs {

namespace {

typedef Value::Helper Raw;

enum Field {
    VALUE,
    INDEX,
    CHOICES,
    SEVERITY,
    STATUS,
    MESSAGE,
    SECONDS,
    NANOSECONDS,
    USER_TAG,
    DISPLAY,
    CONTROL,
    VALUE_ALARM,
    DESCRIPTOR,
    FIELDS
};

const char *const NAMES[FIELDS] = {
    "value",
    "value.index",
    "value.choices",
    "alarm.severity",
    "alarm.status",
    "alarm.message",
    "timeStamp.secondsPastEpoch",
    "timeStamp.nanoseconds",
    "timeStamp.userTag",
    "display",
    "control",
    "valueAlarm",
    "descriptor",
};

// Where the fields are in the structures of one type. Looking up nine names takes longer than all
// else that is done for an update of a scalar, so each is looked up once for a connection.
class Plan {
    const Raw::Description *top = nullptr;
    struct Place {
        ptrdiff_t offset;
        const Raw::Description *description;
    } places[FIELDS];
    // Whether two structures of the type have their fields in the same places. They have in every
    // pvxs so far; nothing promises it for the next.
    bool same_places = false;

    static const Value lookup(const Value &structure, int field) {
        return structure[NAMES[field]];
    }

public:
    void forget() { top = nullptr; }

    // A description lives as long as the connection, so its address stands for the type.
    bool fits(const Value &structure) const {
        return top && top == Raw::pvs_description(structure);
    }

    void make(const Value &structure) {
        const Value other(structure.cloneEmpty());
        same_places = true;
        for (int field = 0; field < FIELDS; field++) {
            const Value found(lookup(structure, field));
            places[field] = Place{0, Raw::pvs_description(found)};
            if (!found)
                continue;
            places[field].offset = Raw::pvs_offset(structure, found);
            const Value second(lookup(other, field));
            same_places &= Raw::pvs_description(second) == places[field].description &&
                           Raw::pvs_offset(other, second) == places[field].offset;
        }
        top = Raw::pvs_description(structure);
    }

    // An empty Value when the type has no such field.
    Value at(const Value &structure, Field field) const {
        const Place &place = places[field];
        if (!place.description)
            return Value();
        if (!same_places)
            return lookup(structure, field);
        return Raw::pvs_at(structure, place.offset, place.description);
    }
};

bool starts_with(const std::string &text, const char *start) {
    return text.compare(0, std::strlen(start), start) == 0;
}

bool is_scalar(TypeCode type) {
    return !type.isarray() && type.kind() != Kind::Compound && type.kind() != Kind::Null;
}

uint8_t kind_of(const Value &top, const Value &value, const Value &index, const Value &choices) {
    if (top.type() != TypeCode::Struct)
        return PVS_STRUCTURE;
    const std::string &id = top.id();
    const TypeCode type = value.type();
    if (starts_with(id, "epics:nt/NTScalar:") && is_scalar(type))
        return PVS_SCALAR;
    if (starts_with(id, "epics:nt/NTScalarArray:") && type.isarray() &&
        type.kind() != Kind::Compound)
        return PVS_ARRAY;
    if (starts_with(id, "epics:nt/NTEnum:") && index.type().kind() == Kind::Integer &&
        !index.type().isarray() && choices.type() == TypeCode::StringA)
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
    // Not of a string, which could be read as a number too.
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

// What the callback of a subscription needs. Used on the thread of the context only.
class Monitor {
    const User user;
    const pvs_monitor_calls calls;
    Plan plan;
    uint8_t kind = PVS_STRUCTURE;
    bool live = false;
    // Not told yet.
    uint64_t squashed = 0;
    // Kept, so that its memory is used again.
    std::string message;

public:
    Monitor(void *user, const pvs_monitor_calls &calls)
        : user(user, calls.release), calls(calls) {}

    void on_event(client::Subscription &subscription) noexcept {
        client::SubscriptionStat counts;
        subscription.stats(counts, true);
        squashed += counts.nSrvSquash + counts.nCliSquash;
        for (;;) {
            try {
                Value structure(subscription.pop());
                if (!structure)
                    return;
                on_structure(structure);
            } catch (client::Connected &) {
                // Told with the type, when the first structure comes.
            } catch (client::Finished &) {
                on_gone();
                fail("the server ended the monitor");
            } catch (client::Disconnect &) {
                on_gone();
            } catch (std::exception &error) {
                on_gone();
                fail(error.what());
            } catch (...) {
                on_gone();
                fail("an exception without a message");
            }
        }
    }

private:
    void fail(const char *reason) { calls.failed(user.get(), pvs_text{reason, std::strlen(reason)}); }

    void on_gone() {
        plan.forget();
        squashed = 0;
        if (live) {
            live = false;
            calls.disconnected(user.get());
        }
    }

    void on_structure(Value &top) {
        const bool first = !plan.fits(top);
        if (first) {
            on_type(top);
            // A server may leave out what has the value that it has by default.
            top.mark();
        }
        if (first || marked(top, DISPLAY) || marked(top, CONTROL) || marked(top, VALUE_ALARM) ||
            marked(top, CHOICES) || marked(top, DESCRIPTOR))
            tell_metadata(top);
        tell_update(top);
    }

    void on_type(const Value &top) {
        plan.make(top);
        const Value value(plan.at(top, VALUE));
        kind = kind_of(top, value, plan.at(top, INDEX), plan.at(top, CHOICES));
        pvs_type type;
        type.id = top.type() == TypeCode::Struct ? text(top.id()) : pvs_text{nullptr, 0};
        type.signature = 0xcbf29ce484222325u;
        sign(type.signature, top);
        type.kind = kind;
        type.code = value.type().code;
        live = true;
        calls.connected(user.get(), &type);
    }

    bool marked(const Value &top, Field field) const {
        return plan.at(top, field).isMarked(true, true);
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
        const auto labels(strings(plan.at(top, CHOICES)));
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
        metadata.has_precision = !std::isnan(precision);
        metadata.precision = metadata.has_precision ? int32_t(precision) : 0;
        calls.metadata(user.get(), &metadata);
    }

    int64_t integer(const Value &top, Field field) const {
        const Value found(plan.at(top, field));
        int64_t number = 0;
        // A server may give the field any type.
        if (found.type().kind() == Kind::Integer && !found.type().isarray())
            found.copyOut(&number, StoreType::Integer);
        return number;
    }

    void tell_update(const Value &top) {
        pvs_update update;
        const auto seconds = __int128(integer(top, SECONDS)) * 1000000000;
        const auto stamp = seconds + integer(top, NANOSECONDS);
        const __int128 most = std::numeric_limits<int64_t>::max();
        update.time_ns = int64_t(std::max(-most - 1, std::min(most, stamp)));
        update.user_tag = int32_t(integer(top, USER_TAG));
        update.severity = int32_t(integer(top, SEVERITY));
        update.status = int32_t(integer(top, STATUS));
        message.clear();
        const Value said(plan.at(top, MESSAGE));
        if (said.type() == TypeCode::String)
            said.copyOut(&message, StoreType::String);
        update.message = text(message);
        update.squashed = squashed;
        squashed = 0;

        if (kind == PVS_SCALAR || kind == PVS_ENUM) {
            const Value value(plan.at(top, kind == PVS_ENUM ? INDEX : VALUE));
            pvs_item item;
            std::memset(&item, 0, sizeof item);
            item.type = value.type().code;
            item.changed = 1;
            if (number(value, item)) {
                update.items = &item;
                update.item_count = 1;
                calls.update(user.get(), &update);
                return;
            }
        }
        Items items;
        items.add(kind == PVS_STRUCTURE ? top : plan.at(top, VALUE), pvs_text{nullptr, 0});
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

pvs_monitor *pvs_monitor_create(pvs_context *context, pvs_text name,
                                const pvs_monitor_calls *calls, void *user, char *reason,
                                size_t size) {
    std::shared_ptr<pvs::Monitor> monitor;
    try {
        monitor = std::make_shared<pvs::Monitor>(user, *calls);
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
