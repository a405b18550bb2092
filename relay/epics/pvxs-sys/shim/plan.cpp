// Finds the fields of a pvxs structure without looking up their names.

#include "plan.hpp"

#include <algorithm>

using pvxs::Value;

namespace pvs {

namespace {

#if PVS_PRIVATE_PARTS
typedef Value::Helper Raw;
#endif

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

} // namespace

Plan::Plan(const Value &structure) {
    for (int field = 0; field < FIELDS; field++) {
        const Value found(structure[NAMES[field]]);
        if (!found)
            continue;
        Place &place = places[field];
        place.type = found.type();
#if PVS_PRIVATE_PARTS
        place.value = Raw::pvs_values(found) - Raw::pvs_values(structure);
        place.description = Raw::pvs_description(found) - Raw::pvs_description(structure);
#endif
    }
}

void Plan::compare(const Value &structure) {
#if PVS_PRIVATE_PARTS
    const Value other(structure.cloneEmpty());
    const Plan second(other);
    same_places = second.places == places &&
                  Raw::pvs_description(other) == Raw::pvs_description(structure);
#else
    (void)structure;
#endif
}

void Plan::look_up(const Value &structure, Field field, Value &found) {
    found = structure[NAMES[field]];
}

std::shared_ptr<const Plan> Plans::of(const Value &structure) {
    const auto plan = std::make_shared<Plan>(structure);
    bool some_gone = false;
    for (const auto &one : known) {
        const auto other = one.lock();
        some_gone |= !other;
        if (other && other->has_places_of(*plan))
            return other;
    }
    plan->compare(structure);
    if (some_gone)
        known.erase(std::remove_if(known.begin(), known.end(),
                                   [](const auto &one) { return one.expired(); }),
                    known.end());
    known.push_back(plan);
    return plan;
}

} // namespace pvs
