// One-shot all-reduce whose flag travels with the data: no fence, no barrier, one crossing of the link.
//
// Each element is pushed to every other rank as ONE scalar 8-byte store {value, sequence}. An aligned 8-byte store is
// never seen in halves, so who sees the sequence has the value; a vector of two such words may well be torn over PCIe.
// The owner polls its own inbox and adds in rank order, so that all ranks get the same bits.
//
// Rank r's inbox: [bank = sequence & 1][sender][element] words, each with one writer. Two banks suffice: an element is
// always carried by the same thread of every rank, and that thread starts sequence s + 1 only when it has everybody's
// word of s. So when a word of s + 1 from rank p arrives, p's thread is done with s, and s + 2 may overwrite s in p's
// inbox. The store that overwrites depends on the loads before it by control, and no GPU stores speculatively.
// Flags are compared for equality: a word that was overwritten too early never matches, and ends as a reported hang.
//
// One grid can carry one rank or several: rank = first_rank + blockIdx.x / BLOCKS.
#include "overlap.cuh"
#include "slots.cuh"

#define SUM_F32 0
#define SUM_U32 1
#ifndef DTYPE
#define DTYPE SUM_F32
#endif

// Negative controls. Whatever proves that sums are right must fail on them.
#define SOUND 0
#define TORN 1     // rank 0 stores flag and value apart, the flag first, as a torn 8-byte store would arrive
#define CORRUPT 2  // rank 0 sends a wrong value of its last element, in its first round
#ifndef CONTROL
#define CONTROL SOUND
#endif

// Ranks. Known to the compiler, so that the words of all of them are under way together.
#ifndef WORLD
#define WORLD 2
#endif

// Blocks of each rank. They never meet: an element's thread waits only for its own words.
#ifndef BLOCKS
#define BLOCKS 1
#endif

__device__ __forceinline__ void store_relaxed_sys(u64* word, u64 value) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ __forceinline__ u64 load_relaxed_sys(const u64* word) {
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
    return value;
}

constexpr u32 FIRST_ROW = 1;  // what records call bank 0; a record's column is the sender

#if DTYPE == SUM_F32
__device__ __forceinline__ u32 add(u32 a, u32 b) { return __float_as_uint(__uint_as_float(a) + __uint_as_float(b)); }
// A small whole number as a float: 2^23 + n has n in its low bits. Sums of such numbers are exact.
__device__ __forceinline__ u32 whole(u32 n) { return __float_as_uint(__uint_as_float(0x4b000000u | n) - 8388608.0f); }
#else
__device__ __forceinline__ u32 add(u32 a, u32 b) { return a + b; }
__device__ __forceinline__ u32 whole(u32 n) { return n; }
#endif

// What a rank contributes: 16 bits that depend on sequence and element, and its rank times RANK_STEP; so the sum is
// known without looking at every rank. Mirrored in pcietool/protocol/payload.py.
constexpr u32 RANK_STEP = 257;
__device__ __forceinline__ u32 common_part(u32 sequence, u32 element) {
    const u32 mixed = sequence * 0x9e3779b1u ^ element * 0xc2b2ae3du;
    return (mixed ^ mixed >> 15) * 0x2c1b3c6du >> 16;
}
__device__ __forceinline__ u32 payload(u32 sequence, u32 rank, u32 element) {
    return whole(common_part(sequence, element) + rank * RANK_STEP);
}
__device__ __forceinline__ u32 payload_sum(u32 sequence, u32 element) {
    return whole(common_part(sequence, element) * WORLD + WORLD * (WORLD - 1) / 2 * RANK_STEP);
}

// The inboxes of one sequence, and who waits.
struct Round {
    u64* const* inboxes;  // this rank's own, and then the others in turn: each rank starts with another peer
    u64* own;             // inboxes[0]
    u32 elements;
    u32 rank;
    u32 sequence;
    u32 number;  // of the launch, for records

    // Where `sender` puts an element, in any inbox.
    __device__ __forceinline__ u64 place(u32 sender, u32 element) const {
        return static_cast<u64>((sequence & 1) * WORLD + sender) * elements + element;
    }
    // The word that this rank polls for an element of `sender`.
    __device__ __forceinline__ const u64* word(u32 sender, u32 element) const { return own + place(sender, element); }
    // A value with its flag.
    __device__ __forceinline__ u64 tagged(u32 value) const { return static_cast<u64>(sequence) << 32 | value; }
};

__device__ __forceinline__ void push(const Round& round, u32 element, u32 value) {
    const u64 word = round.tagged(value);
    const u64 own_place = round.place(round.rank, element);
#pragma unroll
    for (u32 step = 1; step < WORLD; ++step) {
        u64* const place = round.inboxes[step] + own_place;
#if CONTROL == TORN
        if (round.rank == 0) {
            store_relaxed_sys(reinterpret_cast<u32*>(place) + 1, round.sequence);
            __nanosleep(5000);
            store_relaxed_sys(reinterpret_cast<u32*>(place), value);
            continue;
        }
#endif
        store_relaxed_sys(place, word);
    }
}

__device__ __forceinline__ u32 flag_of(u64 word) { return static_cast<u32>(word >> 32); }

// One look at the words from `first` on, whose loads are under way together.
__device__ __forceinline__ void look_at(const Round& round, u32 element, u32 first, u64 (&words)[WORLD]) {
#pragma unroll
    for (u32 sender = 0; sender < WORLD; ++sender) {
        if (sender >= first && sender != round.rank) words[sender] = load_relaxed_sys(round.word(sender, element));
    }
}

// Polls one word until it carries this sequence. False if the wait gave up.
__device__ __forceinline__ bool wait_word(const Round& round, u32 sender, u32 element, const Deadline& deadline,
                                          u64& word) {
    constexpr u32 LOOKS = 32;
    const u64* const place = round.word(sender, element);
    for (u32 polls = LOOKS;; polls += LOOKS) {
        u32 look = 0;
#pragma unroll 1
        do {
            word = load_relaxed_sys(place);
        } while (flag_of(word) != round.sequence && ++look < LOOKS);
        if (flag_of(word) == round.sequence) return true;
        const u32 reason = out_of_time(deadline, polls);
        if (reason) {
            word = load_relaxed_sys(place);  // one last look after the deadline
            if (flag_of(word) == round.sequence) return true;
            record_wait(deadline, reason, round.rank, FIRST_ROW + (round.sequence & 1), sender, round.sequence,
                        flag_of(word), round.number);
            return false;
        }
    }
}

// The sum of one element over all ranks, in rank order. False if a wait gave up.
__device__ __forceinline__ bool sum(const Round& round, u32 element, u32 own, const Deadline& deadline, u32& total) {
    u64 words[WORLD];
#pragma unroll
    for (u32 sender = 0; sender < WORLD; ++sender) words[sender] = round.tagged(own);
    look_at(round, element, 0, words);
#pragma unroll
    for (u32 sender = 0; sender < WORLD; ++sender) {
        if (flag_of(words[sender]) != round.sequence) {
            if (!wait_word(round, sender, element, deadline, words[sender])) return false;
            look_at(round, element, sender + 1, words);  // the others mostly came meanwhile
        }
        const u32 value = static_cast<u32>(words[sender]);
        total = sender ? add(total, value) : value;
    }
    return true;
}

struct Fault {  // 32 bytes, one a rank: sums that were wrong, and the first of them
    u32 count;
    u32 sequence;
    u32 element;
    u32 got;
    u32 expected;
    u32 reserved[3];
};

__device__ __forceinline__ void check(const Round& round, u32 element, u32 got, Fault* fault) {
    const u32 expected = payload_sum(round.sequence, element);
    if (got != expected && atomicAdd(&fault->count, 1u) == 0) {
        fault->sequence = round.sequence;
        fault->element = element;
        fault->got = got;
        fault->expected = expected;
    }
}

struct Work {  // which elements this thread carries: first, first + stride, ...
    u32 first;
    u32 stride;
};
__device__ __forceinline__ Work work_of_thread() {
    return Work{blockIdx.x % BLOCKS * blockDim.x + threadIdx.x, BLOCKS * blockDim.x};
}

// The ranks of one grid, by value; mirrored in pcietool/probes/compare/allreduce_kernel.py.
struct Ranks {
    u64* const* inboxes;  // [(rank - first_rank) * WORLD + step]: of rank (rank + step) % WORLD
    u32* base;            // [rank * BLOCKS + block]: the sequence so far, kept between launches
    u32 first_rank;
    u32 elements;
};
static_assert(sizeof(Ranks) == 24);

// Many rounds in one kernel, each with a new payload, and every sum checked where it arrives.
// spans[rank * BLOCKS + block]: nanoseconds of all rounds. faults[rank].
extern "C" __global__ void allreduce_rounds(Watch* watch, const Ranks ranks, u32 rounds, u64* spans, Fault* faults) {
    const Deadline deadline = deadline_from(watch);
    const u32 rank = ranks.first_rank + blockIdx.x / BLOCKS;
    const u32 own_block = ranks.first_rank * BLOCKS + blockIdx.x;
    const u32 elements = ranks.elements;
    const u32 start = ranks.base[own_block];
    const Work work = work_of_thread();
    __shared__ u64* table[WORLD];  // every round looks into it
    u64* const* const inboxes = ranks.inboxes + (rank - ranks.first_rank) * WORLD;
    for (u32 step = threadIdx.x; step < WORLD; step += blockDim.x) table[step] = inboxes[step];
    __syncthreads();
    const u64 began = timer_ns();

    bool arrived = true;
    for (u32 number = 1; number <= rounds && arrived; ++number) {
        const Round round{table, table[0], elements, rank, start + number, number};
        for (u32 element = work.first; element < elements; element += work.stride) {
            u32 value = payload(round.sequence, rank, element);
#if CONTROL == CORRUPT
            if (rank == 0 && number == 1 && element == elements - 1) value = add(value, whole(1));
#endif
            push(round, element, value);
        }
        for (u32 element = work.first; arrived && element < elements; element += work.stride) {
            u32 total = 0;
            arrived = sum(round, element, payload(round.sequence, rank, element), deadline, total);
            if (arrived) check(round, element, total, faults + rank);
        }
    }

    __syncthreads();
    if (threadIdx.x == 0) {
        spans[own_block] = timer_ns() - began;
        ranks.base[own_block] = start + rounds;
    }
}

// One all-reduce as a launch of its own, which may overlap the end of the one before it, from inputs[rank - first_rank]
// to outputs[rank - first_rank], which are a stride of elements apart.
extern "C" __global__ void allreduce_once(Watch* watch, const Ranks ranks, const u32* inputs, u32 input_stride,
                                          u32* outputs, u32 output_stride) {
    let_next_launch_start();
    const u32 place = blockIdx.x / BLOCKS;  // of the rank in this grid
    const u32 rank = ranks.first_rank + place;
    const u32 own_block = ranks.first_rank * BLOCKS + blockIdx.x;
    const u32 elements = ranks.elements;
    u64* table[WORLD];  // in registers: no launch changes it, so it may be read early
#pragma unroll
    for (u32 step = 0; step < WORLD; ++step) table[step] = ranks.inboxes[place * WORLD + step];
    wait_for_previous_launch();
    const Deadline deadline = deadline_from(watch);
    const Round round{table, table[0], elements, rank, ranks.base[own_block] + 1, 1};
    const u32* const input = inputs + static_cast<u64>(place) * input_stride;
    u32* const output = outputs + static_cast<u64>(place) * output_stride;
    const Work work = work_of_thread();
    for (u32 element = work.first; element < elements; element += work.stride) push(round, element, input[element]);
    bool arrived = true;
    for (u32 element = work.first; arrived && element < elements; element += work.stride) {
        u32 total = 0;
        arrived = sum(round, element, input[element], deadline, total);
        if (arrived) output[element] = total;
    }
    __syncthreads();  // whoever stores base has read it, and so has everybody else
    if (threadIdx.x == 0) ranks.base[own_block] = round.sequence;
}
