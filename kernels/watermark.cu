// Rows pushed to other ranks in chunks: whoever waits for a chunk may read its rows as soon as its slot says so.
//
// A stream goes from one producer to one consumer. It is cut into chunks, each with a slot at the consumer that only
// this producer stores to: row 1 + chunk, column producer. A chunk is cut into pieces; groups of threads copy pieces,
// and whoever finishes the last piece of a chunk is elected on a local counter and publishes the chunk.
//
// One block plays one role for one rank, so that a grid can carry producers, consumers, or both.
#include "injection.cuh"
#include "slots.cuh"
#include "vectors.cuh"

#ifndef THREADS  // of a block
#define THREADS 1024
#endif
#ifndef GROUPS  // of a producing block; while one of them waits for its fence the others keep the link busy
#define GROUPS 4
#endif
// 0: the same copy without any signal, to compare with.
#ifndef SIGNALS
#define SIGNALS 1
#endif
// 1: copies by TMA through shared memory instead of loads and stores. Needs sm_90.
#ifndef BULK
#define BULK 0
#endif
// 1 compiles in what `injection` asks for; without it that is ignored, and costs nothing.
#ifndef INJECT
#define INJECT 0
#endif

constexpr u32 GROUP_THREADS = THREADS / GROUPS;
constexpr u32 WARPS = THREADS / 32;
constexpr u32 FIRST_ROW = 1;  // of the slots that other ranks write

// What goes wrong on purpose.
[[maybe_unused]] constexpr u32 NONE = 0;
[[maybe_unused]] constexpr u32 SWAP = 1;   // the first two words of row `injected` change places
[[maybe_unused]] constexpr u32 EARLY = 2;  // chunks are published first and copied later
[[maybe_unused]] constexpr u32 DROP = 3;   // chunk `injected` is never published
[[maybe_unused]] constexpr u64 EARLY_BY_NS = 50000;

// What the consumers and producers of one rank work with; [world], the same table on every device.
struct Endpoint {
    u32* slots;            // at the consumer: 1 + chunks rows of `world` slots
    Vector* data;          // at the consumer: the rows of each producer
    const Vector* source;  // at the producer; see source_of
    u64* sums;             // at the consumer: [producer][row][32], one partial checksum a lane
};

struct Role {  // of one block
    u32 rank;
    u32 produces;    // else it consumes
    u32 block;       // which of the ...
    u32 blocks;      // ... blocks with this role and rank
    u32 first_peer;  // the other ends of its streams: `peers` ranks from here on, counted round the world
    u32 peers;
};

struct Plan {  // of every stream
    u32 rows;
    u32 row_vectors;
    u32 chunk_rows;
    u32 piece_rows;

    // A stream without rows has one chunk without rows, so that its consumer learns that it ended.
    __device__ __forceinline__ u32 chunks() const { return rows ? (rows + chunk_rows - 1) / chunk_rows : 1; }
    __device__ __forceinline__ u32 rows_in(u32 chunk) const { return min(chunk_rows, rows - chunk * chunk_rows); }
    __device__ __forceinline__ u32 pieces_in(u32 chunk) const { return (rows_in(chunk) + piece_rows - 1) / piece_rows; }
    __device__ __forceinline__ u32 pieces_of_full_chunk() const { return (chunk_rows + piece_rows - 1) / piece_rows; }
    __device__ __forceinline__ u32 pieces() const {
        return rows ? (chunks() - 1) * pieces_of_full_chunk() + pieces_in(chunks() - 1) : 0;
    }
};

__device__ __forceinline__ u32 peer_of(const Role& role, u32 number, u32 world) {
    return (role.first_peer + number) % world;
}

__device__ __forceinline__ u32* slot_of(const Endpoint& consumer, u32 chunk, u32 producer, u32 world) {
    return consumer.slots + (static_cast<u64>(FIRST_ROW + chunk) * world + producer) * (SLOT_STRIDE / sizeof(u32));
}

// Where a stream's rows come from. Each consumer, and each of two launches in a row, gets other rows, so that rows
// that went astray or stayed from the launch before are wrong.
__device__ __forceinline__ const Vector* source_of(const Endpoint& producer, u32 consumer, u32 sequence,
                                                   const Plan& plan) {
    return producer.source + static_cast<u64>(2 * consumer + (sequence & 1)) * plan.row_vectors;
}

__device__ __forceinline__ void fence_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }

// ---------------------------------------------------------------------------------------------------------
// Copying. A copier belongs to one group: all of its threads call it, and after `finish` whatever the group's
// first thread publishes says that everything copied has arrived.

// Barrier 0 is __syncthreads, so groups begin with barrier 1.
__device__ __forceinline__ void sync_group(u32 group) {
    asm volatile("bar.sync %0, %1;" ::"r"(group + 1), "n"(GROUP_THREADS) : "memory");
}

#if !BULK

struct Copier {
    u32 group;
    u32 thread;

    __device__ __forceinline__ Copier(u32 group, u32 thread) : group(group), thread(thread) {}

    __device__ __forceinline__ void copy(Vector* to, const Vector* from, u64 count) const {
        constexpr u32 IN_FLIGHT = 4;
        u64 i = thread;
#pragma unroll 1
        for (; i + (IN_FLIGHT - 1) * GROUP_THREADS < count; i += IN_FLIGHT * GROUP_THREADS) {
            Vector held[IN_FLIGHT];
#pragma unroll
            for (u32 n = 0; n < IN_FLIGHT; ++n) held[n] = load_vector(from + i + n * GROUP_THREADS);
#pragma unroll
            for (u32 n = 0; n < IN_FLIGHT; ++n) store_vector(to + i + n * GROUP_THREADS, held[n]);
        }
#pragma unroll 1
        for (; i < count; i += GROUP_THREADS) store_vector(to + i, load_vector(from + i));
    }

    __device__ __forceinline__ void finish() const { sync_group(group); }
};

#else

constexpr u32 TILE_BYTES = 8192;
constexpr u32 STAGES = 4;  // tiles in shared memory a group
constexpr u32 AHEAD = 2;   // loads begun before the first of them is needed; the other stages are being stored

// The group's first thread drives the copy; no other thread touches the data. What bulk copies do is ordered by
// proxy fences: they are asynchronous to the thread's own loads and stores.
struct Copier {
    u32 group;
    bool drives;
    u32 tiles_done = 0;  // since the kernel began: which stage is next, and in which phase its barrier is
    u32 stages;          // addresses in shared memory
    u32 barriers;

    __device__ __forceinline__ Copier(u32 group, u32 thread) : group(group), drives(thread == 0) {
        extern __shared__ __align__(128) unsigned char tiles[];
        __shared__ __align__(8) u64 full[GROUPS * STAGES];
        stages = static_cast<u32>(__cvta_generic_to_shared(tiles)) + group * STAGES * TILE_BYTES;
        barriers = static_cast<u32>(__cvta_generic_to_shared(full)) + group * STAGES * sizeof(u64);
        if (!drives) return;
        for (u32 stage = 0; stage < STAGES; ++stage) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barriers + stage * 8) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }

    __device__ __forceinline__ static u32 bytes_of(u32 tile, u64 bytes) {
        const u64 left = bytes - static_cast<u64>(tile) * TILE_BYTES;
        return left < TILE_BYTES ? static_cast<u32>(left) : TILE_BYTES;
    }

    __device__ __forceinline__ void load(u32 number, const unsigned char* from, u32 bytes) const {
        const u32 stage = number % STAGES;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barriers + stage * 8), "r"(bytes)
                     : "memory");
        const u32 tile = stages + stage * TILE_BYTES;
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(tile),
            "l"(from), "r"(bytes), "r"(barriers + stage * 8)
            : "memory");
    }

    __device__ __forceinline__ void await_load(u32 number) const {
        const u32 barrier = barriers + number % STAGES * 8;
        const u32 parity = number / STAGES & 1;
        u32 done = 0;
        while (!done) {
            asm volatile(
                "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                "selp.u32 %0, 1, 0, p;\n\t}"
                : "=r"(done)
                : "r"(barrier), "r"(parity)
                : "memory");
        }
    }

    __device__ __forceinline__ void store(u32 number, unsigned char* to, u32 bytes) const {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(stages + number % STAGES * TILE_BYTES), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }

    __device__ __forceinline__ void copy(Vector* to_vectors, const Vector* from_vectors, u64 count) {
        if (!drives) return;
        auto* const to = reinterpret_cast<unsigned char*>(to_vectors);
        auto* const from = reinterpret_cast<const unsigned char*>(from_vectors);
        const u64 bytes = count * sizeof(Vector);
        const u32 tiles = static_cast<u32>((bytes + TILE_BYTES - 1) / TILE_BYTES);
        for (u32 step = 0; step < tiles + AHEAD; ++step) {
            if (step < tiles) {
                // The stage's last store must have read it; younger stores may go on.
                asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(STAGES - AHEAD - 1) : "memory");
                load(tiles_done + step, from + static_cast<u64>(step) * TILE_BYTES, bytes_of(step, bytes));
            }
            if (step >= AHEAD) {
                const u32 tile = step - AHEAD;
                await_load(tiles_done + tile);
                store(tiles_done + tile, to + static_cast<u64>(tile) * TILE_BYTES, bytes_of(tile, bytes));
            }
        }
        tiles_done += tiles;
    }

    __device__ __forceinline__ void finish() const {
        if (!drives) return;
        asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");  // not .read: the data must have been written
        asm volatile("fence.proxy.async;" ::: "memory");
    }
};

#endif

// ---------------------------------------------------------------------------------------------------------
// Producing.

// The group's first thread has finished one piece of a chunk; the last piece publishes it. `finished` counts pieces
// of this chunk, on this GPU only; it returns to 0 by itself.
__device__ __forceinline__ void finish_piece(u32* slot, u32* finished, u32 pieces, u32 sequence) {
    if (pieces == 1 || atomic_inc_acq_rel_gpu(finished, pieces - 1) == pieces - 1) signal_slot(slot, sequence);
}

// elections: [rank][consumer][chunk], all 0 between launches.
__device__ __forceinline__ void produce(const Role& role, const Endpoint* ranks, u32 world, const Plan& plan,
                                        u32 sequence, const Deadline& deadline, u32* elections, u32 injection,
                                        u32 injected) {
    const u32 group = threadIdx.x / GROUP_THREADS;
    const u32 thread = threadIdx.x % GROUP_THREADS;
    Copier copier(group, thread);
#if SIGNALS
    if (plan.rows == 0 && role.block == 0 && threadIdx.x < role.peers) {
        signal_slot(slot_of(ranks[peer_of(role, threadIdx.x, world)], 0, role.rank, world), sequence);
    }
#endif
    const u32 chunks = plan.chunks();
    const u32 full = plan.pieces_of_full_chunk();
    const u32 work = plan.pieces() * role.peers;
    for (u32 w = group * role.blocks + role.block; w < work; w += role.blocks * GROUPS) {
        const u32 piece = w / role.peers;
        const u32 peer = peer_of(role, w % role.peers, world);
        const u32 chunk = piece / full;
        const u32 in_chunk = piece % full * plan.piece_rows;
        const u32 first = chunk * plan.chunk_rows + in_chunk;
        const u32 rows = min(plan.piece_rows, plan.rows_in(chunk) - in_chunk);
        const Endpoint& consumer = ranks[peer];
        Vector* const to = consumer.data + (static_cast<u64>(role.rank) * plan.rows + first) * plan.row_vectors;
        const Vector* const from =
            source_of(ranks[role.rank], peer, sequence, plan) + static_cast<u64>(first) * plan.row_vectors;
        u32* const slot = slot_of(consumer, chunk, role.rank, world);
        u32* const finished = elections + static_cast<u64>(role.rank * world + peer) * chunks + chunk;
        const bool early = INJECT && injection == EARLY;
        if (early && thread == 0) {
            finish_piece(slot, finished, plan.pieces_in(chunk), sequence);
            stall(EARLY_BY_NS, deadline);
        }
        if (early) sync_group(group);

        copier.copy(to, from, static_cast<u64>(rows) * plan.row_vectors);
#if SIGNALS
        copier.finish();
        if (INJECT && injection == SWAP && thread == 0 && injected - first < rows) {
            const u64 at = static_cast<u64>(injected - first) * plan.row_vectors;
            const Vector right = load_vector(from + at);
            store_vector(to + at, make_uint4(right.y, right.x, right.z, right.w));
        }
        const bool drop = INJECT && injection == DROP && chunk == injected;
        if (thread == 0 && !early && !drop) finish_piece(slot, finished, plan.pieces_in(chunk), sequence);
#endif
    }
#if !SIGNALS
    copier.finish();
#endif
}

// ---------------------------------------------------------------------------------------------------------
// Consuming.

constexpr u32 POLL_PAUSE_NS = 200;

// As wait_slot, but says how often it looked; 0 if it gave up.
__device__ __forceinline__ u32 polls_until(const u32* slot, u32 wanted, const Deadline& deadline, u32 rank, u32 row,
                                           u32 col) {
    constexpr u32 LOOKS = 32;
    for (u32 polls = 1;; ++polls) {
        if (reached(load_acquire_sys(slot), wanted)) return polls;
        const u32 reason = polls % LOOKS ? 0 : out_of_time(deadline, polls);
        if (reason) {
            const u32 got = load_acquire_sys(slot);  // one last look after the deadline
            if (reached(got, wanted)) return polls;
            record_wait(deadline, reason, rank, row, col, wanted, got, wanted);
            return 0;
        }
        __nanosleep(POLL_PAUSE_NS);
    }
}

// Each word counts as often as its number in the row, from 1, says. A sum of words would miss two that changed places.
__device__ __forceinline__ u64 weighed(const Vector& v, u32 number) {
    const u32 weight = 4 * number + 1;
    return static_cast<u64>(v.x) * weight + static_cast<u64>(v.y) * (weight + 1) + static_cast<u64>(v.z) * (weight + 2)
           + static_cast<u64>(v.w) * (weight + 3);
}

// Each warp claims a part of a chunk, waits for the chunk, reads every byte of its part, and claims the next. As many
// chunks are waited for at once as there are warps, and each is released when it arrives, whatever came before.
// claims: [rank], all 0 between launches; polls and released: one a warp of the grid.
__device__ __forceinline__ void consume(const Role& role, const Endpoint* ranks, u32 world, const Plan& plan,
                                        u32 sequence, const Deadline& deadline, u32 split, u32* claims, u32* polls,
                                        u64* released) {
    const u32 lane = threadIdx.x % 32;
    const u32 warp_of_grid = blockIdx.x * WARPS + threadIdx.x / 32;
    const Endpoint& own = ranks[role.rank];
    const u32 parts = plan.chunks() * role.peers * split;
    const u32 last_claim = parts + role.blocks * WARPS - 1;  // every warp learns once that nothing is left
    u32 polled = 0;
    u64 first_release = 0;
    for (;;) {
        u32 claim = 0;
        if (lane == 0) claim = atomicInc(claims + role.rank, last_claim);
        claim = __shfl_sync(0xffffffffu, claim, 0);
        if (claim >= parts) break;
        const u32 part = claim % split;
        const u32 producer = peer_of(role, claim / split % role.peers, world);
        const u32 chunk = claim / split / role.peers;

        u32 looked = 0;
        if (lane == 0) {
            const u32* const slot = slot_of(own, chunk, producer, world);
            looked = polls_until(slot, sequence, deadline, role.rank, FIRST_ROW + chunk, producer);
            if (polled == 0) first_release = timer_ns();
            polled += looked;
        }
        if (!__shfl_sync(0xffffffffu, looked, 0)) break;
        __syncwarp();  // what lane 0 acquired, all lanes see

        const u32 rows = plan.rows_in(chunk);
        const u32 begin = chunk * plan.chunk_rows + static_cast<u32>(static_cast<u64>(rows) * part / split);
        const u32 end = chunk * plan.chunk_rows + static_cast<u32>(static_cast<u64>(rows) * (part + 1) / split);
        for (u32 r = begin; r < end; ++r) {
            const u64 row = static_cast<u64>(producer) * plan.rows + r;
            const Vector* const data = own.data + row * plan.row_vectors;
            u64 sum = 0;
#pragma unroll 4
            for (u32 i = lane; i < plan.row_vectors; i += 32) sum += weighed(load_vector(data + i), i);
            own.sums[row * 32 + lane] = sum;
        }
    }
    if (lane == 0) {
        polls[warp_of_grid] = polled;
        released[warp_of_grid] = first_release;
    }
}

// One push of all streams. roles: one a block. sequence: above that of any launch before. stamps: [block][2],
// globaltimer at its start and at its end, which for a producer is when all that it stored has arrived. split: how many
// warps share a chunk. The others are explained above.
extern "C" __global__ void __launch_bounds__(THREADS)
    watermark(Watch* watch, const Role* roles, const Endpoint* ranks, u32 world, u32 rows, u32 row_vectors,
              u32 chunk_rows, u32 piece_rows, u32 sequence, u64* stamps, u32* elections, u32 split, u32* claims,
              u32* polls, u64* released, u32 injection, u32 injected) {
    const u64 began = timer_ns();
    const Deadline deadline = deadline_from(watch);
    const Role role = roles[blockIdx.x];
    const Plan plan{rows, row_vectors, chunk_rows, piece_rows};
    if (role.produces) {
        produce(role, ranks, world, plan, sequence, deadline, elections, injection, injected);
    } else {
#if SIGNALS
        consume(role, ranks, world, plan, sequence, deadline, split, claims, polls, released);
#endif
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        if (role.produces) fence_sys();
        stamps[2 * blockIdx.x] = began;
        stamps[2 * blockIdx.x + 1] = timer_ns();
    }
}
