// Lets the timer thread of libca sleep while nothing is searched.
//
// A context of libca searches unknown names by fourteen timers with periods of 32 ms, 64 ms, 128 ms
// and so on. The timers run even when no name is searched, and wake the context's timer thread 62
// times a second for nothing.
//
// libca gets its timers from `epicsTimerQueueActive::allocate`. A program that exports this symbol
// uses the function below in place of libCom's. The timers that it provides are libCom's, except
// that a timer that would start again in less than half a second waits for the next half second
// if no search is expected then. All such timers are due at the same moment.
//
// A name enters these timers when its channel is created, or at most ten seconds after its circuit
// was lost. The program tells both. When it creates a channel, waiting timers start at once.

#include <atomic>
#include <chrono>
#include <dlfcn.h>
#include <mutex>
#include <new>
#include <set>

#include <epicsTimer.h>

namespace {

// Seconds. A name that was searched for longer is in timers with longer periods.
constexpr double PAUSE = 0.5;
constexpr uint64_t PAUSE_NS = 500000000;

// Seconds until waiting timers start for a new name. Channels that are created meanwhile are searched
// together; with libca's own timers a name waits up to 32 ms.
constexpr double GATHER = 0.010;

// For how long a new name is searched by timers with periods shorter than the pause: about a second
// if each timer sends it at once.
constexpr std::chrono::seconds SEARCH(3);

// The same after the loss of a circuit, whose names libca searches after at most ten seconds.
constexpr std::chrono::seconds SEARCH_AGAIN(15);

int64_t now_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

// Until then searches are expected, in any context.
std::atomic<int64_t> searching_until_ns{0};

void expect_searches(std::chrono::nanoseconds time) {
    const int64_t until = now_ns() + time.count();
    int64_t known = searching_until_ns.load();
    while (known < until && !searching_until_ns.compare_exchange_weak(known, until))
        ;
}

// Seconds to the next half second of the clock. libCom ends a delay up to 5 ms early, which must
// not end the next one at once.
double to_next_pause(const epicsTime &now) {
    const epicsTimeStamp stamp = now;
    const uint64_t ns = (stamp.secPastEpoch * UINT64_C(1000000000) + stamp.nsec) % PAUSE_NS;
    const double delay = static_cast<double>(PAUSE_NS - ns) * 1e-9;
    return delay < PAUSE / 2 ? delay + PAUSE : delay;
}

class Queue;

class Timer final : public epicsTimer, public epicsTimerNotify {
public:
    Timer(Queue &in, epicsTimer &by) : queue(in), own(by) {}

    void destroy() override;
    void start(epicsTimerNotify &by, const epicsTime &at) override;
    void start(epicsTimerNotify &by, double delay) override;
    void cancel() override;
    expireInfo getExpireInfo() const override { return own.getExpireInfo(); }
    void show(unsigned level) const override { own.show(level); }
    expireStatus expire(const epicsTime &now) override;

private:
    friend class Queue;

    Queue &queue;
    epicsTimer &own;
    // libca always starts a timer with the same one.
    std::atomic<epicsTimerNotify *> notify{nullptr};
    // Guarded by the queue's mutex.
    bool waits = false;
};

class Queue final : public epicsTimerQueueActive {
public:
    explicit Queue(epicsTimerQueueActive &by) : own(by) {}

    epicsTimer &createTimer() override {
        Timer *const timer = new Timer(*this, own.createTimer());
        const std::lock_guard<std::mutex> lock(mutex);
        timers.insert(timer);
        return *timer;
    }

    void show(unsigned level) const override { own.show(level); }
    void release() override;

    // Whether the timer is to wait, because no search is expected.
    bool wait(Timer &timer) {
        const std::lock_guard<std::mutex> lock(mutex);
        if (now_ns() < searching_until_ns.load())
            return false;
        waiting += !timer.waits;
        timer.waits = true;
        return true;
    }

    void waits_no_longer(Timer &timer) {
        const std::lock_guard<std::mutex> lock(mutex);
        waiting -= timer.waits;
        timer.waits = false;
    }

    // The timer is about to be destroyed and is not started again.
    void remove(Timer &timer) {
        const std::lock_guard<std::mutex> lock(mutex);
        timers.erase(&timer);
    }

    void search() {
        const std::lock_guard<std::mutex> lock(mutex);
        expect_searches(SEARCH);
        if (waiting == 0)
            return;
        waiting = 0;
        for (Timer *const timer : timers) {
            if (timer->waits)
                timer->own.start(*timer, GATHER);
            timer->waits = false;
        }
    }

private:
    epicsTimerQueueActive &own;
    std::mutex mutex;
    std::set<Timer *> timers;
    unsigned waiting = 0;
};

// The queue of the context that the thread created last. libca has one context per thread, and the
// program destroys it in the same thread.
thread_local Queue *queue_of_thread = nullptr;

void Queue::release() {
    if (queue_of_thread == this)
        queue_of_thread = nullptr;
    own.release();
    delete this;
}

void Timer::destroy() {
    queue.remove(*this);
    // Waits until no other thread is in `expire`.
    own.destroy();
    queue.waits_no_longer(*this);
    delete this;
}

void Timer::start(epicsTimerNotify &by, const epicsTime &at) {
    notify = &by;
    queue.waits_no_longer(*this);
    own.start(*this, at);
}

void Timer::start(epicsTimerNotify &by, double delay) {
    notify = &by;
    queue.waits_no_longer(*this);
    own.start(*this, delay);
}

void Timer::cancel() {
    own.cancel();
    queue.waits_no_longer(*this);
}

epicsTimerNotify::expireStatus Timer::expire(const epicsTime &now) {
    const expireStatus wanted = notify.load()->expire(now);
    // Only a timer that starts again surely still exists.
    if (!wanted.restart() || wanted.expirationDelay() >= PAUSE || !queue.wait(*this))
        return wanted;
    return expireStatus(epicsTimerNotify::restart, to_next_pause(now));
}

using Allocate = epicsTimerQueueActive &(bool, unsigned);

Allocate *libcoms_own() {
    static Allocate *const own = reinterpret_cast<Allocate *>(
        dlsym(RTLD_NEXT, "_ZN21epicsTimerQueueActive8allocateEbj"));
    return own;
}

} // namespace

epicsTimerQueueActive &epicsTimerQueueActive::allocate(bool ok_to_share, unsigned priority) {
    Allocate *const own = libcoms_own();
    // libca then reports that it can't create a context.
    if (!own)
        throw std::bad_alloc();
    epicsTimerQueueActive &queue = own(ok_to_share, priority);
    // libca shares none.
    if (ok_to_share)
        return queue;
    queue_of_thread = new Queue(queue);
    return *queue_of_thread;
}

extern "C" void ca_sys_search_starts() {
    if (queue_of_thread)
        queue_of_thread->search();
}

extern "C" void ca_sys_circuit_lost() { expect_searches(SEARCH_AGAIN); }
