// Gate counters: rows that arrive on this GPU open the gate of their block of ROW_BLOCK rows. Padding rows have no
// writer, so each counter is seeded with their number, and the last real row brings it exactly to ROW_BLOCK.
#pragma once
#include "verify.cuh"

constexpr u32 ROW_BLOCK = 128;

struct Arrival {  // of one row
    u32 source;   // it and row name the payload
    u32 row;
    u32 slot;      // in expert order, each expert's rows padded to whole blocks
    u32 position;  // in the stream that it came by
};

__device__ __forceinline__ void add_to_gate(u32* counter, u32 rows) {
#if COUNT == COUNT_RELAXED_GPU
    asm volatile("red.relaxed.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(rows) : "memory");
#else
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(counter), "r"(rows) : "memory");
#endif
}

__device__ __forceinline__ void seed_gate(u32* counter, u32 padding) { add_to_gate(counter, padding + SEED_EXTRA); }

// False if the wait gave up.
__device__ __forceinline__ bool await_gate(const u32* counter, u32 row_block, const Deadline& deadline, u32 rank,
                                           u32 iteration) {
    return wait_slot<AcquireGpu, 32>(counter, ROW_BLOCK, deadline, rank, LOCAL_ROW, row_block, iteration);
}
