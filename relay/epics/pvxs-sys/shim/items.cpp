// Converts values of pvxs to items, and items to a value to put.

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "shim.hpp"

using pvxs::ArrayType;
using pvxs::Kind;
using pvxs::StoreType;
using pvxs::TypeCode;
using pvxs::Value;

namespace pvs {

namespace {

// Deeper than any meaningful structure; without this limit a server could exhaust the stack.
constexpr unsigned MAX_DEPTH = 64;

// More parts than any meaningful structure has. An absent element takes one byte on the wire, a
// hundred bytes here, and as many again in later stages.
constexpr size_t MAX_ITEMS = 1000000;

constexpr uint8_t ABSENT = 0xff;

pvs_item empty_item() {
    pvs_item item;
    std::memset(&item, 0, sizeof item);
    item.type = ABSENT;
    return item;
}

} // namespace

bool number(const Value &value, pvs_item &item) {
    switch (value.storageType()) {
    case StoreType::Real:
        value.copyOut(&item.number.real, StoreType::Real);
        return true;
    case StoreType::Integer:
        value.copyOut(&item.number.integer, StoreType::Integer);
        return true;
    case StoreType::UInteger:
    case StoreType::Bool:
        value.copyOut(&item.number.uinteger, StoreType::UInteger);
        return true;
    default:
        return false;
    }
}

void Items::expect(size_t more) const {
    if (more > MAX_ITEMS || items.size() > MAX_ITEMS - more)
        throw TooMany("the value has more than " + std::to_string(MAX_ITEMS) +
                      " strings, structures and elements of these");
}

void Items::add(const Value &value, pvs_text name, unsigned depth) {
    expect(1);
    const size_t at = items.size();
    items.push_back(empty_item());
    items[at].name = name;
    if (!value || depth > MAX_DEPTH)
        return;
    items[at].type = value.type().code;
    items[at].changed = value.isMarked(true, true);
    if (number(value, items[at]))
        return;
    if (value.storageType() == StoreType::String) {
        texts.emplace_back();
        value.copyOut(&texts.back(), StoreType::String);
        items[at].text = text(texts.back());
        return;
    }
    add_children(value, at, depth);
}

// `items` grows meanwhile, so the parent is referred to by its index.
void Items::add_children(const Value &value, size_t at, unsigned depth) {
    const TypeCode type = value.type();
    uint32_t children = 0;
    if (type == TypeCode::Struct) {
        items[at].id = text(value.id());
        for (auto child : value.ichildren()) {
            add(child, text(value.nameOf(child)), depth + 1);
            children++;
        }
    } else if (type == TypeCode::Union || type == TypeCode::Any) {
        if (type == TypeCode::Union)
            items[at].id = text(value.id());
        Value selected;
        value.copyOut(&selected, StoreType::Compound);
        if (selected) {
            const bool named = type == TypeCode::Union;
            add(selected, named ? text(value.nameOf(selected)) : pvs_text{nullptr, 0}, depth + 1);
            children++;
        }
    } else if (type.isarray()) {
        arrays.emplace_back();
        Array &array = arrays.back();
        value.copyOut(&array, StoreType::Array);
        items[at].count = array.size();
        if (array.empty()) {
            // Also if it has no type yet.
        } else if (type == TypeCode::StringA) {
            expect(array.size());
            for (auto &string : array.castTo<const std::string>()) {
                items.push_back(empty_item());
                items.back().type = TypeCode::String;
                items.back().text = text(string);
                children++;
            }
        } else if (type.kind() == Kind::Compound) {
            expect(array.size());
            for (auto &element : array.castTo<const Value>()) {
                add(element, pvs_text{nullptr, 0}, depth + 1);
                children++;
            }
        } else {
            items[at].array = &array;
            items[at].elements = array.data();
        }
    }
    items[at].children = children;
}

Value argument(const pvs_item *items, size_t count, size_t &at) {
    if (at >= count)
        throw Refused("no value is given");
    const pvs_item &item = items[at++];
    const TypeCode type(item.type);
    Value value(pvxs::TypeDef(type).create());
    if (type == TypeCode::StringA) {
        pvxs::shared_array<std::string> strings(item.children);
        for (auto &each : strings) {
            if (at >= count)
                throw Refused("a string array is cut short");
            each = string(items[at++].text);
        }
        value.from(strings.freeze());
    } else if (type.isarray()) {
        auto array(pvxs::allocArray(type.arrayType(), item.count));
        if (item.count)
            std::memcpy(array.data(), item.elements, item.count * type.size());
        value.from(array.freeze());
    } else {
        switch (type.storedAs()) {
        case StoreType::Real:
            value.from(item.number.real);
            break;
        case StoreType::Integer:
            value.from(item.number.integer);
            break;
        case StoreType::UInteger:
            value.from(item.number.uinteger);
            break;
        case StoreType::Bool:
            value.from(item.number.uinteger != 0);
            break;
        case StoreType::String:
            value.from(string(item.text));
            break;
        default:
            throw Refused(std::string("cannot send a ") + type.name());
        }
    }
    return value;
}

namespace {

std::string spelled(const Value &argument) {
    if (argument.storageType() == StoreType::Real) {
        // The shortest text that reads as the same number.
        const double number = argument.as<double>();
        char digits[32];
        for (int precision = 15; precision <= 17; precision++) {
            std::snprintf(digits, sizeof digits, "%.*g", precision, number);
            if (std::strtod(digits, nullptr) == number)
                break;
        }
        return digits;
    }
    return argument.as<std::string>();
}

[[noreturn]] void does_not_fit(const Value &argument, const char *type) {
    throw Refused("\"" + spelled(argument) + "\" does not fit " + type);
}

// 65 bits, enough for every signed and unsigned integer.
struct Integer {
    bool negative;
    uint64_t bits;
};

// What a user may type around a value.
const char BLANKS[] = " \t\r\n";

// Decimal digits, or hexadecimal ones after 0x. pvxs would read those after a leading zero as octal.
Integer parsed(const std::string &text) {
    const size_t first = text.find_first_not_of(BLANKS);
    const size_t last = text.find_last_not_of(BLANKS);
    if (first == std::string::npos)
        throw std::invalid_argument("empty");
    std::string digits(text.substr(first, last - first + 1));
    const bool negative = digits[0] == '-';
    if (negative || digits[0] == '+')
        digits.erase(0, 1);
    const bool hex = digits.size() > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
    if (hex)
        digits.erase(0, 2);
    const char *all = hex ? "0123456789abcdefABCDEF" : "0123456789";
    if (digits.empty() || digits.find_first_not_of(all) != std::string::npos)
        throw std::invalid_argument("not an integer");
    const uint64_t size = std::stoull(digits, nullptr, hex ? 16 : 10);
    if (negative && size > uint64_t(1) << 63)
        throw std::out_of_range("more than 64 bits");
    return {negative && size != 0, negative ? 0 - size : size};
}

// The integer that a text is, also with a point or an exponent: "2.0", "1e3".
Integer integer_in(const std::string &text, const Value &argument) {
    try {
        return parsed(text);
    } catch (std::exception &) {
    }
    double number = std::numeric_limits<double>::quiet_NaN();
    try {
        number = argument.as<double>();
    } catch (std::exception &) {
    }
    // Larger ones may have been rounded.
    if (number != std::floor(number) || std::fabs(number) > 0x1p53)
        throw Refused("\"" + text + "\" is not an integer");
    return {number < 0, uint64_t(int64_t(number))};
}

Integer integer(const Value &argument, const char *type) {
    switch (argument.storageType()) {
    case StoreType::Real: {
        const double number = argument.as<double>();
        const bool fits = number == std::floor(number) && number >= -0x1p63 && number < 0x1p64;
        if (!fits)
            does_not_fit(argument, type);
        if (number < 0)
            return {true, uint64_t(int64_t(number))};
        return {false, uint64_t(number)};
    }
    case StoreType::Integer: {
        const auto number = argument.as<int64_t>();
        return {number < 0, uint64_t(number)};
    }
    case StoreType::UInteger:
    case StoreType::Bool:
        return {false, argument.as<uint64_t>()};
    default:
        return integer_in(argument.as<std::string>(), argument);
    }
}

void assign_integer(Value &field, const Value &argument) {
    const TypeCode type = field.type();
    const Integer given = integer(argument, type.name());
    const unsigned bits = 8u * type.size();
    if (type.isunsigned()) {
        if (given.negative || (bits < 64 && given.bits >> bits))
            does_not_fit(argument, type.name());
        field.from(given.bits);
    } else {
        const auto number = int64_t(given.bits);
        const int64_t most = std::numeric_limits<int64_t>::max() >> (64 - bits);
        const bool above = !given.negative && given.bits > uint64_t(most);
        const bool below = given.negative && number < -most - 1;
        if (above || below)
            does_not_fit(argument, type.name());
        field.from(number);
    }
}

void assign_real(Value &field, const Value &argument) {
    double number;
    try {
        number = argument.as<double>();
    } catch (std::exception &) {
        throw Refused("\"" + spelled(argument) + "\" is not a number");
    }
    const bool too_big = field.type() == TypeCode::Float32 && std::isfinite(number) &&
                         !std::isfinite(float(number));
    if (too_big)
        does_not_fit(argument, field.type().name());
    field.from(number);
}

void assign_bool(Value &field, const Value &argument) {
    if (argument.storageType() == StoreType::String) {
        const auto word = argument.as<std::string>();
        const size_t first = std::min(word.find_first_not_of(BLANKS), word.size());
        const std::string bare(word.substr(first, word.find_last_not_of(BLANKS) + 1 - first));
        const bool is_true = bare == "true" || bare == "1";
        if (!is_true && bare != "false" && bare != "0")
            throw Refused("\"" + word + "\" is neither true nor false, 1 nor 0");
        field.from(is_true);
        return;
    }
    const double number = argument.as<double>();
    if (number != 0 && number != 1)
        does_not_fit(argument, field.type().name());
    field.from(number == 1);
}

template <typename E> bool same(const void *a, const void *b, size_t count) {
    auto first = static_cast<const E *>(a);
    return std::equal(first, first + count, static_cast<const E *>(b));
}

bool same(ArrayType type, const void *a, const void *b, size_t count) {
    switch (type) {
    case ArrayType::Float32:
        return same<float>(a, b, count);
    case ArrayType::Float64:
        return same<double>(a, b, count);
    default:
        return std::memcmp(a, b, count * pvxs::elementSize(type)) == 0;
    }
}

bool has_negative(ArrayType type, const void *elements, size_t count) {
    const auto numbers(pvxs::detail::copyAs(ArrayType::Int64, type, elements, count));
    auto first = static_cast<const int64_t *>(numbers.data());
    return std::any_of(first, first + count, [](int64_t number) { return number < 0; });
}

// Whether an element is negative in only one of two arrays of integers.
bool changes_sign(TypeCode from, const void *before, TypeCode to, const void *after, size_t count) {
    if (from.kind() != Kind::Integer || from.isunsigned() == to.isunsigned())
        return false;
    return from.isunsigned() ? has_negative(to.arrayType(), after, count)
                             : has_negative(from.arrayType(), before, count);
}

// An array whose only element is the argument.
void assign_element(Value &field, const Value &argument) {
    const TypeCode type = field.type().scalarOf();
    Value element(pvxs::TypeDef(type).create());
    assign(element, Value(), argument);
    if (type == TypeCode::String) {
        pvxs::shared_array<std::string> texts(1, element.as<std::string>());
        field.from(texts.freeze());
        return;
    }
    pvs_item held;
    number(element, held);
    const ArrayType to = field.type().arrayType();
    const StoreType from = element.storageType();
    auto array(from == StoreType::Real
                   ? pvxs::detail::copyAs(to, ArrayType::Float64, &held.number.real, 1)
               : from == StoreType::Integer
                   ? pvxs::detail::copyAs(to, ArrayType::Int64, &held.number.integer, 1)
                   : pvxs::detail::copyAs(to, ArrayType::UInt64, &held.number.uinteger, 1));
    const Array frozen(array.freeze());
    field.copyIn(&frozen, StoreType::Array);
}

void assign_array(Value &field, const Value &argument) {
    const TypeCode to = field.type();
    const TypeCode from = argument.type();
    const bool of_characters = to == TypeCode::Int8A || to == TypeCode::UInt8A;
    if (from == TypeCode::String && of_characters) {
        const auto text = argument.as<std::string>();
        auto array(pvxs::allocArray(to.arrayType(), text.size()));
        std::copy(text.begin(), text.end(), static_cast<char *>(array.data()));
        const Array frozen(array.freeze());
        field.copyIn(&frozen, StoreType::Array);
        return;
    }
    if (!from.isarray()) {
        assign_element(field, argument);
        return;
    }
    Array array;
    argument.copyOut(&array, StoreType::Array);
    if (array.empty() || from == to) {
        field.copyIn(&array, StoreType::Array);
        return;
    }
    const auto is_number = [](TypeCode type) {
        return type.kind() == Kind::Integer || type.kind() == Kind::Real ||
               type.kind() == Kind::Bool;
    };
    if (!is_number(to) || !is_number(from))
        throw Refused(std::string("an array of ") + to.scalarOf().name() + " is needed, not of " +
                      from.scalarOf().name());
    const size_t count = array.size();
    auto converted(pvxs::detail::copyAs(to.arrayType(), from.arrayType(), array.data(), count));
    if (to.kind() != Kind::Real) {
        // A value that is different after converting it back has lost something.
        auto back(pvxs::detail::copyAs(from.arrayType(), to.arrayType(), converted.data(), count));
        // So has one of the largest unsigned numbers that becomes negative, or the other way round.
        const bool is_same = same(from.arrayType(), array.data(), back.data(), count);
        if (!is_same || changes_sign(from, array.data(), to, converted.data(), count))
            throw Refused(std::string("an element does not fit ") + to.scalarOf().name());
    }
    const Array frozen(converted.freeze());
    field.copyIn(&frozen, StoreType::Array);
}

void assign_choice(Value index, const Value &choices, const Value &argument) {
    Array array;
    choices.copyOut(&array, StoreType::Array);
    pvxs::shared_array<const std::string> labels;
    if (!array.empty())
        labels = array.castTo<const std::string>();
    std::string known;
    for (auto &label : labels)
        known += (known.empty() ? "\"" : ", \"") + label + "\"";
    if (argument.storageType() == StoreType::String) {
        const auto label = argument.as<std::string>();
        for (size_t i = 0; i < labels.size(); i++) {
            if (labels[i] == label) {
                index.from(uint64_t(i));
                return;
            }
        }
        Integer number = {true, 0};
        try {
            number = parsed(label);
        } catch (std::exception &) {
        }
        if (number.negative || number.bits >= labels.size())
            throw Refused("no choice \"" + label + "\"; there are: " + known);
        index.from(number.bits);
        return;
    }
    const Integer given = integer(argument, "a choice");
    if (given.negative || given.bits >= labels.size())
        throw Refused("no choice " + spelled(argument) + "; there are " +
                      std::to_string(labels.size()) + ": " + known);
    index.from(given.bits);
}

} // namespace

void assign(Value field, const Value &present, const Value &argument) {
    const TypeCode type = field.type();
    if (type == TypeCode::Struct) {
        Value index(field["index"]);
        const Value choices(present["choices"]);
        if (!index || index.type().isarray() || choices.type() != TypeCode::StringA)
            throw Refused("the field \"value\" is a structure, but no enumeration");
        if (argument.type().isarray())
            throw Refused("the index or the label of a choice is needed");
        assign_choice(index, choices, argument);
    } else if (type.kind() == Kind::Compound) {
        throw Refused(std::string("cannot put to a ") + type.name());
    } else if (type.isarray()) {
        assign_array(field, argument);
    } else if (argument.type().isarray()) {
        throw Refused(std::string("one ") + type.name() + " is needed, not an array");
    } else if (type.kind() == Kind::Integer) {
        assign_integer(field, argument);
    } else if (type.kind() == Kind::Real) {
        assign_real(field, argument);
    } else if (type.kind() == Kind::Bool) {
        assign_bool(field, argument);
    } else {
        field.from(spelled(argument));
    }
}

bool unlike(const Value &sent, const Value &read) {
    if (sent.type() != read.type())
        return false;
    const auto differ = [](double a, double b) {
        return !(a == b || (std::isnan(a) && std::isnan(b)));
    };
    switch (sent.storageType()) {
    case StoreType::Real: {
        const auto a = sent.as<double>(), b = read.as<double>();
        return sent.type() == TypeCode::Float32 ? differ(float(a), float(b)) : differ(a, b);
    }
    case StoreType::Integer:
        return sent.as<int64_t>() != read.as<int64_t>();
    case StoreType::UInteger:
    case StoreType::Bool:
        return sent.as<uint64_t>() != read.as<uint64_t>();
    case StoreType::String:
        return sent.as<std::string>() != read.as<std::string>();
    case StoreType::Array: {
        Array a, b;
        sent.copyOut(&a, StoreType::Array);
        read.copyOut(&b, StoreType::Array);
        if (a.size() != b.size() || a.empty())
            return a.size() != b.size();
        const TypeCode type = sent.type();
        if (type == TypeCode::StringA) {
            const auto first = a.castTo<const std::string>(), second = b.castTo<const std::string>();
            return !std::equal(first.begin(), first.end(), second.begin());
        }
        if (type.kind() == Kind::Compound)
            return false;
        const bool identical = std::memcmp(a.data(), b.data(), a.size() * type.size()) == 0;
        return !identical && !same(type.arrayType(), a.data(), b.data(), a.size());
    }
    default:
        return false;
    }
}

} // namespace pvs
