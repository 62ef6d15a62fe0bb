// Dispatch alone: each rank pushes its rows to the ranks of their experts, in chunks with a signal each (the chunk
// watermark), and takes out what the others pushed to it.
//
// A rank has `producers` blocks, then `consumers` blocks; all of them must be resident. Ranks of one grid follow each
// other.
#include "verify_push.cuh"

extern "C" __global__ void verify_dispatch(Watch* watch, const Endpoint* ranks, const Job* jobs, u32 row_vectors,
                                           u32 capacity, u32 chunk_rows, u32 chunks, u32 producers, u32 consumers,
                                           TRIAL_PARAMETERS) {
    __shared__ u32 gave_up;
    const Deadline deadline = deadline_from(watch);
    const Trial trial = TRIAL;
    const Shape shape{row_vectors, capacity, chunk_rows, chunks};
    const u32 rank = first_rank + blockIdx.x / (producers + consumers);
    const u32 block = blockIdx.x % (producers + consumers);
    const Job job = jobs[rank];
    if (threadIdx.x == 0) gave_up = 0;
    __syncthreads();
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        bool going_on;
        if (block < producers) {
            going_on = produce(ranks, job, shape, trial, rank, block, producers, iteration, deadline, &gave_up);
        } else {
            const Keep keep{job.output + iteration * shape.vector_of(world, 0), shape};
            going_on = consume(ranks, job, FORTH, ranks[rank].landing, shape, trial, rank, block - producers, consumers,
                               iteration, deadline, &gave_up, keep, keep);
        }
        if (!going_on) break;
    }
}
