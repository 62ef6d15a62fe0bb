// All-reduce of RANKS ranks by reading (one stage), or by reducing a share each and gathering the shares (two stages).
#pragma once
#include "barrier.cuh"

template <typename T>
struct Arrays {
    T* of[8];
};

template <typename T, int RANKS>
__global__ void one_stage(Arrays<const T> in, Slots slots, T* out, u32 rank, u32 words, u32 epoch) {
    meet(slots, rank, RANKS, epoch);
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) {
        T sum = 0;
#pragma unroll
        for (int from = 0; from < RANKS; ++from) sum += in.of[from][i];
        out[i] = sum;
    }
#ifndef NO_LAST_BARRIER  // without it the caller overwrites its input while others still read it
    meet(slots, rank, RANKS, epoch + 1);
#endif
}

// The caller's own kernel, between two calls: new input in the same memory.
template <typename T>
__global__ void produce(T* in, u32 words, T add) {
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < words; i += gridDim.x * blockDim.x) in[i] += add;
}

template <typename T, int RANKS>
__global__ void two_stages(Arrays<const T> in, Arrays<T> shares, Slots slots, T* out, u32 rank, u32 words, u32 epoch) {
    const u32 share = words / RANKS;
    meet(slots, rank, RANKS, epoch);
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < share; i += gridDim.x * blockDim.x) {
        T sum = 0;
#pragma unroll
        for (int from = 0; from < RANKS; ++from) sum += in.of[from][rank * share + i];
        shares.of[rank][i] = sum;
    }
#ifdef BLOCK_ALONE  // a thread gathers what it reduced itself elsewhere: the block barrier alone does not order ranks
    __syncthreads();
#else
    meet(slots, rank, RANKS, epoch + 1);
#endif
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < share; i += gridDim.x * blockDim.x) {
#pragma unroll
        for (int from = 0; from < RANKS; ++from) out[from * share + i] = shares.of[from][i];
    }
    meet(slots, rank, RANKS, epoch + 2);
}
