// Rows pushed to other ranks by a table of routes, and taken out chunk by chunk: what `verify`'s dispatch, combine and
// end-to-end are made of.
//
// A stream goes from one producer to one consumer and is cut into chunks, a chunk into pieces; blocks push pieces, and
// whoever finishes a chunk's last piece is elected on a local counter and publishes the chunk. A stream without rows
// has one chunk without rows: nobody is elected there, so the producer publishes it when the iteration starts. Once a
// stream was read its consumer says so in the producer's ACK slot: only then does the producer overwrite it.
#pragma once
#include "verify.cuh"

struct Route {  // of one row that a rank sends
    u32 consumer;
    u32 row;       // names the payload
    u32 position;  // in its stream
};
struct Piece {  // of one chunk: rows that a block pushes together
    u32 consumer;
    u32 chunk;
    u32 first;  // of the rank's routes
    u32 rows;
    u32 expected;  // pieces of the chunk
};

// What one rank is given to work with, and what it leaves; [world], the same table on every device.
struct Job {
    const Route* routes;
    const Piece* pieces;
    const u32* sent;      // [world] rows to each consumer
    const u32* received;  // [world] rows from each producer
    u32* elections;       // [world][chunks], all 0 between iterations
    u32* pushed;          // [iterations][world][chunks]: rows pushed to each consumer
    u32* counted;         // [iterations][world][chunks]: rows from each producer that were there when released
    Vector* output;       // [iterations][world][capacity] rows, as they were read
    u64 routes_count;
    u64 pieces_count;
};

struct Shape {  // of all streams
    u32 row_vectors;
    u32 capacity;  // rows of the longest stream
    u32 chunk_rows;
    u32 chunks;  // of the longest stream

    __device__ __forceinline__ u32 chunks_of(u32 rows) const { return rows ? (rows + chunk_rows - 1) / chunk_rows : 1; }
    __device__ __forceinline__ u64 vector_of(u32 peer, u32 position) const {
        return (static_cast<u64>(peer) * capacity + position) * row_vectors;
    }
};

// Which slots a stream uses.
struct Lane {
    u32 first_row;  // + chunk, at the consumer
    u32 ack_row;    // at the producer
};
[[maybe_unused]] constexpr Lane FORTH{FIRST_ROW, ACK_ROW};
[[maybe_unused]] constexpr Lane BACK{RETURN_ROW, RETURN_ACK_ROW};

__device__ __forceinline__ u32* chunk_slot(const Endpoint& consumer, Lane lane, u32 chunk, u32 producer, u32 world) {
    return slot_at(consumer.slots, lane.first_row + chunk, ONE_SLOT_FOR_ALL ? 0 : producer, world);
}

// Streams without rows, by one thread of the rank.
__device__ __forceinline__ void publish_empty_streams(const Endpoint* ranks, const u32* sent, Lane lane, u32 rank,
                                                      u32 world, u32 sequence) {
    for (u32 consumer = 0; consumer < world; ++consumer) {
        if (sent[consumer] == 0) publish(chunk_slot(ranks[consumer], lane, 0, rank, world), sequence);
    }
}

__device__ __forceinline__ void sync_before_count() {
#if BLOCK_SYNC != BLOCK_SYNC_NOT_BEFORE_COUNT
    __syncthreads();
#endif
}
__device__ __forceinline__ void sync_after_wait() {
#if BLOCK_SYNC != BLOCK_SYNC_NOT_AFTER_WAIT
    __syncthreads();
#endif
}

// The rows of one piece, by all threads of a block; returns when they may be counted.
__device__ __forceinline__ void push_piece(const Endpoint* ranks, const Job& job, const Piece& piece,
                                           const Shape& shape, const Trial& trial, u32 rank, u32 iteration) {
    const Route first = job.routes[piece.first];
    Vector* const to = ranks[piece.consumer].landing + shape.vector_of(rank, first.position);
    const u32 vectors = piece.rows * shape.row_vectors;
#if BULK
    extern __shared__ __align__(128) Vector tile[];  // a piece
#endif
    for (u32 i = threadIdx.x; i < vectors; i += blockDim.x) {
        const u32 number = piece.first + i / shape.row_vectors;
        const u32 key = row_key(iteration, rank, job.routes[number].row);
        const Vector v = sent_vector(trial, rank, number, iteration, key, i % shape.row_vectors);
#if BULK
        tile[i] = v;
#else
        store_vector(to + i, v);
#endif
    }
#if BULK
#if !NO_PROXY_FENCE
    // Orders the tile, and for the first thread what it acquired: who read what lies there has done so.
    asm volatile("fence.proxy.async;" ::: "memory");
#endif
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(static_cast<u32>(__cvta_generic_to_shared(tile))),
                     "r"(vectors * static_cast<u32>(sizeof(Vector)))
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#if BULK_WAIT == BULK_WAIT_READ
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
#else
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
        asm volatile("fence.proxy.async;" ::: "memory");
    }
#endif
    sync_before_count();
}

// One iteration of a producing block. False if a wait of this device gave up: all threads return the same.
__device__ __forceinline__ bool produce(const Endpoint* ranks, const Job& job, const Shape& shape, const Trial& trial,
                                        u32 rank, u32 block, u32 blocks, u32 iteration, const Deadline& deadline,
                                        u32* gave_up) {
    const u32 world = trial.world;
    const u32 sequence = trial.start + iteration;
    if (block == 0 && threadIdx.x == 0) publish_empty_streams(ranks, job.sent, FORTH, rank, world, sequence);
    for (u32 p = block; p < job.pieces_count; p += blocks) {
        const Piece piece = job.pieces[p];
        u32* const counter = job.elections + piece.consumer * shape.chunks + piece.chunk;
        u32* const slot = chunk_slot(ranks[piece.consumer], FORTH, piece.chunk, rank, world);
        if (threadIdx.x == 0) {
            if (!await_ack(ranks[rank], ACK_ROW, piece.consumer, sequence, deadline, rank, world)) *gave_up = 1;
            if (PUBLISH_FIRST) arrive_and_publish(counter, piece.expected, slot, sequence);
            const bool ends_stream = p + 1 == job.pieces_count || job.pieces[p + 1].consumer != piece.consumer;
            if (ends_stream) be_late(trial, rank, WRITING, deadline);
        }
        __syncthreads();
        if (*gave_up) return false;
        push_piece(ranks, job, piece, shape, trial, rank, iteration);
        if (threadIdx.x == 0) {
            if (!PUBLISH_FIRST) arrive_and_publish(counter, piece.expected, slot, sequence);
            tally(job.pushed + (static_cast<u64>(iteration) * world + piece.consumer) * shape.chunks + piece.chunk,
                  piece.rows);
        }
        __syncthreads();
    }
    return true;
}

// Keeps what was read as it was read.
struct Keep {
    Vector* output;
    Shape shape;

    __device__ __forceinline__ void operator()(u32 producer, u32 position, u32 vector, const Vector& v) const {
        store_vector(output + shape.vector_of(producer, position) + vector, v);
    }
    __device__ __forceinline__ void operator()(u32, u32) const {}
};

// One iteration of a consuming block, which takes every `blocks`th stream: waits chunk by chunk, gives each row to
// `sink(producer, position, vector number, vector)`, calls `done(producer, position)` once for each when all threads
// have done so, and says that the stream was read.
template <typename Sink, typename Done>
__device__ __forceinline__ bool consume(const Endpoint* ranks, const Job& job, Lane lane, Vector* landing,
                                        const Shape& shape, const Trial& trial, u32 rank, u32 block, u32 blocks,
                                        u32 iteration, const Deadline& deadline, u32* gave_up, Sink sink, Done done) {
    const u32 world = trial.world;
    const u32 sequence = trial.start + iteration;
    for (u32 n = block; n < world; n += blocks) {
        const u32 producer = (rank + n) % world;
        const u32 rows = job.received[producer];
        for (u32 chunk = 0; chunk < shape.chunks_of(rows); ++chunk) {
            if (threadIdx.x == 0) {
                const u32 released_by = CHUNK_BEFORE && chunk ? chunk - 1 : chunk;
                const u32 col = ONE_SLOT_FOR_ALL ? 0 : producer;
                const u32 row = lane.first_row + released_by;
                if (!await(ranks[rank], row, col, sequence, deadline, rank, world)) *gave_up = 1;
                be_late(trial, rank, READING, deadline);
            }
            sync_after_wait();
            if (*gave_up) return false;
            const u32 first = chunk * shape.chunk_rows;
            const u32 here = min(shape.chunk_rows, rows - first);
            Vector* const from = landing + shape.vector_of(producer, first);
            u32* const counted = job.counted + (static_cast<u64>(iteration) * world + producer) * shape.chunks + chunk;
            for (u32 i = threadIdx.x; i < here * shape.row_vectors; i += blockDim.x) {
                const Vector v = load_vector(from + i);
                store_vector(from + i, poison_vector());
                const u32 vector = i % shape.row_vectors;
                if (vector == 0 && v.x != POISON) tally(counted, 1);
                sink(producer, first + i / shape.row_vectors, vector, v);
            }
            __syncthreads();
            for (u32 i = threadIdx.x; i < here; i += blockDim.x) done(producer, first + i);
        }
        if (threadIdx.x == 0) signal_slot(slot_at(ranks[producer].slots, lane.ack_row, rank, world), sequence);
    }
    return true;
}
