// The locations of the fields that each update needs, in the structures of one type.
#ifndef PVS_PLAN_HPP
#define PVS_PLAN_HPP

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

#include <pvxs/data.h>
#include <pvxs/version.h>

// Whether private parts of pvxs are used: only with the versions that this code was written for,
// since other versions may differ. Without them each field is looked up by name in every update.
// PVWIRE_PVXS_PUBLIC_API=1 at build time forces this for these versions too.
#if !defined(PVS_PUBLIC_API) && PVXS_VERSION >= VERSION_INT(1, 5, 0, 0) &&                         \
    PVXS_VERSION < VERSION_INT(1, 6, 0, 0)
#define PVS_PRIVATE_PARTS 1
#else
#define PVS_PRIVATE_PARTS 0
#endif

#if PVS_PRIVATE_PARTS
// pvxs declares this struct a friend of Value, so that its own code can reach the fields. Ours has
// members that the original does not have. A Value is a location among the fields of its structure
// and the description of what is there.
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
        // Offsets from the top's value and from the top's description.
        ptrdiff_t value = 0;
        ptrdiff_t description = 0;
        pvxs::TypeCode type;

        bool operator==(const Place &other) const {
            return value == other.value && description == other.description && type == other.type;
        }
    };

    std::array<Place, FIELDS> places;
    // Whether two structures of the type have their fields at the same offsets. This holds in every
    // pvxs so far, but is not guaranteed for future versions.
    bool same_places = false;

public:
    explicit Plan(const pvxs::Value &structure);

    // Compares with a second structure of the type.
    void compare(const pvxs::Value &structure);

    bool has_places_of(const Plan &other) const { return places == other.places; }

    // Null if the type has no such field.
    pvxs::TypeCode type(Field field) const { return places[field].type; }

    // Makes `found` refer to the field without sharing ownership of the memory: it is valid as long
    // as the structure exists. Returns false if the type has no such field.
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

    // The location of pvxs's description of a field that the type has; null if unknown.
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
    // The offset within a description, which is private to pvxs. If it is wrong, only an unneeded
    // cache line is fetched.
    static const ptrdiff_t DESCRIBED = 0x60;

    static void look_up(const pvxs::Value &structure, Field field, pvxs::Value &found);
};

// Identifies the type of a structure as long as its connection lives.
inline const void *type_of(const pvxs::Value &structure) {
#if PVS_PRIVATE_PARTS
    return pvxs::Value::Helper::pvs_description(structure);
#else
    // The text of the type id is part of pvxs's type information.
    static const char other = 0;
    const void *const id = structure.type() == pvxs::TypeCode::Struct
                               ? static_cast<const void *>(&structure.id())
                               : &other;
    return id;
#endif
}

// Plans of the types in use. Most monitors have one of a few types, whose plans stay in the
// processor's caches because they are shared.
class Plans {
    std::vector<std::weak_ptr<const Plan>> known;

public:
    std::shared_ptr<const Plan> of(const pvxs::Value &structure);
};

} // namespace pvs

#endif
