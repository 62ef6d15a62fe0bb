// Slot ping-pong: one block stores a sequence number into a slot, its partner waits for it and answers, round after
// round. Every wait that is compared is this same kernel, compiled with another WAIT, NANOSLEEP or PAYLOAD.
//
// What a block does is its Role, made by the host: any set of pairs can play at once, between GPUs, through host
// memory, or within one grid, and other blocks of the same grid can move bulk data over the same links meanwhile.
#include "injection.cuh"
#include "slots.cuh"

// How a block waits.
#define ACQUIRE 0        // relaxed polls, then one acquiring load: the wait of slots.cuh
#define RELAXED_FENCE 1  // relaxed polls, then fence.acq_rel.sys
#define ACQUIRE_POLLS 2  // every poll acquires
#ifndef WAIT
#define WAIT ACQUIRE
#endif
// Nanoseconds to sleep between polls.
#ifndef NANOSLEEP
#define NANOSLEEP 0
#endif
// 1: words of data travel with every signal, written before it and checked after the wait, by all threads of a block.
#ifndef PAYLOAD
#define PAYLOAD 0
#endif
// 1: every value that a poll sees is checked; acquiring polls only.
#ifndef CHECKED
#define CHECKED 0
#endif
// 1 compiles in what a Role injects; without it, injections are ignored and cost nothing.
#ifndef INJECT
#define INJECT 0
#endif

// The enums and structs below are mirrored in pcietool/probes/signal/roles.py.
enum Kind : u32 {  // what a block does
    STARTS,        // begins each round, waits for the answer and takes the time
    ANSWERS,
    MOVES,  // copies bulk data
    POLLS,  // waits for the end of the blocks that move, and counts its polls
};

enum Injection : u32 {  // what goes wrong with a Role, to prove that checks see it and to show what failures look like
    NONE,
    DIE,      // plays no longer
    DROP,     // sends no signal any more
    DELAY,    // is late by delay_ns, once
    CORRUPT,  // the last word of the payload is wrong
    EARLY,    // signals before the payload is written
    BACK,     // its slot goes back by one before it goes on
};
constexpr u32 INJECTED_ROUND = 4;  // the first one
constexpr u32 INJECTED_NS = 4000;  // time for the partner to see what it should not

struct Role {             // 72 bytes
    u32* theirs;          // the slot this block stores to, as its only writer
    const u32* mine;      // the slot it polls
    u64* sends;           // payload: in the partner's reach. MOVES: where to
    const u64* receives;  // payload from the partner. MOVES: where from
    Kind kind;
    u32 rank;
    u32 row;  // (row, col) names `mine` in records
    u32 col;
    u32 writer;  // column of `theirs`: makes payloads of different writers differ
    Injection injection;
    u64 delay_ns;
    u32 passes;  // MOVES: how often; 0: until all players of this GPU have ended
    u32 amount;  // MOVES: 16-byte words a pass
};

enum FaultKind : u32 {
    RIGHT,
    WRONG_PAYLOAD,
    WRONG_VALUE,  // the slot went back, or past the value that was waited for
};
struct Fault {  // 32 bytes: the first thing a block found wrong, and how many threads found something
    u32 count;
    FaultKind kind;
    u32 round;
    u32 word;  // index of the 8-byte word
    u64 wanted;
    u64 got;
};

struct Result {    // 24 bytes: of each block
    u64 began_ns;  // globaltimer
    u64 ended_ns;
    u64 done;  // rounds, passes or polls
};

// Counted by blocks of this GPU; zeroed by the host before each launch.
struct Tally {
    u32 players;  // that have ended
    u32 movers;
};

// ---------------------------------------------------------------------------------------------------------
// Checks.

__device__ __forceinline__ void found_fault(Fault* fault, FaultKind kind, u32 round, u32 word, u64 wanted, u64 got) {
    if (atomicAdd(&fault->count, 1u)) return;
    fault->kind = kind;
    fault->round = round;
    fault->word = word;
    fault->wanted = wanted;
    fault->got = got;
}

// No two words of a payload are the same, nor the same word of two rounds or writers.
__device__ __forceinline__ u64 payload_word(u32 sequence, u32 writer, u32 index) {
    return static_cast<u64>(sequence) << 32 | writer << 24 | index;
}

// ---------------------------------------------------------------------------------------------------------
// Ways to wait, beside those of slots.cuh.

__device__ __forceinline__ void fence_acq_rel_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

struct FenceSys {
    static __device__ __forceinline__ u32 poll(const u32* word) { return load_relaxed_sys(word); }
    static __device__ __forceinline__ void arrive(const u32*) { fence_acq_rel_sys(); }
};

struct AcquirePolls {
    static __device__ __forceinline__ u32 poll(const u32* word) { return load_acquire_sys(word); }
    static __device__ __forceinline__ void arrive(const u32*) {}
};

struct CheckedPoll {  // by one thread of a block: did the slot ever go back?
    static __device__ __forceinline__ volatile u32& latest() {
        __shared__ volatile u32 value;
        return value;
    }
    static __device__ __forceinline__ volatile u32& steps_back() {
        __shared__ volatile u32 count;
        return count;
    }
    static __device__ __forceinline__ void begin(u32 value) {  // every later one is to be at least this
        latest() = value;
        steps_back() = 0;
    }
    static __device__ __forceinline__ u32 poll(const u32* word) {
        const u32 got = load_acquire_sys(word);
        if (!reached(got, latest())) steps_back() = steps_back() + 1;
        latest() = got;
        return got;
    }
    static __device__ __forceinline__ void arrive(const u32*) {}
};

struct CountedPoll {  // by one thread of a block; the emulator does not abridge polls that count
    static __device__ __forceinline__ volatile u32& polls() {
        __shared__ volatile u32 count;
        return count;
    }
    static __device__ __forceinline__ u32 poll(const u32* word) {
        polls() = polls() + 1;
        return load_relaxed_sys(word);
    }
    static __device__ __forceinline__ void arrive(const u32*) {}
};

// ---------------------------------------------------------------------------------------------------------
// One signal and one wait.

__device__ __forceinline__ void write_payload(const Role& role, u32 sequence, u32 words, bool corrupt) {
#pragma unroll 4
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
        role.sends[i] = payload_word(sequence, role.writer, i) ^ (corrupt && i == words - 1);
    }
}

__device__ __forceinline__ void check_payload(const Role& role, u32 sequence, u32 words, u32 round, Fault* fault) {
    u32 bad = words;
    u64 bad_got = 0;
#pragma unroll 4
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) {  // no branch: loads are to overlap
        const u64 got = role.receives[i];
        const bool first = got != payload_word(sequence, role.col, i) && bad == words;
        bad = first ? i : bad;
        bad_got = first ? got : bad_got;
    }
    if (bad < words) found_fault(fault, WRONG_PAYLOAD, round, bad, payload_word(sequence, role.col, bad), bad_got);
}

__device__ __forceinline__ void send(const Role& role, u32 sequence, u32 words, Injection injection) {
    if (injection == EARLY && threadIdx.x == 0) {
        signal_slot(role.theirs, sequence);
        __nanosleep(INJECTED_NS);
    }
#if PAYLOAD
    write_payload(role, sequence, words, injection == CORRUPT);
    __syncthreads();  // all have written, and read what came before: whoever answers allows to overwrite that
#endif
    if (threadIdx.x != 0 || injection == DROP || injection == EARLY) return;
    if (injection == BACK) {
        store_relaxed_sys(role.theirs, sequence - 2);
        __nanosleep(INJECTED_NS);
    }
    signal_slot(role.theirs, sequence);
}

__device__ __forceinline__ bool wait(const Role& role, u32 sequence, const Deadline& deadline, u32 round,
                                     Fault* fault) {
#if CHECKED
    using Wait = CheckedPoll;
#elif WAIT == RELAXED_FENCE
    using Wait = FenceSys;
#elif WAIT == ACQUIRE_POLLS
    using Wait = AcquirePolls;
#else
    using Wait = AcquireSys;
#endif
    if (!wait_slot<Wait, NANOSLEEP>(role.mine, sequence, deadline, role.rank, role.row, role.col, round)) return false;
#if CHECKED
    const u32 got = CheckedPoll::latest();
    if (CheckedPoll::steps_back() || got != sequence) found_fault(fault, WRONG_VALUE, round, 0, sequence, got);
    CheckedPoll::begin(sequence);
#endif
    return true;
}

// False, in all threads, if the wait gave up.
__device__ __forceinline__ bool receive(const Role& role, u32 sequence, u32 words, const Deadline& deadline, u32 round,
                                        Fault* fault) {
#if PAYLOAD
    __shared__ bool arrived;
    if (threadIdx.x == 0) arrived = wait(role, sequence, deadline, round, fault);
    __syncthreads();
    if (!arrived) return false;
    check_payload(role, sequence, words, round, fault);
    return true;
#else
    return wait(role, sequence, deadline, round, fault);
#endif
}

// ---------------------------------------------------------------------------------------------------------
// Roles.

// What goes wrong in this round; a delay happens here.
__device__ __forceinline__ Injection injected(const Role& role, u32 round, const Deadline& deadline) {
    if (!INJECT || round < INJECTED_ROUND) return NONE;
    if (role.injection == DELAY && round == INJECTED_ROUND && threadIdx.x == 0) stall(role.delay_ns, deadline);
    return role.injection;
}

// Rounds that were played. stamps: SM clock at the start and after each round, kept by the block that starts.
__device__ __forceinline__ u32 play(const Role& role, u32 before, u32 rounds, u32 words, const Deadline& deadline,
                                    u32* stamps, Fault* fault) {
    extern __shared__ u32 buffered_stamps[];  // written out at the end: a store in flight would slow the next fence
    const bool starts = role.kind == STARTS;
    const bool keeps_time = starts && threadIdx.x == 0;
    if (keeps_time) buffered_stamps[0] = cycles();
    u32 played = 0;
    while (played < rounds) {
        const u32 round = played + 1;
        const Injection injection = injected(role, round, deadline);
        if (injection == DIE) break;
        if (starts) send(role, before + round, words, injection);
        if (!receive(role, before + round, words, deadline, round, fault)) break;
        if (!starts) send(role, before + round, words, injection);
        if (keeps_time) buffered_stamps[round] = cycles();
        played = round;
    }
    if (keeps_time) {
        for (u32 i = 0; i <= played; ++i) stamps[i] = buffered_stamps[i];
    }
    return played;
}

// Copies role.amount 16-byte words, again and again. Passes that were made.
__device__ __forceinline__ u32 move(const Role& role, u32 players, const Deadline& deadline, Tally* tally) {
    const uint4* __restrict__ from = reinterpret_cast<const uint4*>(role.receives);
    uint4* __restrict__ to = reinterpret_cast<uint4*>(role.sends);
    __shared__ bool more;
    u32 passes = 0;
    do {
        __syncthreads();  // all have seen whether there is more
#pragma unroll 4
        for (u32 i = threadIdx.x; i < role.amount; i += blockDim.x) to[i] = from[i];
        ++passes;
        if (threadIdx.x == 0) {
            const bool wanted = role.passes ? passes < role.passes : load_relaxed_gpu(&tally->players) < players;
            more = wanted && !out_of_time(deadline, 0);
        }
        __syncthreads();
    } while (more);
    return passes;
}

// roles: one a block, `players` of which play and `movers` move. before: the sequence number that the slots of all
// players have reached. words: 8-byte words of payload. stamps[block * (rounds + 1)], results[block], faults[block].
extern "C" __global__ void ping_pong(Watch* watch, const Role* roles, u32 players, u32 movers, u32 before, u32 rounds,
                                     u32 words, Tally* tally, u32* stamps, Result* results, Fault* faults) {
    const Deadline deadline = deadline_from(watch);
    const Role role = roles[blockIdx.x];
    const bool moves = role.kind == MOVES;
    if (threadIdx.x != 0 && !moves && (!PAYLOAD || role.kind == POLLS)) return;
#if CHECKED
    if (threadIdx.x == 0 && !moves) CheckedPoll::begin(load_acquire_sys(role.mine));
    __syncthreads();
#endif
    const u64 began = timer_ns();
    u32 done = 0;
    if (moves) {
        done = move(role, players, deadline, tally);
        __syncthreads();
        if (threadIdx.x == 0) fence_acq_rel_sys();  // what was moved has arrived
    } else if (role.kind == POLLS) {
        CountedPoll::polls() = 0;
        wait_slot<CountedPoll>(role.mine, before + 1, deadline, role.rank, role.row, role.col, 1);
        done = CountedPoll::polls();
    } else {
        done = play(role, before, rounds, words, deadline, stamps + blockIdx.x * (rounds + 1), faults + blockIdx.x);
    }
    if (threadIdx.x != 0) return;
    results[blockIdx.x] = Result{began, timer_ns(), done};
    if (!moves) {
        atomicAdd(&tally->players, 1u);
    } else if (atomic_inc_acq_rel_gpu(&tally->movers, movers - 1) == movers - 1 && role.theirs) {
        signal_slot(role.theirs, before + 1);
    }
}
