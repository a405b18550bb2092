/* What of pvxs can be called from Rust? `pvs_` functions take and give plain C only, and let no C++
 * exception out. src/lib.rs declares the same; tests/layout.rs compares the two. */
#ifndef PVS_H
#define PVS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Text of a server or for one: no NUL at the end, perhaps some inside, in no known encoding. */
typedef struct pvs_text {
    const char *bytes;
    size_t length;
} pvs_text;

/* A field with its value. Its children follow it, each followed by its own.
 * `type` is the type code of PVA, 0xff for an element of a structure array that is not there.
 * A union or variant that has something selected has one child, named after what is selected.
 * A string array has a child for each string, a structure array one for each element. */
typedef struct pvs_item {
    pvs_text name;
    pvs_text id;
    /* Of a string. */
    pvs_text text;
    /* Of a number: a double for floating point, else an integer of 64 bits with the sign of the
     * type, 0 or 1 for a boolean. */
    union {
        double real;
        int64_t integer;
        uint64_t uinteger;
    } number;
    /* Of an array of numbers: what pvs_array_retain takes, and the elements. */
    const void *array;
    const void *elements;
    size_t count;
    uint32_t children;
    uint8_t type;
    /* Whether the server says that it, its parent or a child of it changed. */
    uint8_t changed;
} pvs_item;

/* In which form the value of a structure is told. */
enum { PVS_SCALAR = 0, PVS_ARRAY = 1, PVS_ENUM = 2, PVS_STRUCTURE = 3 };

typedef struct pvs_type {
    pvs_text id;
    /* Equal for equal definitions: names, type ids and types, all the way down. */
    uint64_t signature;
    uint8_t kind;
    /* Type code of the scalar, or of the array. */
    uint8_t code;
    /* Address and port of the server. */
    pvs_text peer;
} pvs_type;

/* What is not there is empty or NaN. */
typedef struct pvs_metadata {
    pvs_text units;
    pvs_text form;
    pvs_text description;
    const pvs_text *choices;
    size_t choice_count;
    double display_low, display_high;
    double control_low, control_high, control_min_step;
    double alarm_low, warning_low, warning_high, alarm_high;
    int32_t precision;
    uint8_t has_precision;
} pvs_metadata;

typedef struct pvs_update {
    /* Nanoseconds past the POSIX epoch; 0 without a time stamp. */
    int64_t time_ns;
    int32_t user_tag;
    /* -1 when the structure has no alarm. */
    int32_t severity;
    int32_t status;
    pvs_text message;
    /* The scalar, the array with its strings, the index of the choice, or the whole structure. The
       whole structure in any case when the monitor was created with `whole`. */
    const pvs_item *items;
    size_t item_count;
    /* Updates that became one with this or one before it, as far as they are known to have been: a
       server says only that there was at least one. */
    uint64_t squashed;
} pvs_update;

/* Called from the thread of the context, one at a time. What is pointed to is valid during the
 * call. `release` is the last call, from any thread. */
typedef struct pvs_monitor_calls {
    /* Connected; before metadata and update. */
    void (*connected)(void *user, const pvs_type *type);
    void (*disconnected)(void *user);
    /* The connection to this server broke, before the first value came or after it. pvxs breaks it itself
     * when it can't decode something. */
    void (*broken)(void *user, pvs_text peer, uint8_t had_values);
    void (*metadata)(void *user, const pvs_metadata *metadata);
    void (*update)(void *user, const pvs_update *update);
    /* The server sends values that are refused; destroy the monitor. */
    void (*unreadable)(void *user, pvs_text reason);
    /* The monitor is dead: destroy it and create another. */
    void (*failed)(void *user, pvs_text reason);
    void (*release)(void *user);
} pvs_monitor_calls;

/* A piece of memory that a call reads. */
typedef struct pvs_range {
    const void *start;
    size_t bytes;
} pvs_range;

enum { PVS_DONE = 0, PVS_DISCONNECTED = 1, PVS_REMOTE = 2, PVS_INVALID = 3, PVS_UNSURE = 4 };

/* `done` comes at most once, then `release`, which comes also after a cancel. */
typedef struct pvs_operation_calls {
    /* Right before something is sent that changes something; nothing is sent on 0. */
    uint8_t (*sending)(void *user);
    void (*done)(void *user, uint8_t outcome, pvs_text reason, const pvs_item *items,
                 size_t item_count);
    void (*release)(void *user);
} pvs_operation_calls;

/* `release` is the last call, from any thread. */
typedef struct pvs_server_calls {
    /* A server is there, or is not there any more, from the thread of the context. The server is an address and
     * a port. The identifier is another one after each restart of the server; it is empty for a name server. */
    void (*found)(void *user, pvs_text server, pvs_text guid, uint8_t is_online);
    void (*release)(void *user);
} pvs_server_calls;

typedef struct pvs_context pvs_context;
typedef struct pvs_discovery pvs_discovery;
typedef struct pvs_monitor pvs_monitor;
typedef struct pvs_operation pvs_operation;

/* A null pointer means failure, which is then in `reason`, NUL-terminated. A function that takes a
 * `user` calls `release` for it then, too. */

/* Reads the EPICS_PVA_ environment variables. */
pvs_context *pvs_context_create(char *reason, size_t size);
/* Bytes received from the server with this address and port; waits for the thread of the context. */
uint64_t pvs_received(pvs_context *context, pvs_text peer);
/* Waits for the last call. Monitors and operations are to be destroyed before. */
void pvs_context_destroy(pvs_context *context);

/* Never waits. The calls must be there as long as the monitor. `reads` says what `update` reads;
 * it is only fetched ahead of a call, and may be gone. With `whole` updates of scalars, arrays and
 * enumerations hold the whole structure too. */
pvs_monitor *pvs_monitor_create(pvs_context *context, pvs_text name, int whole,
                                const pvs_monitor_calls *calls, void *user,
                                const pvs_range *reads, size_t read_count, char *reason,
                                size_t size);
/* Does not wait for a call that runs. */
void pvs_monitor_destroy(pvs_monitor *monitor);

/* Whether the server answers at all: asks for the type of the PV, and is done without an item. */
pvs_operation *pvs_ask(pvs_context *context, pvs_text name, const pvs_operation_calls *calls,
                       void *user, char *reason, size_t size);
/* Whether this server has a value that can be decoded; done without an item. PVS_DISCONNECTED when the
 * connection broke meanwhile. */
pvs_operation *pvs_check(pvs_context *context, pvs_text name, pvs_text server,
                         const pvs_operation_calls *calls, void *user, char *reason, size_t size);
/* The whole structure. */
pvs_operation *pvs_get(pvs_context *context, pvs_text name, const pvs_operation_calls *calls,
                       void *user, char *reason, size_t size);
/* Sets a field, named by the names on the way to it with dots between, to the value of the first
 * item. With `wait` it is done when the record is. */
pvs_operation *pvs_put(pvs_context *context, pvs_text name, pvs_text field, const pvs_item *items,
                       size_t item_count, int wait, const pvs_operation_calls *calls, void *user,
                       char *reason, size_t size);
/* Calls with an NTURI whose query holds the items. At this server, address and port, if it is not
 * empty, otherwise at the one that a search finds. */
pvs_operation *pvs_rpc(pvs_context *context, pvs_text name, pvs_text server, const pvs_item *items,
                       size_t item_count, const pvs_operation_calls *calls, void *user,
                       char *reason, size_t size);
/* Cancels, if it is not done. Does not wait for a call that runs. */
void pvs_operation_destroy(pvs_operation *operation);

/* Tells of servers: all that answer one search, those that send beacons from then on, and the name
 * servers of the configuration. */
pvs_discovery *pvs_discover(pvs_context *context, const pvs_server_calls *calls, void *user,
                            char *reason, size_t size);
/* Does not wait for a call that runs. */
void pvs_discovery_destroy(pvs_discovery *discovery);

/* Another owner of the elements of an array; null when there is no memory. */
const void *pvs_array_retain(const void *array);
void pvs_array_release(const void *array);

#ifdef __cplusplus
}
#endif

#endif
