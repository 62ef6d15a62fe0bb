// Single-writer signal slots: the primitive layer of every pcietool kernel.
//
// A slot is one 32-bit word in memory that its owner can poll. Exactly one rank ever stores to it, nobody
// ever performs a read-modify-write on it, and its value only grows. Those three make it work where atomics
// across the link do not: a store needs no read, an old value is harmless, and nothing is ever reset.
// Needs no other header: NVRTC and nvcc compile it as it is. docs/use-in-your-kernel.md has a complete example.
#pragma once

typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;

// One slot a 128-byte line, so that no two writers share a line.
constexpr u32 SLOT_STRIDE = 128;

// ---------------------------------------------------------------------------------------------------------
// Loads, stores and atomics, one PTX instruction each. "sys" reaches every GPU and the CPU, "gpu" this GPU: a
// scope that does not include the other side orders nothing between you, even if it seems to work. "memory"
// keeps the compiler from moving other accesses across.

// Everything this thread wrote, or has observed others write, is visible to whoever acquires `value`.
__device__ __forceinline__ void store_release_sys(u32* word, u32 value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
// Arrives by itself; says nothing about what was written before.
__device__ __forceinline__ void store_relaxed_sys(u32* word, u32 value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
// What the writer released before the value seen here is visible to this thread from now on.
__device__ __forceinline__ u32 load_acquire_sys(const u32* word) {
    u32 value;
    asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}
// Looks past the L1 cache, and orders nothing.
__device__ __forceinline__ u32 load_relaxed_sys(const u32* word) {
    u32 value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}
// The same between threads of one GPU, where a wider scope would only cost.
__device__ __forceinline__ void store_release_gpu(u32* word, u32 value) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ __forceinline__ u32 load_acquire_gpu(const u32* word) {
    u32 value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}
__device__ __forceinline__ u32 load_relaxed_gpu(const u32* word) {
    u32 value;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}
// Counts arrivals on a word of this GPU and returns to 0 by itself after `bound` + 1 of them.
__device__ __forceinline__ u32 atomic_inc_acq_rel_gpu(u32* word, u32 bound) {
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(bound) : "memory");
    return before;
}
// Nanoseconds; not synchronised between GPUs, and coarse on some (32 ns to 1 us): for deadlines, and for intervals
// on one GPU.
__device__ __forceinline__ u64 timer_ns() {
    u64 now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}
// Cycles of this SM, which wrap; scale them by timer_ns over the same kernel.
__device__ __forceinline__ u32 cycles() {
    u32 now;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(now)::"memory");
    return now;
}

// ---------------------------------------------------------------------------------------------------------
// Deadlines. Every wait ends: by its signal, by the launch's deadline, or because another wait of this device
// gave up before. The layout of both structs is mirrored in pcietool/protocol/watch.py.

struct WaitRecord {  // 48 bytes: what a wait that gave up was waiting for
    u32 reason;      // GAVE_UP_DEADLINE or GAVE_UP_ABORT
    u32 rank;        // who waited
    u32 row;         // for which of its own slots
    u32 col;
    u32 wanted;
    u32 got;
    u32 round;
    u32 block;
    u32 thread;
    u32 line;  // of the source, where WAIT_UNTIL stands; 0 for a slot
    u64 since_entry_ns;
};

constexpr u32 GAVE_UP_DEADLINE = 1;  // nothing came until the launch's deadline, or the poll limit
constexpr u32 GAVE_UP_ABORT = 2;     // another wait of this device had given up
constexpr u32 MAX_RECORDS = 256;

struct Watch {          // one per device, in device memory; every kernel's first parameter points to it
    u32 gave_up;        // sticky: 1 once any wait of this device has given up
    u32 records_taken;  // how many waits gave up (local atomics count reliably)
    u32 poll_limit;     // behind the timer, in case it stands still
    u32 reserved;
    u64 deadline_ns;      // from kernel entry
    WaitRecord* records;  // MAX_RECORDS of them in mapped host memory; each is written by one thread, once
};

// One absolute time a launch. What it needs from the Watch is loaded only by a wait that takes long.
struct Deadline {
    Watch* watch;
    u64 entry_ns;
};

__device__ __forceinline__ Deadline deadline_from(Watch* watch) { return Deadline{watch, timer_ns()}; }

// 0 while there is time, else the reason to give up.
__device__ __forceinline__ u32 out_of_time(const Deadline& deadline, u32 polls) {
    const Watch* watch = deadline.watch;
    if (load_relaxed_gpu(&watch->gave_up)) return GAVE_UP_ABORT;
    if (timer_ns() - deadline.entry_ns > watch->deadline_ns || polls >= watch->poll_limit) return GAVE_UP_DEADLINE;
    return 0;
}

// Null where all records are taken.
__device__ __forceinline__ WaitRecord* record_wait(const Deadline& deadline, u32 reason, u32 rank, u32 row, u32 col,
                                                   u32 wanted, u32 got, u32 round) {
    WaitRecord* written = nullptr;
    const u32 index = atomicAdd(&deadline.watch->records_taken, 1u);
    if (index < MAX_RECORDS) {
        WaitRecord* record = deadline.watch->records + index;
        record->reason = reason;
        record->rank = rank;
        record->row = row;
        record->col = col;
        record->wanted = wanted;
        record->got = got;
        record->round = round;
        record->block = blockIdx.x;
        record->thread = threadIdx.x;
        record->since_entry_ns = timer_ns() - deadline.entry_ns;
        written = record;
    }
    atomicExch(&deadline.watch->gave_up, 1u);
    return written;
}

// ---------------------------------------------------------------------------------------------------------
// Signal and wait.

// Has `got` reached `wanted`? Sequence numbers wrap after 2^32 signals; the signed difference does not care. No number
// is reserved.
__device__ __forceinline__ bool reached(u32 got, u32 wanted) { return static_cast<s32>(got - wanted) >= 0; }

// Publishes `sequence` in a slot of which this thread is the only writer: whoever acquires it also sees every
// write that this thread made, or had observed, before.
__device__ __forceinline__ void signal_slot(u32* slot, u32 sequence) { store_release_sys(slot, sequence); }

// How to wait: `poll` looks again and again, `arrive` is done once when the sequence is there. Polls are relaxed, since
// an acquire makes each look dearer; the one acquire afterwards reads the same slot and orders as much.
struct AcquireSys {  // the default wait: what the writer published is visible afterwards
    static __device__ __forceinline__ u32 poll(const u32* word) { return load_relaxed_sys(word); }
    static __device__ __forceinline__ void arrive(const u32* word) { load_acquire_sys(word); }
};
struct RelaxedSys {  // orders nothing: only says that the signal was sent
    static __device__ __forceinline__ u32 poll(const u32* word) { return load_relaxed_sys(word); }
    static __device__ __forceinline__ void arrive(const u32*) {}
};
struct AcquireGpu {  // for words that only this GPU writes
    static __device__ __forceinline__ u32 poll(const u32* word) { return load_relaxed_gpu(word); }
    static __device__ __forceinline__ void arrive(const u32* word) { load_acquire_gpu(word); }
};

// Polls a slot of this rank until `wanted` is reached; true if it was. SLEEP_NS: ns between polls, 0 for none.
// (rank, row, col, round) only name the slot in the record that a wait without signal leaves behind.
template <typename Wait, u32 SLEEP_NS = 0, bool (&HAS_REACHED)(u32, u32) = reached>
__device__ __forceinline__ bool wait_slot(const u32* slot, u32 wanted, const Deadline& deadline, u32 rank, u32 row,
                                          u32 col, u32 round) {
    constexpr u32 LOOKS = 32;
    for (u32 polls = LOOKS;; polls += LOOKS) {
        bool arrived;  // one branch a look, and nothing else between two polls
        u32 look = 0;
#pragma unroll 1
        do {
            if (SLEEP_NS && look) __nanosleep(SLEEP_NS);
            arrived = HAS_REACHED(Wait::poll(slot), wanted);
        } while (!arrived && ++look < LOOKS);
        if (arrived) {
            Wait::arrive(slot);
            return true;
        }
        const u32 reason = out_of_time(deadline, polls);
        if (reason) {
            const u32 got = Wait::poll(slot);  // one last look after the deadline
            if (!HAS_REACHED(got, wanted)) {
                record_wait(deadline, reason, rank, row, col, wanted, got, round);
                return false;
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------
// Spin loops of your own: true once the condition holds, false if the deadline passed first, which leaves a record that
// names this line, who waits, and for whom:
//     if (!WAIT_UNTIL(load_acquire_sys(flag) == epoch, deadline, rank, peer)) return;
#define WAIT_UNTIL(condition, deadline, rank, writer) \
    wait_until([&]() -> bool { return (condition); }, deadline, rank, writer, __LINE__)

template <typename Condition>
__device__ __forceinline__ bool wait_until(Condition holds, const Deadline& deadline, u32 rank, u32 writer, u32 line) {
    constexpr u32 LOOKS = 32;
    for (u32 polls = LOOKS;; polls += LOOKS) {
        bool arrived;
        u32 look = 0;
#pragma unroll 1
        do {
            arrived = holds();
        } while (!arrived && ++look < LOOKS);
        if (arrived) return true;
        const u32 reason = out_of_time(deadline, polls);
        if (reason && !holds()) {  // one last look after the deadline
            WaitRecord* record = record_wait(deadline, reason, rank, 0, writer, 0, 0, 0);
            if (record) record->line = line;
            return false;
        }
    }
}
