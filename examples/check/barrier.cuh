// A barrier of all ranks, block by block: every rank writes its epoch into its own slot at every other rank, and waits
// until all slots of its own have reached it. `slots[r]` is rank r's array, [block][writer].
#pragma once
#include "slots.cuh"

struct Slots {
    u32* of[8];
};

__device__ __forceinline__ void meet(const Slots& slots, u32 rank, u32 ranks, u32 epoch) {
    __syncthreads();  // the whole block has written what it publishes
    if (threadIdx.x < ranks) {
        store_release_sys(slots.of[threadIdx.x] + blockIdx.x * 8 + rank, epoch);
#ifdef EXACTLY  // a rank that is one call ahead has already gone past `epoch`: this waits for ever
        while (load_acquire_sys(slots.of[rank] + blockIdx.x * 8 + threadIdx.x) != epoch) {
        }
#else
        while (!reached(load_acquire_sys(slots.of[rank] + blockIdx.x * 8 + threadIdx.x), epoch)) {
        }
#endif
    }
    __syncthreads();  // what the others published is visible to the whole block
}
