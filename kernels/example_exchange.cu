// Two ranks exchange rows, round after round: the smallest complete use of slots.cuh.
//
// Every rank has an inbox of `words` words and two slots (128 bytes apart) in memory that its peer can store to:
//   slot 0  ARRIVED  the peer has filled my inbox for round k
//   slot 1  TAKEN    the peer has read what I sent in round k, so I may overwrite its inbox
// Each slot has exactly one writer, the peer. Sequence numbers are the round numbers, from 1 on, never reset.
#include "slots.cuh"

constexpr u32 ARRIVED = 0;
constexpr u32 TAKEN = 1;

__device__ __forceinline__ u32* slot(u32* slots, u32 row) { return slots + row * (SLOT_STRIDE / sizeof(u32)); }

// One block a rank. my_*: my own memory, which the peer writes. peer_*: the peer's, which only I write.
// sums[rounds]: what this rank received in each round, added up.
extern "C" __global__ void exchange(Watch* watch, u32 rank, u32* my_slots, u32* my_inbox, u32* peer_slots,
                                    u32* peer_inbox, u32 words, u32 rounds, u32* sums) {
    const Deadline deadline = deadline_from(watch);
    __shared__ bool arrived;
    for (u32 round = 1; round <= rounds; ++round) {
        // 1. May I overwrite? Only once the peer has taken the round before.
        if (threadIdx.x == 0) {
            arrived = wait_slot<AcquireSys>(slot(my_slots, TAKEN), round - 1, deadline, rank, TAKEN, 1 - rank, round);
        }
        __syncthreads();
        if (!arrived) return;  // the same for the whole block, so nobody is left at a barrier

        // 2. Push with plain stores; then one thread publishes for all: the barrier hands their writes on to it, and
        //    the release in signal_slot makes them visible to whoever acquires the slot.
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) peer_inbox[i] = (round << 16) + (rank << 12) + i;
        __syncthreads();
        if (threadIdx.x == 0) {
            signal_slot(slot(peer_slots, ARRIVED), round);

            // 3. Wait in local memory for the peer's rows.
            arrived = wait_slot<AcquireSys>(slot(my_slots, ARRIVED), round, deadline, rank, ARRIVED, 1 - rank, round);
        }
        __syncthreads();
        if (!arrived) return;

        // 4. Read, then allow the peer to overwrite: this too is a release, since the reads must come before.
        u32 sum = 0;
        for (u32 i = threadIdx.x; i < words; i += blockDim.x) sum += my_inbox[i];
        atomicAdd(sums + round - 1, sum);  // own memory, own GPU: local atomics are reliable
        __syncthreads();
        if (threadIdx.x == 0) signal_slot(slot(peer_slots, TAKEN), round);
    }
}
