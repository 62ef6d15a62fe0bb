// What the kernels of `verify` share: what is sent, where it lies, how it is published and waited for, who is late.
//
// Everything sent depends on (iteration, source, row, column), so that whatever arrives late, twice, or elsewhere is
// wrong. What was read is overwritten with POISON, so that nothing right can lie there from before.
#pragma once
#include "injection.cuh"
#include "slots.cuh"
#include "vectors.cuh"
#include "verify_switches.cuh"

constexpr u32 POISON = 0xdeadbeef;
constexpr u32 NOTHING = 0xffffffff;

// Rows of a rank's slots; a column is a writer. Row 0 is the local counters', in records.
[[maybe_unused]] constexpr u32 LOCAL_ROW = 0;
[[maybe_unused]] constexpr u32 ACK_ROW = 1;         // the column has read what this rank sent it
[[maybe_unused]] constexpr u32 RETURN_ACK_ROW = 2;  // the same for what was returned to it
[[maybe_unused]] constexpr u32 RETURN_ROW = 3;      // all that the column returns to this rank has arrived
[[maybe_unused]] constexpr u32 FIRST_ROW = 4;       // + chunk: of what the column sends

constexpr u32 VECTOR_WORDS = 4;

// Where the others find a rank; [world], the same table on every device.
struct Endpoint {
    u32* slots;
    Vector* landing;  // what others send it
    Vector* returns;  // what others return to it
};

// One rank is late in every iteration, at one point.
[[maybe_unused]] constexpr u32 WRITING = 1;  // before it writes what it sends last
[[maybe_unused]] constexpr u32 READING = 2;  // after a wait, before it reads
struct Late {
    u32 rank;
    u32 point;
    u64 ns;
};

struct Trial {
    u32 first_rank;  // of this grid
    u32 world;
    u32 iterations;
    u32 start;  // the first sequence number
    Late late;
    u32 corrupt_rank;  // stores one wrong bit in ...
    u32 corrupt_row;   // ... this of its rows, in its first iteration
};

// Every kernel's last parameters. Not one struct: from that the compiler reads them elsewhere and orders what it
// computes of them in another way, so that emulated times would not be comparable with earlier ones.
#define TRIAL_PARAMETERS                                                                              \
    u32 first_rank, u32 world, u32 iterations, u32 start, u32 late_rank, u32 late_point, u64 late_ns, \
        u32 corrupt_rank, u32 corrupt_row
#define TRIAL \
    Trial { first_rank, world, iterations, start, Late{late_rank, late_point, late_ns}, corrupt_rank, corrupt_row }

__device__ __forceinline__ void be_late(const Trial& trial, u32 rank, u32 point, const Deadline& deadline) {
    if (trial.late.rank == rank && trial.late.point == point) stall(trial.late.ns, deadline);
}

// ---------------------------------------------------------------------------------------------------------
// What is sent. The host's mirror is pcietool/protocol/rows.py.

__device__ __forceinline__ u32 row_key(u32 iteration, u32 source, u32 row) {
    u32 key = iteration * 0x9e3779b1u ^ source * 0x85ebca6bu ^ row * 0xc2b2ae35u;
    key = (key ^ key >> 15) * 0x2c1b3c6du;
    return key ^ key >> 12;
}
__device__ __forceinline__ u32 payload(u32 key, u32 column) { return (key ^ column) * 0x297a2d39u; }
__device__ __forceinline__ Vector payload_vector(u32 key, u32 vector) {
    const u32 column = vector * VECTOR_WORDS;
    return make_uint4(payload(key, column), payload(key, column + 1), payload(key, column + 2),
                      payload(key, column + 3));
}
// As payload_vector, with one bit changed where the trial asks for it.
__device__ __forceinline__ Vector sent_vector(const Trial& trial, u32 rank, u32 number, u32 iteration, u32 key,
                                              u32 vector) {
    Vector v = payload_vector(key, vector);
    if (rank == trial.corrupt_rank && number == trial.corrupt_row && iteration == 0 && vector == 0) v.y ^= 0x100;
    return v;
}

__device__ __forceinline__ Vector poison_vector() { return make_uint4(POISON, POISON, POISON, POISON); }

// ---------------------------------------------------------------------------------------------------------
// Publishing and waiting.

__device__ __forceinline__ u32* slot_at(u32* slots, u32 row, u32 col, u32 world) {
    return slots + (static_cast<u64>(row) * world + col) * (SLOT_STRIDE / sizeof(u32));
}

__device__ __forceinline__ void fence_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void store_weak(u32* word, u32 value) {
    asm volatile("st.weak.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

__device__ __forceinline__ void publish(u32* slot, u32 sequence) {
#if SIGNAL == SIGNAL_FENCE_SYS_RELEASE_SYS || SIGNAL == SIGNAL_FENCE_SYS_RELAXED_SYS || SIGNAL == SIGNAL_FENCE_SYS_WEAK
    fence_sys();
#elif SIGNAL == SIGNAL_FENCE_GPU_RELAXED_SYS
    fence_gpu();
#endif
#if SIGNAL == SIGNAL_RELEASE_GPU
    store_release_gpu(slot, sequence);
#elif SIGNAL == SIGNAL_WEAK || SIGNAL == SIGNAL_FENCE_SYS_WEAK
    store_weak(slot, sequence);
#elif SIGNAL == SIGNAL_RELAXED_SYS || SIGNAL == SIGNAL_FENCE_SYS_RELAXED_SYS || SIGNAL == SIGNAL_FENCE_GPU_RELAXED_SYS
    store_relaxed_sys(slot, sequence);
#else
    signal_slot(slot, sequence);
#endif
}

#if WAIT == WAIT_ACQUIRE_SYS
using Wait = AcquireSys;
#elif WAIT == WAIT_RELAXED_SYS
using Wait = RelaxedSys;
#elif WAIT == WAIT_ACQUIRE_GPU
using Wait = AcquireGpu;
#else
struct Wait {
    static __device__ __forceinline__ u32 poll(const u32* word) { return load_relaxed_sys(word); }
    static __device__ __forceinline__ void arrive(const u32*) { fence_gpu(); }
};
#endif

__device__ __forceinline__ bool has_arrived(u32 got, u32 wanted) {
#if COMPARE == COMPARE_PLAIN
    return static_cast<s32>(got) >= static_cast<s32>(wanted);
#elif COMPARE == COMPARE_UNSIGNED
    return got >= wanted;
#else
    return reached(got, wanted);
#endif
}

constexpr u32 POLL_PAUSE_NS = 64;  // the source article's

// Waits until this rank's slot (row, col) has reached `wanted`; false if the wait gave up.
__device__ __forceinline__ bool await(const Endpoint& own, u32 row, u32 col, u32 wanted, const Deadline& deadline,
                                      u32 rank, u32 world) {
    return wait_slot<Wait, POLL_PAUSE_NS, has_arrived>(slot_at(own.slots, row, col, world), wanted, deadline, rank, row,
                                                       col, wanted);
}

// May what was sent to `col` before `sequence` be overwritten?
__device__ __forceinline__ bool await_ack(const Endpoint& own, u32 row, u32 col, u32 sequence, const Deadline& deadline,
                                          u32 rank, u32 world) {
#if NO_ACK_WAIT
    return true;
#else
    return await(own, row, col, sequence - 1, deadline, rank, world);
#endif
}

// ---------------------------------------------------------------------------------------------------------
// Election. Whoever completes a count has, with it, acquired what all others of the count had written.

__device__ __forceinline__ u32 count_arrival(u32* counter, u32 bound) {
    u32 before;
#if ELECTION == ELECTION_ACQ_REL
    before = atomic_inc_acq_rel_gpu(counter, bound);
#elif ELECTION == ELECTION_RELEASE
    asm volatile("atom.release.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(bound) : "memory");
#elif ELECTION == ELECTION_ACQUIRE
    asm volatile("atom.acquire.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(bound) : "memory");
#else
#if ELECTION == ELECTION_FENCE_GPU_RELAXED
    fence_gpu();
#endif
    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;" : "=r"(before) : "l"(counter), "r"(bound) : "memory");
#endif
    return before;
}

// Counts one arrival of `expected` on this GPU; whoever is last publishes. The counter returns to 0 by itself.
__device__ __forceinline__ void arrive_and_publish(u32* counter, u32 expected, u32* slot, u32 sequence) {
    const u32 bound = expected - 1 + EXPECTED_EXTRA;
    if (count_arrival(counter, bound) == bound) publish(slot, sequence);
}

// A count that only the host reads.
__device__ __forceinline__ void tally(u32* word, u32 rows) { atomicAdd(word, rows); }
