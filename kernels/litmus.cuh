// Trials of a litmus test: many instances of it at once, each again and again, always on words that no trial before
// has touched. The test's threads are generated, one struct each (pcietool/litmus/cuda_source.py); this runs them.
//
// A thread of the test is the first lane of a warp. Threads of one block of the test share a block here, so that their
// scopes are what the test says. All words were written before the launch: every thread sees them.
#pragma once
#include "slots.cuh"

constexpr u32 START_ROW = 1;  // of the slots through which the threads of an instance tell each other that they begin
constexpr u32 LOOP_ROW = 0;   // what a record calls a loop of the test itself

struct Trials {
    Watch* watch;
    u32* const* starts;   // starts[p]: start slots of thread Pp, [instances][threads]
    u32* results;         // [registers][trials] of the threads on this GPU
    u32 first_turn;       // multiple of turns_a_meeting, and not 0; it only grows, since start slots are never reset
    u32 trials;           // of this launch
    u32 instances;        // how many run at once
    u32 blocks;           // blocks of the test on this GPU
    u32 warps;            // the most threads that one of these has
    u32 lanes;            // threads of a warp here: 32, or 1 where idle lanes would only cost
    u32 turns_a_meeting;  // how often an instance runs from one meeting of its threads to the next
    u32 seed;
    u32 stride;  // words between the same variable of two trials
};

// Which thread of which instance the calling thread is; `role` counts the test's threads on this GPU by block and warp.
struct Part {
    u32 instance;
    u32 role;
    bool takes_part;
};

__device__ __forceinline__ Part part_of_thread(const Trials& all) {
    const u32 warp = threadIdx.x / all.lanes;
    const u32 instances_a_block = blockDim.x / all.lanes / all.warps;
    Part part;
    part.instance = blockIdx.x / all.blocks * instances_a_block + warp / all.warps;
    part.role = blockIdx.x % all.blocks * all.warps + warp % all.warps;
    part.takes_part = threadIdx.x % all.lanes == 0;
    return part;
}

// Lets the threads of an instance begin together, and orders nothing. False if the wait gave up.
template <u32 THREADS>
__device__ __forceinline__ bool meet(const Trials& all, u32 instance, u32 thread, u32 turn, const Deadline& deadline) {
    constexpr u32 STRIDE = SLOT_STRIDE / sizeof(u32);
    const u32 first = instance * THREADS;
#pragma unroll 1
    for (u32 other = 0; other < THREADS; ++other) {
        if (other != thread) store_relaxed_sys(all.starts[other] + (first + thread) * STRIDE, turn);
    }
#pragma unroll 1
    for (u32 other = 0; other < THREADS; ++other) {
        if (other == thread) continue;
        const u32* start = all.starts[thread] + (first + other) * STRIDE;
        if (!wait_slot<RelaxedSys>(start, turn, deadline, thread, START_ROW, other, turn)) return false;
    }
    return true;
}

// Bits in which threads, turns and seeds differ (the last steps of MurmurHash3).
__device__ __forceinline__ u32 mixed(u32 bits) {
    bits = (bits ^ bits >> 16) * 0x85ebca6bu;
    bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
    return bits ^ bits >> 16;
}

// Every other time not at all, else up to 4 us, which is longer than a store takes to any home, and more often less:
// what overlaps with what must differ between turns.
__device__ __forceinline__ void wait_a_little(u32 bits) {
    if (bits & 1) __nanosleep((bits >> 8 & 4095) >> (bits >> 1 & 3));
}

// The turns of one thread of one instance. words[v]: where variable v of the first trial lies.
template <typename Thread, u32 THREADS, u32 VARIABLES>
__device__ __forceinline__ void take_turns(const Trials& all, u32 instance, u32* const (&words)[VARIABLES]) {
    const Deadline deadline = deadline_from(all.watch);
    const u32 own = mixed(all.seed ^ mixed(instance * THREADS + Thread::NUMBER));
    u32 turn = all.first_turn;
#pragma unroll 1
    for (u32 trial = instance; trial < all.trials; trial += all.instances, ++turn) {
        if (THREADS > 1 && turn % all.turns_a_meeting == 0) {
            if (!meet<THREADS>(all, instance, Thread::NUMBER, turn, deadline)) return;
        }
        wait_a_little(mixed(own + turn));
        u32* own_words[VARIABLES];
        for (u32 v = 0; v < VARIABLES; ++v) own_words[v] = words[v] + trial * all.stride;
        if (!Thread::run(own_words, all.results + trial, all.trials, deadline)) return;
    }
}

// Looked at wherever a thread of the test jumps back: true, with a record, if the launch has no time left.
__device__ __forceinline__ bool too_late(const Deadline& deadline, u32 thread, u32 jumps) {
    const u32 reason = out_of_time(deadline, jumps);
    if (reason) record_wait(deadline, reason, thread, LOOP_ROW, thread, 0, 0, jumps);
    return reason != 0;
}
