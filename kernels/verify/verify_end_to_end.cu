// Everything together: dispatch, gate, an integer operation on each row, combine, and the sum of each row's results.
//
// A rank has `producers` blocks that dispatch, `consumers` blocks that take rows out chunk by chunk and put them into
// expert order, `gates` blocks that wait for a full block of rows, work on it and return its rows, and one block that
// adds up what came back. All of them must be resident. No two wait for each other in a circle: gates of an iteration
// wait for the finishing block of the one before, which waits for gates of the one before.
#include "verify_gate.cuh"
#include "verify_push.cuh"

struct Result {  // where one choice's result of a row comes back
    u32 rank;    // NOTHING where the row has no such choice
    u32 position;
};
struct EndJob {               // of one rank, besides its Job
    const u32* slot_of;       // [world][capacity]: where a row goes in expert order
    const Arrival* arrivals;  // by slot, without the padding
    const u32* first;         // [row blocks + 1]: of the arrivals
    const u32* seeds;         // [row blocks]
    const u32* experts;       // [row blocks]
    u32* counters;            // [iterations][row blocks], 0 at first
    Vector* rows;             // [iterations][slots]
    u32* elections;           // [world], of what is returned
    const Result* results;    // [rows][choices]
    Vector* sums;             // [iterations][rows]
    u64 row_blocks;
    u64 rows_count;
    u64 choices;
};

__device__ __forceinline__ u32 worked_on(u32 word, u32 expert, u32 column) {
    return word * 3 + expert * 0x10001u + column;
}

// One iteration of a gate block. False if a wait gave up.
__device__ __forceinline__ bool work(const Endpoint* ranks, const Job& job, const EndJob& end, const Shape& shape,
                                     const Trial& trial, u32 rank, u32 block, u32 blocks, u32 iteration,
                                     const Deadline& deadline, u32* gave_up) {
    const u32 world = trial.world;
    const u32 sequence = trial.start + iteration;
    if (block == 0 && threadIdx.x == 0) publish_empty_streams(ranks, job.received, BACK, rank, world, sequence);
    u32* const counters = end.counters + iteration * end.row_blocks;
    const Vector* const rows = end.rows + iteration * end.row_blocks * ROW_BLOCK * shape.row_vectors;
    for (u32 b = block; b < end.row_blocks; b += blocks) {
        if (threadIdx.x == 0) {
            seed_gate(counters + b, end.seeds[b]);
            if (!await_gate(counters + b, b, deadline, rank, iteration)) *gave_up = 1;
            be_late(trial, rank, READING, deadline);
        }
        sync_after_wait();
        if (*gave_up) return false;
        for (u32 n = end.first[b]; n < end.first[b + 1]; ++n) {
            const Arrival arrival = end.arrivals[n];
            if (threadIdx.x == 0
                && !await_ack(ranks[rank], RETURN_ACK_ROW, arrival.source, sequence, deadline, rank, world)) {
                *gave_up = 1;
            }
            __syncthreads();
            if (*gave_up) return false;
            Vector* const to = ranks[arrival.source].returns + shape.vector_of(rank, arrival.position);
            for (u32 vector = threadIdx.x; vector < shape.row_vectors; vector += blockDim.x) {
                const Vector v = load_vector(rows + static_cast<u64>(arrival.slot) * shape.row_vectors + vector);
                const u32 column = vector * VECTOR_WORDS;
                const u32 expert = end.experts[b];
                store_vector(to + vector,
                             make_uint4(worked_on(v.x, expert, column), worked_on(v.y, expert, column + 1),
                                        worked_on(v.z, expert, column + 2), worked_on(v.w, expert, column + 3)));
            }
            sync_before_count();
            if (threadIdx.x == 0) {
                arrive_and_publish(end.elections + arrival.source, job.received[arrival.source],
                                   chunk_slot(ranks[arrival.source], BACK, 0, rank, world), sequence);
            }
            __syncthreads();
        }
    }
    return true;
}

// One iteration of the finishing block. False if a wait gave up.
__device__ __forceinline__ bool finish(const Endpoint* ranks, const EndJob& end, const Shape& shape, const Trial& trial,
                                       u32 rank, u32 iteration, const Deadline& deadline, u32* gave_up) {
    const u32 world = trial.world;
    const u32 sequence = trial.start + iteration;
    if (threadIdx.x < world && !await(ranks[rank], RETURN_ROW, threadIdx.x, sequence, deadline, rank, world)) {
        *gave_up = 1;
    }
    sync_after_wait();
    if (*gave_up) return false;
    Vector* const sums = end.sums + iteration * end.rows_count * shape.row_vectors;
    for (u32 i = threadIdx.x; i < end.rows_count * shape.row_vectors; i += blockDim.x) {
        Vector sum = make_uint4(0, 0, 0, 0);
        for (u32 choice = 0; choice < end.choices; ++choice) {
            const Result result = end.results[i / shape.row_vectors * end.choices + choice];
            if (result.rank == NOTHING) continue;
            Vector* const from =
                ranks[rank].returns + shape.vector_of(result.rank, result.position) + i % shape.row_vectors;
            const Vector v = load_vector(from);
            store_vector(from, poison_vector());
            sum = make_uint4(sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w);
        }
        store_vector(sums + i, sum);
    }
    __syncthreads();
    if (threadIdx.x < world) {
        signal_slot(slot_at(ranks[threadIdx.x].slots, RETURN_ACK_ROW, rank, world), sequence);
    }
    return true;
}

extern "C" __global__ void verify_end_to_end(Watch* watch, const Endpoint* ranks, const Job* jobs, const EndJob* ends,
                                             u32 row_vectors, u32 capacity, u32 chunk_rows, u32 chunks, u32 producers,
                                             u32 consumers, u32 gates, TRIAL_PARAMETERS) {
    __shared__ u32 gave_up;
    const Deadline deadline = deadline_from(watch);
    const Trial trial = TRIAL;
    const Shape shape{row_vectors, capacity, chunk_rows, chunks};
    const u32 blocks = producers + consumers + gates + 1;
    const u32 rank = first_rank + blockIdx.x / blocks;
    const u32 block = blockIdx.x % blocks;
    const Job job = jobs[rank];
    const EndJob end = ends[rank];
    if (threadIdx.x == 0) gave_up = 0;
    __syncthreads();
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        bool going_on;
        if (block < producers) {
            going_on = produce(ranks, job, shape, trial, rank, block, producers, iteration, deadline, &gave_up);
        } else if (block < producers + consumers) {
            Vector* const rows = end.rows + iteration * end.row_blocks * ROW_BLOCK * shape.row_vectors;
            u32* const counters = end.counters + iteration * end.row_blocks;
            const u32* const slot_of = end.slot_of;
            auto order = [&](u32 producer, u32 position, u32 vector, const Vector& v) {
                const u32 slot = slot_of[producer * shape.capacity + position];
                store_vector(rows + static_cast<u64>(slot) * shape.row_vectors + vector, v);
            };
            auto count = [&](u32 producer, u32 position) {
                add_to_gate(counters + slot_of[producer * shape.capacity + position] / ROW_BLOCK, 1);
            };
            going_on = consume(ranks, job, FORTH, ranks[rank].landing, shape, trial, rank, block - producers, consumers,
                               iteration, deadline, &gave_up, order, count);
        } else if (block + 1 < blocks) {
            going_on = work(ranks, job, end, shape, trial, rank, block - producers - consumers, gates, iteration,
                            deadline, &gave_up);
        } else {
            going_on = finish(ranks, end, shape, trial, rank, iteration, deadline, &gave_up);
        }
        if (!going_on) break;
    }
}
