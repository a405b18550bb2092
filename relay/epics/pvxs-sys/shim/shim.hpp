// Shared by the sources of the shim: owners, and conversion to and from items.
#ifndef PVS_SHIM_HPP
#define PVS_SHIM_HPP

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <pvxs/client.h>
#include <pvxs/data.h>

#include "plan.hpp"
#include "pvs.h"

struct pvs_context {
    pvxs::client::Context context;
    // For the structures of its monitors. Used only on the thread of the context.
    const std::shared_ptr<pvs::Plans> plans;
};

namespace pvs {

typedef pvxs::shared_array<const void> Array;

// A requested value cannot be put, with the reason.
struct Refused : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// A value has more parts than any meaningful one.
struct TooMany : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Owner of the caller's pointer.
class User {
    void *const pointer;
    void (*const release)(void *);

public:
    User(void *pointer, void (*release)(void *)) : pointer(pointer), release(release) {}
    User(const User &) = delete;
    User &operator=(const User &) = delete;
    ~User() { release(pointer); }
    void *get() const { return pointer; }
};

inline pvs_text text(const std::string &from) { return pvs_text{from.data(), from.size()}; }

inline std::string string(pvs_text from) { return std::string(from.bytes, from.length); }

inline void say(const char *what, char *reason, size_t size) {
    if (size) {
        const size_t length = std::min(std::strlen(what), size - 1);
        std::memcpy(reason, what, length);
        reason[length] = '\0';
    }
}

// Runs `body`, which returns a pointer; an exception is turned into a reason and null.
template <typename Body>
auto no_throw(char *reason, size_t size, Body &&body) noexcept -> decltype(body()) {
    try {
        return body();
    } catch (std::exception &error) {
        say(error.what(), reason, size);
    } catch (...) {
        say("an exception without a message", reason, size);
    }
    return nullptr;
}

// Values as items. Keeps the memory that the items point to, as long as the values live.
class Items {
    std::vector<pvs_item> items;
    // Elements of deques do not move.
    std::deque<std::string> texts;
    std::deque<Array> arrays;

    void add_children(const pvxs::Value &value, size_t at, unsigned depth);
    void expect(size_t more) const;

public:
    void add(const pvxs::Value &value, pvs_text name, unsigned depth = 0);
    const pvs_item *data() const { return items.data(); }
    size_t size() const { return items.size(); }
};

// The number of a scalar; false if the value is not a number.
bool number(const pvxs::Value &value, pvs_item &item);

// A new value with the content of the item at `at`. Advances `at` to the next item.
pvxs::Value argument(const pvs_item *items, size_t count, size_t &at);

// Sets a field of a structure fetched from the server to an argument. Throws Refused if the
// argument does not fit exactly. A choice may be given by its label. An array accepts a scalar as
// its only element, and an array of characters accepts a text.
void assign(pvxs::Value field, const pvxs::Value &present, const pvxs::Value &argument);

// Whether a field that was read back differs from the value sent.
bool unlike(const pvxs::Value &sent, const pvxs::Value &read);

} // namespace pvs

#endif
