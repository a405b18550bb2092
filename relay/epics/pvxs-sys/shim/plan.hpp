// Where the fields that each update needs are in the structures of one type.
#ifndef PVS_PLAN_HPP
#define PVS_PLAN_HPP

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <pvxs/data.h>
#include <pvxs/version.h>

// Whether what pvxs keeps to itself is used: only with the versions that this was written for, since
// nothing promises it for others. Without it each field is looked up by its name in every update.
// PVWIRE_PVXS_PUBLIC_API=1 at the build has it so with these versions, too.
#if !defined(PVS_PUBLIC_API) && PVXS_VERSION >= VERSION_INT(1, 5, 0, 0) &&                         \
    PVXS_VERSION < VERSION_INT(1, 6, 0, 0)
#define PVS_PRIVATE_PARTS 1
#else
#define PVS_PRIVATE_PARTS 0
#endif

#if PVS_PRIVATE_PARTS
// pvxs declares this struct a friend of Value, so that code of its own can reach the fields. Ours
// has members that its own has not. A Value is a place among the fields of its structure and the
// description of what is there.
struct pvxs::Value::Helper {
    static const char *pvs_description(const Value &value) {
        return reinterpret_cast<const char *>(value.desc);
    }

    static char *pvs_values(const Value &value) {
        return reinterpret_cast<char *>(value.store.get());
    }

    static void pvs_point(Value &field, char *value, const char *description) {
        typedef decltype(field.store) Store;
        field.store = Store(Store(), reinterpret_cast<decltype(field.store.get())>(value));
        field.desc = reinterpret_cast<decltype(field.desc)>(description);
    }
};
#endif

namespace pvs {

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

// Looking up these names takes longer than everything else that is done for a scalar update, so
// each is looked up once per connection.
class Plan {
    struct Place {
        // From the top's value, and from the top's description.
        ptrdiff_t value = 0;
        ptrdiff_t description = 0;
        pvxs::TypeCode type;

        bool operator==(const Place &other) const {
            return value == other.value && description == other.description && type == other.type;
        }
    };

    std::array<Place, FIELDS> places;
    // Whether two structures of the type have their fields in the same places. They have in every
    // pvxs so far; nothing promises it for the next.
    bool same_places = false;

public:
    explicit Plan(const pvxs::Value &structure);

    // Looks at a second structure of the type.
    void compare(const pvxs::Value &structure);

    bool has_places_of(const Plan &other) const { return places == other.places; }

    // Null when the type has no such field.
    pvxs::TypeCode type(Field field) const { return places[field].type; }

    // Lets `found` be the field, without a share in the memory: it can be used as long as the
    // structure is there. False when the type has no such field.
    bool find(const pvxs::Value &structure, Field field, pvxs::Value &found) const {
        const Place &place = places[field];
        if (place.type == pvxs::TypeCode::Null)
            return false;
#if PVS_PRIVATE_PARTS
        typedef pvxs::Value::Helper Raw;
        if (same_places) {
            Raw::pvs_point(found, Raw::pvs_values(structure) + place.value,
                           Raw::pvs_description(structure) + place.description);
            return true;
        }
#endif
        look_up(structure, field, found);
        return true;
    }

    // Where pvxs says what a field is that the type has; nowhere if that isn't known.
    const void *description(const pvxs::Value &structure, Field field) const {
#if PVS_PRIVATE_PARTS
        return pvxs::Value::Helper::pvs_description(structure) + places[field].description +
               DESCRIBED;
#else
        (void)structure;
        (void)field;
        return nullptr;
#endif
    }

private:
    // Within a description, which is pvxs's own; elsewhere another line would be fetched, and no more.
    static const ptrdiff_t DESCRIBED = 0x60;

    static void look_up(const pvxs::Value &structure, Field field, pvxs::Value &found);
};

// What stands for the type of a structure, as long as its connection lives.
inline const void *type_of(const pvxs::Value &structure) {
#if PVS_PRIVATE_PARTS
    return pvxs::Value::Helper::pvs_description(structure);
#else
    // The text of the type id is part of what pvxs knows of the type.
    static const char other = 0;
    const void *const id = structure.type() == pvxs::TypeCode::Struct
                               ? static_cast<const void *>(&structure.id())
                               : &other;
    return id;
#endif
}

// Plans of the types that are in use. Most monitors have one of a few, which stay in the
// processor's caches when they share them.
class Plans {
    std::vector<std::weak_ptr<const Plan>> known;

public:
    std::shared_ptr<const Plan> of(const pvxs::Value &structure);
};

} // namespace pvs

#endif
