// What happens to the stores of a word's only writer while a GPU performs read-modify-writes there that change nothing.
//
// Where an atomic is a read and a write it writes back what it has read, also if that is what stood there: a store that
// came in between is undone. One agent stores 1, 2, 3, ... and looks after each whether it is still there: a CPU
// thread, or store_and_look on another GPU. Meanwhile one thread of a GPU performs the same access again and again.
#include "slots.cuh"

constexpr u32 START_ROW = 1;            // what a record calls the storing GPU's wait for the other one
constexpr u32 END_ROW = 2;              // and the other one's for the end of the stores
constexpr u32 LOOK_FOR_END_EVERY = 16;  // accesses

struct Report {  // mirrored in pcietool/machines/host_agents.py
    u32 ended;
    u32 made;
    u32 undone;
};

// What each of the two GPUs is given, by value; mirrored in pcietool/probes/atomics/undoing.py.
struct Undoing {
    u32* word;       // the one behind it belongs to nobody
    u32* started;    // slot: the accesses have begun
    Report* report;  // of who stores
    u32* accesses;   // how many were made
    u32 rank;
    u32 other;  // rank of the other one
    u32 most;   // stores
    u32 watched_ns;
    u32 nothing;  // 0, which the compiler must not know
};
static_assert(sizeof(Undoing) == 56);

// 1, 2, ... up to `most`, or until half of the deadline has passed.
extern "C" __global__ void store_and_look(Watch* watch, const Undoing given) {
    const Deadline deadline = deadline_from(watch);
    if (!wait_slot<RelaxedSys>(given.started, 1, deadline, given.rank, START_ROW, given.other, 0)) return;
    u32 made = 0;
    u32 undone = 0;
    while (made < given.most && timer_ns() - deadline.entry_ns < watch->deadline_ns / 2) {
        store_relaxed_sys(given.word, ++made);
        __nanosleep(given.watched_ns);
        if (load_relaxed_sys(given.word) != made) ++undone;
    }
    given.report->made = made;
    given.report->undone = undone;
    store_release_sys(&given.report->ended, 1);
}

// ---------------------------------------------------------------------------------------------------------
// Accesses that change nothing. `zero` is 0.

struct Nothing {
    static __device__ __forceinline__ void access(u32*, u32) {}
};
struct Looks {
    static __device__ __forceinline__ void access(u32* word, u32) { load_relaxed_sys(word); }
};
struct LoadAndStore {  // no atomicity at all: it must undo stores
    static __device__ __forceinline__ void access(u32* word, u32) { store_relaxed_sys(word, load_relaxed_sys(word)); }
};

// A compare-and-swap that expects what nobody stores.
__device__ __forceinline__ void failing_cas(u32* word, u32 zero) {
    u32 before;
    asm volatile("atom.relaxed.sys.global.cas.b32 %0, [%1], %2, %3;"
                 : "=r"(before)
                 : "l"(word), "r"(~zero), "r"(zero)
                 : "memory");
}
struct Cas {
    static __device__ __forceinline__ void access(u32* word, u32 zero) { failing_cas(word, zero); }
};
struct CasBeside {
    static __device__ __forceinline__ void access(u32* word, u32 zero) { failing_cas(word + 1, zero); }
};

#define DEFINE_RMW(Name, INSTRUCTION, OPERAND)                                   \
    struct Name {                                                                \
        static __device__ __forceinline__ void access(u32* word, u32 zero) {     \
            u32 before;                                                          \
            asm volatile("atom.relaxed.sys.global." INSTRUCTION " %0, [%1], %2;" \
                         : "=r"(before)                                          \
                         : "l"(word), "r"(OPERAND)                               \
                         : "memory");                                            \
        }                                                                        \
    }

template <typename Way>
__device__ __forceinline__ void access_until_the_end(Watch* watch, const Undoing& given) {
    const Deadline deadline = deadline_from(watch);
    store_release_sys(given.started, 1);
    u32 made = 0;
    for (;;) {
#pragma unroll 1
        for (u32 n = 0; n < LOOK_FOR_END_EVERY; ++n) Way::access(given.word, given.nothing);
        made += LOOK_FOR_END_EVERY;
        if (load_relaxed_sys(&given.report->ended)) break;
        const u32 reason = out_of_time(deadline, made);
        if (reason) {
            record_wait(deadline, reason, given.rank, END_ROW, given.other, 1, 0, 0);
            break;
        }
    }
    *given.accesses = made;
}

#define ENTRY(name, Way) \
    extern "C" __global__ void name(Watch* watch, const Undoing given) { access_until_the_end<Way>(watch, given); }

DEFINE_RMW(Add, "add.u32", zero);
DEFINE_RMW(Min, "min.u32", ~zero);
DEFINE_RMW(Max, "max.u32", zero);
DEFINE_RMW(And, "and.b32", ~zero);
DEFINE_RMW(Or, "or.b32", zero);
DEFINE_RMW(Xor, "xor.b32", zero);
ENTRY(access_nothing, Nothing)
ENTRY(access_load, Looks)
ENTRY(access_plain, LoadAndStore)
ENTRY(access_beside, CasBeside)
ENTRY(access_cas, Cas)
ENTRY(access_add, Add)
ENTRY(access_min, Min)
ENTRY(access_max, Max)
ENTRY(access_and, And)
ENTRY(access_or, Or)
ENTRY(access_xor, Xor)
