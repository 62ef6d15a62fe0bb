// The all-GPU barrier between writing and reading: all threads of a rank write to every other rank, the barrier, all
// threads read what the others wrote. Two boards take turns, so that the next barrier is also the leave to overwrite.
// One block a rank.
#include "verify.cuh"

constexpr u32 MESSAGE_WORDS = 16;

// One word a rank, behind its boards, which all ranks increment: what peer atomics would be good for.
__device__ __forceinline__ u32* remote_counter(const Endpoint& rank, u32 world) {
    return reinterpret_cast<u32*>(rank.landing) + 2 * world * MESSAGE_WORDS;
}
__device__ __forceinline__ void increment(u32* word) {
    asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(word) : "memory");
}

// What thread t of a rank does for rank t in one round. False if the wait gave up.
__device__ __forceinline__ bool meet(const Endpoint* ranks, const Trial& trial, u32 rank, u32 iteration,
                                     const Deadline& deadline) {
    const u32 world = trial.world;
    const u32 peer = threadIdx.x;
    const Endpoint& own = ranks[rank];
    const u32 sequence = trial.start + iteration;
    if (peer >= world) return true;
#if ARRIVED_BY == ARRIVED_BY_REMOTE_COUNTER
    increment(remote_counter(ranks[peer], world));
    if (peer != 0) return true;
    const u32 wanted = trial.start - 1 + (iteration + 1) * world;
    return wait_slot<Wait, POLL_PAUSE_NS, has_arrived>(remote_counter(own, world), wanted, deadline, rank, LOCAL_ROW, 0,
                                                       sequence);
#else
    const u32 value = SEQUENCE == SEQUENCE_GROWS ? sequence : 1;
    [[maybe_unused]] u32* const mine = slot_at(own.slots, FIRST_ROW, peer, world);
#if SEQUENCE == SEQUENCE_RESET_BETWEEN_ROUNDS
    if (iteration) store_relaxed_sys(mine, 0);
#endif
    if (peer != rank) publish(slot_at(ranks[peer].slots, FIRST_ROW, rank, world), value);
    if (peer == rank && !OWN_SLOT) return true;
    const bool arrived = await(own, FIRST_ROW, peer, value, deadline, rank, world);
    be_late(trial, rank, READING, deadline);
#if SEQUENCE == SEQUENCE_CLEARED_BY_WAITER
    store_relaxed_sys(mine, 0);
#endif
    return arrived;
#endif
}

// outputs[rank]: [iterations][world][MESSAGE_WORDS], what the rank read from each other.
extern "C" __global__ void verify_barrier(Watch* watch, const Endpoint* ranks, u32* const* outputs, TRIAL_PARAMETERS) {
    __shared__ u32 gave_up;
    const Deadline deadline = deadline_from(watch);
    const Trial trial = TRIAL;
    const u32 rank = first_rank + blockIdx.x;
    const u32 words = world * MESSAGE_WORDS;
    if (threadIdx.x == 0) gave_up = 0;
    __syncthreads();
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        const u32 board = (iteration & 1) * words;
        if (threadIdx.x == 0) be_late(trial, rank, WRITING, deadline);
        __syncthreads();
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
            const u32 peer = i / MESSAGE_WORDS;
            const u32 column = i % MESSAGE_WORDS;
            const bool corrupt = rank == corrupt_rank && peer == corrupt_row && iteration == 0 && column == 1;
            u32* const theirs = reinterpret_cast<u32*>(ranks[peer].landing) + board + rank * MESSAGE_WORDS;
            if (peer != rank) theirs[column] = payload(row_key(iteration, rank, peer), column) ^ (corrupt ? 0x100 : 0);
        }
#if BLOCK_SYNC != BLOCK_SYNC_NOT_BEFORE_COUNT
        __syncthreads();
#endif
        if (!meet(ranks, trial, rank, iteration, deadline)) gave_up = 1;
#if BLOCK_SYNC != BLOCK_SYNC_NOT_AFTER_WAIT
        __syncthreads();
#endif
        u32* const mine = reinterpret_cast<u32*>(ranks[rank].landing) + board;
        u32* const output = outputs[rank] + static_cast<u64>(iteration) * words;
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
            if (i / MESSAGE_WORDS == rank) continue;
            output[i] = mine[i];
            mine[i] = POISON;
        }
        __syncthreads();
        if (gave_up) break;  // the next round's barriers come between this and the next store
    }
}
