// Gates alone: blocks of one GPU write rows into expert order and count them; gate blocks wait for a full block of
// rows and read it. Nothing crosses a link, so everything is of gpu scope.
//
// A rank has `writers` blocks, then `gates` blocks; all of them must be resident.
#include "verify_gate.cuh"

struct GateJob {  // of one rank
    const Arrival* arrivals;
    const u32* seeds;  // [row blocks]: padding rows
    u32* counters;     // [iterations][row blocks], 0 at first
    u32* counted;      // [iterations][row blocks]: rows that were there when the gate opened
    Vector* rows;      // [iterations][slots] rows
    Vector* output;    // the same, as the gate blocks read them
    u64 arrivals_count;
    u64 row_blocks;
};

extern "C" __global__ void verify_gate(Watch* watch, const GateJob* jobs, u32 row_vectors, u32 writers, u32 gates,
                                       TRIAL_PARAMETERS) {
    __shared__ u32 gave_up;
    const Deadline deadline = deadline_from(watch);
    const Trial trial = TRIAL;
    const u32 rank = first_rank + blockIdx.x / (writers + gates);
    const u32 block = blockIdx.x % (writers + gates);
    const GateJob job = jobs[rank];
    if (threadIdx.x == 0) gave_up = 0;
    __syncthreads();
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        u32* const counters = job.counters + iteration * job.row_blocks;
        const u64 first_row = iteration * job.row_blocks * ROW_BLOCK;
        if (block < writers) {
            for (u32 n = block; n < job.arrivals_count; n += writers) {
                const Arrival arrival = job.arrivals[n];
                if (threadIdx.x == 0 && n + 1 == job.arrivals_count) be_late(trial, rank, WRITING, deadline);
                __syncthreads();
                const u32 key = row_key(iteration, arrival.source, arrival.row);
                for (u32 vector = threadIdx.x; vector < row_vectors; vector += blockDim.x) {
                    store_vector(job.rows + (first_row + arrival.slot) * row_vectors + vector,
                                 sent_vector(trial, rank, n, iteration, key, vector));
                }
#if BLOCK_SYNC != BLOCK_SYNC_NOT_BEFORE_COUNT
                __syncthreads();
#endif
                if (threadIdx.x == 0) add_to_gate(counters + arrival.slot / ROW_BLOCK, 1);
            }
            continue;
        }
        for (u32 b = block - writers; b < job.row_blocks; b += gates) {
            const u32 padding = job.seeds[b];
            if (threadIdx.x == 0) {
                seed_gate(counters + b, padding);
                if (!await_gate(counters + b, b, deadline, rank, iteration)) gave_up = 1;
                be_late(trial, rank, READING, deadline);
            }
#if BLOCK_SYNC != BLOCK_SYNC_NOT_AFTER_WAIT
            __syncthreads();
#endif
            if (gave_up) return;
            const u64 from = (first_row + b * ROW_BLOCK) * row_vectors;
            for (u32 i = threadIdx.x; i < (ROW_BLOCK - padding) * row_vectors; i += blockDim.x) {
                const Vector v = load_vector(job.rows + from + i);
                if (i % row_vectors == 0 && v.x != POISON) tally(job.counted + iteration * job.row_blocks + b, 1);
                store_vector(job.output + from + i, v);
            }
            __syncthreads();
        }
    }
}
