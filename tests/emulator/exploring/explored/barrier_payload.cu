// Behind kernels/barrier.cu: what every rank wrote before a round is there for all after it. A thread that neither
// signals nor waits writes and reads, so that block-wide synchronisation counts too.
// data[r]: one word of rank r. seen[rank * rounds + round - 1]: what rank found in the other rank's word.
extern "C" __global__ void barrier_payload(Watch* watch, u32* const* slots, u32* const* data, u32 rank, u32 rounds,
                                           u32* local, u32* seen) {
    constexpr u32 WORLD = 2;
    const Deadline deadline = deadline_from(watch);
    const Exchange exchange = exchange_of_thread(slots, rank, WORLD);
    for (u32 round = 1; round <= rounds; ++round) {
        if (threadIdx.x == rank) *data[rank] = round;
        sync_block();  // before the round
        pass(exchange, round, false, local, deadline, rank, round);
        sync_block();  // after the round
        if (threadIdx.x == rank) seen[rank * rounds + round - 1] = *data[1 - rank];
    }
}
