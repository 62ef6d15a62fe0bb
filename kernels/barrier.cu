// The all-GPU barrier, round after round inside one kernel. Every order of memory operations that is compared is
// this same kernel, compiled with another ORDER.
//
// Rank r owns slots (row 1, col s), one for each other rank s; only rank s stores to them. A round: every block of
// the rank arrives on a local counter, the last one is elected, its thread t tells rank t that rank r has arrived
// and waits in the local slot for rank t, and the rank's other blocks are let go through a local word.
//
// One grid can carry one rank (peer and host transport) or several (self transport): rank = first_rank +
// blockIdx.x / BLOCKS.
#include "injection.cuh"
#include "overlap.cuh"
#include "slots.cuh"

// What a round orders.
#define PUBLISH 0  // st.release.sys | ld.acquire.sys: what any thread wrote before is visible to all after
#define RELAXED 1  // st.relaxed.sys | ld.relaxed.sys: everybody has arrived, and nothing more
#define ARTICLE 2  // as the source article has it: own slot included, release store, plain volatile polls
#define FLOOR 3    // RELAXED without block-wide synchronisation: the least a round can cost
#ifndef ORDER
#define ORDER PUBLISH
#endif
// Negative control: the same round without waiting. Whatever proves that a barrier blocks must fail on it.
#ifndef NO_WAIT
#define NO_WAIT 0
#endif

// Threads a block. In a block of one warp a vote tells all threads at once that a wait gave up.
#ifndef THREADS
#define THREADS 32
#endif
// 1 compiles in what the injection parameters ask for; without it they are ignored, and cost nothing.
#ifndef INJECT
#define INJECT 0
#endif
// Nanoseconds to sleep between polls.
#ifndef NANOSLEEP
#define NANOSLEEP 0
#endif

// Blocks of each rank. More than one meet on a local counter; the last to arrive is elected and signals.
#ifndef BLOCKS
#define BLOCKS 1
#endif

constexpr u32 ROW = 1;                           // of the slots that other ranks write
[[maybe_unused]] constexpr u32 RELEASE_ROW = 0;  // what records call the local word that lets a rank's other blocks go

struct VolatilePoll {  // ld.volatile: a relaxed.sys load that the article calls local_load
    static __device__ __forceinline__ u32 poll(const u32* word) { return *static_cast<const volatile u32*>(word); }
    static __device__ __forceinline__ void arrive(const u32*) {}
};

__device__ __forceinline__ void sync_block() {
#if ORDER != FLOOR  // there the vote at the end of a round holds the warp together
    __syncthreads();
#endif
}

// What thread t of a rank's elected block does for rank t: store to `theirs`, wait at `mine`.
struct Exchange {
    u32* theirs;
    [[maybe_unused]] const u32* mine;
    bool takes_part;
};

__device__ __forceinline__ Exchange exchange_of_thread(u32* const* slots, u32 rank, u32 world) {
    const u32 peer = threadIdx.x;
    Exchange exchange{nullptr, nullptr, peer < world};
#if ORDER != ARTICLE
    exchange.takes_part &= peer != rank;
#endif
    if (exchange.takes_part) {
        exchange.theirs = slots[peer] + (ROW * world + rank) * (SLOT_STRIDE / sizeof(u32));
        exchange.mine = slots[rank] + (ROW * world + peer) * (SLOT_STRIDE / sizeof(u32));
    }
    return exchange;
}

// The exchange of one round. False if the wait gave up.
__device__ __forceinline__ bool signal_and_wait(const Exchange& exchange, u32 sequence, bool drop,
                                                const Deadline& deadline, u32 rank, u32 round) {
    if (!exchange.takes_part) return true;
    if (!drop) {
#if ORDER == RELAXED || ORDER == FLOOR
        store_relaxed_sys(exchange.theirs, sequence);
#else
        signal_slot(exchange.theirs, sequence);
#endif
    }
#if NO_WAIT
    return true;
#elif ORDER == PUBLISH
    using Wait = AcquireSys;
#elif ORDER == ARTICLE
    using Wait = VolatilePoll;
#else
    using Wait = RelaxedSys;
#endif
#if !NO_WAIT
    return wait_slot<Wait, NANOSLEEP>(exchange.mine, sequence, deadline, rank, ROW, threadIdx.x, round);
#endif
}

// One rank passes one round of the barrier. False if a wait of this thread gave up. local[0] counts the blocks that
// have arrived, local[1] is the round they may leave.
__device__ __forceinline__ bool pass(const Exchange& exchange, u32 sequence, bool drop, u32* local,
                                     const Deadline& deadline, u32 rank, u32 round) {
#if BLOCKS == 1
    return signal_and_wait(exchange, sequence, drop, deadline, rank, round);
#else
    __shared__ bool elected;
    u32* const arrivals = local;
    u32* const released = local + 1;
    if (threadIdx.x == 0) elected = atomic_inc_acq_rel_gpu(arrivals, BLOCKS - 1) == BLOCKS - 1;
    __syncthreads();
    if (!elected) {
        if (threadIdx.x != 0) return true;
        return wait_slot<AcquireGpu, NANOSLEEP>(released, sequence, deadline, rank, RELEASE_ROW, rank, round);
    }
    const bool arrived = signal_and_wait(exchange, sequence, drop, deadline, rank, round);
    __syncthreads();
    if (threadIdx.x == 0) store_release_gpu(released, sequence);
    return arrived;
#endif
}

// The ranks of one grid, by value; mirrored, as Injection is, in pcietool/probes/barrier/kernel.py.
struct Ranks {
    u32* const* slots;  // slots[s]: the slot array of rank s, rows 0..1 of `world` slots
    u32* base;          // [rank]: the sequence number so far, kept between launches
    u32* local;         // [rank][2]: arrivals of this rank's blocks, and the round they may leave; zeroed with base
    u32 first_rank;
    u32 world;
};
static_assert(sizeof(Ranks) == 32);

// What is done to one rank in one round, to prove that the barrier blocks and to show what a failure looks like.
struct Injection {
    u64 delay_ns;
    u32 kind;
    u32 rank;
    u32 round;
};
static_assert(sizeof(Injection) == 24);
constexpr u32 NONE = 0;
constexpr u32 DIE = 1;    // the rank never takes part
constexpr u32 DROP = 2;   // the rank skips its signals in that round
constexpr u32 DELAY = 3;  // the rank starts that round late, by delay_ns

// Many rounds in one kernel. stamps[rank * (rounds + 1)]: SM clock at the start and after each round.
// spans[rank * 2]: globaltimer at the start and at the end; with INJECT of every block, [rank * BLOCKS + block][2].
extern "C" __global__ void barrier_rounds(Watch* watch, const Ranks ranks, u32 rounds, u32* stamps, u64* spans,
                                          const Injection injection) {
    extern __shared__ u32 buffered_stamps[];  // written out at the end: a store in flight would slow the next fence
    [[maybe_unused]] __shared__ u32 gave_up;
    const Deadline deadline = deadline_from(watch);
    const u32 rank = ranks.first_rank + blockIdx.x / BLOCKS;
    const u32 start = ranks.base[rank];
    u32* const local = ranks.local + rank * 2;
    const Exchange exchange = exchange_of_thread(ranks.slots, rank, ranks.world);
    const bool keeps_time = threadIdx.x == 0 && blockIdx.x % BLOCKS == 0;
    const u32 special = INJECT && rank == injection.rank ? injection.kind : NONE;
    if (special == DIE) return;
    if (threadIdx.x == 0) gave_up = 0;
    __syncthreads();
    const u64 began = timer_ns();
    if (keeps_time) buffered_stamps[0] = cycles();

    u32 round = 1;
    for (; round <= rounds; ++round) {
#if THREADS > 32
        // A wait that gave up ends the block one round later: read here, the flag arrives while the threads gather,
        // and all of them read the same.
        const u32 failed = *static_cast<volatile u32*>(&gave_up);
#endif
        const bool now = special && round == injection.round;
        if (now && special == DELAY && threadIdx.x == 0) stall(injection.delay_ns, deadline);
        const bool drop = now && special == DROP;
        sync_block();
#if THREADS > 32
        if (failed) break;
        if (!pass(exchange, start + round, drop, local, deadline, rank, round)) gave_up = 1;
        sync_block();
#else
        const bool arrived = pass(exchange, start + round, drop, local, deadline, rank, round);
        // The vote is also what a block-wide barrier would be here: nobody goes on before the waits have ended.
        if (!__all_sync(0xffffffffu, arrived)) break;
#endif
        if (keeps_time) buffered_stamps[round] = cycles();
    }

#if INJECT
    if (threadIdx.x == 0) {  // of every block, since every block must have waited
        u64* const span = spans + (rank * BLOCKS + blockIdx.x % BLOCKS) * 2;
        span[0] = began;
        span[1] = timer_ns();
    }
    if (keeps_time) ranks.base[rank] = start + rounds;
#else
    if (keeps_time) {
        spans[rank * 2] = began;
        spans[rank * 2 + 1] = timer_ns();
        ranks.base[rank] = start + rounds;
    }
#endif
    __syncthreads();
    if (blockIdx.x % BLOCKS == 0) {
        for (u32 i = threadIdx.x; i < round; i += blockDim.x) stamps[rank * (rounds + 1) + i] = buffered_stamps[i];
    }
}

// One round and nothing else: a barrier as a launch of its own.
extern "C" __global__ void barrier_once(Watch* watch, const Ranks ranks) {
    let_next_launch_start();
    const u32 rank = ranks.first_rank + blockIdx.x / BLOCKS;
    const Exchange exchange = exchange_of_thread(ranks.slots, rank, ranks.world);
    wait_for_previous_launch();
    const Deadline deadline = deadline_from(watch);
    const u32 sequence = ranks.base[rank] + 1;
    sync_block();  // whoever stores base has read it
    pass(exchange, sequence, false, ranks.local + rank * 2, deadline, rank, 1);
    if (threadIdx.x == 0 && blockIdx.x % BLOCKS == 0) ranks.base[rank] = sequence;
}
