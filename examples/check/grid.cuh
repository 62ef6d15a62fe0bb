// Blocks of one GPU: the last one adds up what all have left, and a barrier of the grid that is used again and again.
#pragma once
#include "slots.cuh"

__global__ void sum_by_last_block(const u32* data, u32* partial, u32* arrived, u32* total, u32 words) {
    u32 sum = 0;
    for (u32 i = blockIdx.x; i < words; i += gridDim.x) sum += data[i];
    partial[blockIdx.x] = sum;
#ifndef NO_FENCE  // the last block may add up what has not arrived
    __threadfence();
#endif
    if (atomicInc(arrived, gridDim.x - 1) != gridDim.x - 1) return;  // back to 0 by itself
#ifndef NO_FENCE
    __threadfence();
#endif
    u32 all = 0;
    for (u32 block = 0; block < gridDim.x; ++block) all += static_cast<volatile u32*>(partial)[block];
    *total = all;
}

// `count` returns to 0, then `generation` moves on. The other way round, a block may arrive at the next barrier before
// the count is back, and its arrival is lost.
__device__ __forceinline__ void grid_barrier(u32* count, u32* generation) {
    const u32 now = load_acquire_gpu(generation);
    u32 before;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(count) : "memory");
    if (before == gridDim.x - 1) {
#ifdef COUNT_LAST
        store_release_gpu(generation, now + 1);
        asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(count) : "memory");
#else
        asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(count) : "memory");
        store_release_gpu(generation, now + 1);
#endif
    } else {
        while (load_acquire_gpu(generation) == now) {
        }
    }
}

// Each block writes, all meet, each reads what its neighbour wrote.
__global__ void neighbours(u32* cells, u32* out, u32* count, u32* generation, u32 rounds) {
    for (u32 round = 1; round <= rounds; ++round) {
        cells[blockIdx.x] = round * 10 + blockIdx.x;
        grid_barrier(count, generation);
        out[blockIdx.x] = cells[(blockIdx.x + 1) % gridDim.x];
        grid_barrier(count, generation);
    }
}

// All ranks count themselves in on one word of rank 0. Across PCIe that is a read and a write: an arrival can be lost.
__global__ void count_in(u32* word, u32 ranks, u32* out) {
    atomicAdd_system(word, 1u);
    while (load_acquire_sys(word) < ranks) {
    }
    *out = 1;
}
// The same with a word for each rank, which it alone writes.
struct Words {
    u32* of[8];
};
__global__ void signal_in(Words words, u32 rank, u32 ranks, u32* out) {
    for (u32 to = 0; to < ranks; ++to) store_release_sys(words.of[to] + rank, 1);
    for (u32 from = 0; from < ranks; ++from) {
        while (load_acquire_sys(words.of[rank] + from) == 0) {
        }
    }
    *out = 1;
}
