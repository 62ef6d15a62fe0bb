// Combine alone: each rank returns rows to the ranks they came from. Every thread pushes rows by itself and counts
// itself once its row is written; whoever completes the count of a destination publishes it. No block barrier takes
// part: the election alone carries all threads' writes.
//
// A rank has `producers` blocks, then `consumers` blocks; all of them must be resident.
#include "verify_push.cuh"

// One iteration of one thread; false if a wait gave up.
__device__ __forceinline__ bool return_rows(const Endpoint* ranks, const Job& job, const Shape& shape,
                                            const Trial& trial, u32 rank, u32 block, u32 blocks, u32 iteration,
                                            const Deadline& deadline) {
    const u32 world = trial.world;
    const u32 sequence = trial.start + iteration;
    if (block == 0 && threadIdx.x == 0) publish_empty_streams(ranks, job.sent, BACK, rank, world, sequence);
    for (u32 n = block * blockDim.x + threadIdx.x; n < job.routes_count; n += blocks * blockDim.x) {
        const Route route = job.routes[n];
        u32* const counter = job.elections + route.consumer;
        u32* const slot = chunk_slot(ranks[route.consumer], BACK, 0, rank, world);
        if (!await_ack(ranks[rank], RETURN_ACK_ROW, route.consumer, sequence, deadline, rank, world)) return false;
        if (PUBLISH_FIRST) arrive_and_publish(counter, job.sent[route.consumer], slot, sequence);
        const bool ends_stream = n + 1 == job.routes_count || job.routes[n + 1].consumer != route.consumer;
        if (ends_stream) be_late(trial, rank, WRITING, deadline);
        const u32 key = row_key(iteration, rank, route.row);
        Vector* const to = ranks[route.consumer].returns + shape.vector_of(rank, route.position);
        for (u32 vector = 0; vector < shape.row_vectors; ++vector) {
            store_vector(to + vector, sent_vector(trial, rank, n, iteration, key, vector));
        }
        if (!PUBLISH_FIRST) arrive_and_publish(counter, job.sent[route.consumer], slot, sequence);
        tally(job.pushed + static_cast<u64>(iteration) * world + route.consumer, 1);
    }
    return true;
}

extern "C" __global__ void verify_combine(Watch* watch, const Endpoint* ranks, const Job* jobs, u32 row_vectors,
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
        if (block < producers) {
            if (!return_rows(ranks, job, shape, trial, rank, block, producers, iteration, deadline)) return;
        } else {
            const Keep keep{job.output + iteration * shape.vector_of(world, 0), shape};
            if (!consume(ranks, job, BACK, ranks[rank].returns, shape, trial, rank, block - producers, consumers,
                         iteration, deadline, &gave_up, keep, keep))
                return;
        }
    }
}
