// Blocks of one GPU each write a part; the last to arrive tells the blocks of another GPU, which read all parts.
#include "slots.cuh"

extern "C" __global__ void produce(Watch*, u32* parts, u32* arrivals, u32* slot) {
    parts[blockIdx.x] = 1;
    if (atomic_inc_acq_rel_gpu(arrivals, gridDim.x - 1) == gridDim.x - 1) signal_slot(slot, 1);
}

// seen[block]: how many parts were there.
extern "C" __global__ void consume(Watch* watch, const u32* parts, u32 count, const u32* slot, u32* seen) {
    const Deadline deadline = deadline_from(watch);
    if (!wait_slot<AcquireSys>(slot, 1, deadline, 1, 0, 0, 1)) return;
    u32 sum = 0;
    for (u32 part = 0; part < count; ++part) sum += parts[part];
    seen[blockIdx.x] = sum;
}
