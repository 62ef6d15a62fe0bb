// How many increments survive when several GPUs, or a GPU and the CPU, count on one word.
//
// Every entry is the same round with another way to count: by an atom (its result is used) or a red (it has none), at
// gpu or sys scope; by single-writer slots, which need no atomicity and must never lose; and by a plain load and
// store, which must lose, or the count proves nothing. In one more round a GPU stores beside the word that another
// one counts on.
#include "slots.cuh"

// What an atom or red does to the word.
#define ADD 0   // + 1
#define INC 1   // + 1, with a bound that is never reached
#define DEC 2   // - 1, the same
#define CAS 3   // + 1 by compare-and-swap, tried again until it succeeds
#define EXCH 4  // writes a number that nobody else writes: each must come back once, or stay as the last
// These go on to the next word after 32 of all requesters, and each leaves a mark of its own.
#define MIN 5  // of 32 different values of a word; the smallest must stay
#define MAX 6  // the greatest
#define AND 7  // clears one bit
#define OR 8   // sets one
#define XOR 9  // turns one over
#ifndef OPERATION
#define OPERATION ADD
#endif

// Old values that one requester can keep; a power of 2. Rounds with more operations overwrite the first ones.
constexpr u32 KEPT_OLD_VALUES = 1 << 20;  // mirrored in pcietool/probes/atomics/counting.py

constexpr u32 ROW = 1;                    // of the slots through which requesters tell each other that they run
constexpr u32 CPU_ROW = 2;                // what a record calls the wait for the CPU's first increment
constexpr u32 DEADLINE_CHECK_EVERY = 16;  // operations of a thread

// ---------------------------------------------------------------------------------------------------------
// Ways to count once. `number` is unique among all operations of the round, from 1; the value of the word before is
// returned by those that know it.

#if OPERATION == ADD
#define INSTRUCTION "add.u32"
#define OPERAND(number) 1u
#elif OPERATION == INC
#define INSTRUCTION "inc.u32"
#define OPERAND(number) 0xffffffffu
#elif OPERATION == DEC
#define INSTRUCTION "dec.u32"
#define OPERAND(number) 0xffffffffu
#elif OPERATION == EXCH
#define INSTRUCTION "exch.b32"
#define OPERAND(number) number
#elif OPERATION == MIN
#define INSTRUCTION "min.u32"
#define OPERAND(number) ~VALUE(number)
#elif OPERATION == MAX
#define INSTRUCTION "max.u32"
#define OPERAND(number) VALUE(number)
#elif OPERATION == AND
#define INSTRUCTION "and.b32"
#define OPERAND(number) ~(1u << number % 32)
#elif OPERATION == OR
#define INSTRUCTION "or.b32"
#define OPERAND(number) 1u << number % 32
#elif OPERATION == XOR
#define INSTRUCTION "xor.b32"
#define OPERAND(number) 1u << number % 32
#endif

#if OPERATION >= MIN  // mirrored in pcietool/probes/atomics/marks.py
#define WORD(word, number) word + number / 32
#define VALUE(number) ((number % 32 + number / 32) % 32 + 1)  // greatest at another bit of each word
#else
#define WORD(word, number) word
#endif

#if OPERATION == CAS
#define DEFINE_ATOM(Name, SCOPE)                                                       \
    struct Name {                                                                      \
        static constexpr bool KEEPS_OLD_VALUES = true;                                 \
        static __device__ __forceinline__ u32 count(u32* word, u32*, u32, u32) {       \
            u32 expected = load_relaxed_sys(word);                                     \
            for (;;) {                                                                 \
                u32 before;                                                            \
                asm volatile("atom.relaxed." SCOPE ".global.cas.b32 %0, [%1], %2, %3;" \
                             : "=r"(before)                                            \
                             : "l"(word), "r"(expected), "r"(expected + 1)             \
                             : "memory");                                              \
                if (before == expected) return before;                                 \
                expected = before;                                                     \
            }                                                                          \
        }                                                                              \
    }
#else
#define DEFINE_ATOM(Name, SCOPE)                                                        \
    struct Name {                                                                       \
        static constexpr bool KEEPS_OLD_VALUES = true;                                  \
        static __device__ __forceinline__ u32 count(u32* word, u32*, u32, u32 number) { \
            u32 before;                                                                 \
            asm volatile("atom.relaxed." SCOPE ".global." INSTRUCTION " %0, [%1], %2;"  \
                         : "=r"(before)                                                 \
                         : "l"(WORD(word, number)), "r"(OPERAND(number))                \
                         : "memory");                                                   \
            return before;                                                              \
        }                                                                               \
    }
#endif

#define DEFINE_RED(Name, SCOPE)                                                                              \
    struct Name {                                                                                            \
        static constexpr bool KEEPS_OLD_VALUES = false;                                                      \
        static __device__ __forceinline__ u32 count(u32* word, u32*, u32, u32 number) {                      \
            asm volatile("red.relaxed." SCOPE ".global." INSTRUCTION " [%0], %1;" ::"l"(WORD(word, number)), \
                         "r"(OPERAND(number))                                                                \
                         : "memory");                                                                        \
            return 0;                                                                                        \
        }                                                                                                    \
    }

struct Slots {  // every thread publishes its own running count in a slot that only it writes
    static constexpr bool KEEPS_OLD_VALUES = false;
    static __device__ __forceinline__ u32 count(u32*, u32* slot, u32 counted, u32) {
        signal_slot(slot, counted + 1);
        return 0;
    }
};

struct Plain {  // negative control: the others have time to come between the load and the store
    static constexpr bool KEEPS_OLD_VALUES = false;
    static __device__ __forceinline__ u32 count(u32* word, u32*, u32, u32) {
        volatile u32* const plain = word;
        const u32 before = *plain;
        __nanosleep(100);
        *plain = before + 1;
        return 0;
    }
};

#if OPERATION == ADD
struct Wide {  // one 64-bit atomic over the word and its neighbour
    static constexpr bool KEEPS_OLD_VALUES = false;
    static __device__ __forceinline__ u32 count(u32* word, u32*, u32, u32) {
        asm volatile("red.relaxed.sys.global.add.u64 [%0], %1;" ::"l"(word), "l"(1ull) : "memory");
        return 0;
    }
};

struct Beside {  // the only writer of the word beside the counted one; what it reads back is kept
    static constexpr bool KEEPS_OLD_VALUES = true;
    static __device__ __forceinline__ u32 count(u32* word, u32*, u32 counted, u32) {
        u32* const neighbour = word + 1;
        store_relaxed_sys(neighbour, counted + 1);
        __nanosleep(1000);  // an atomic that began before the store has ended by then
        return load_relaxed_sys(neighbour);
    }
};
#endif

// ---------------------------------------------------------------------------------------------------------
// A round.

// What one rank is given, by value; mirrored in pcietool/probes/atomics/counting.py.
struct Round {
    u32* const* gates;    // gates[r]: slot array of rank r, rows 0..1 of `world` slots
    const u32* cpu_word;  // the first increment of it by the CPU begins the round, if it takes part
    u32* word;            // what is counted on; from MIN on the first of the words
    u32* slots;           // one a thread of all requesters; those of this one start at first_thread
    u32* counted;         // [thread]: how often it has counted
    u32* old_values;      // [thread * operations + i], modulo KEPT_OLD_VALUES: what atoms returned, or Beside read back
    u32 rank;
    u32 requesters;  // bit r is set if rank r takes part, and bit `world` if the CPU does
    u32 world;
    u32 sequence;  // of this round
    u32 first_thread;
    u32 operations;  // of each thread; less when the deadline has passed
};
static_assert(sizeof(Round) == 72);

// Lets all requesters begin together: a rank tells the others that it runs, through its slots, and each of its blocks
// waits for the others, of which the CPU is the last. By one thread of each block.
__device__ __forceinline__ bool all_are_here(const Round& round, const Deadline& deadline) {
    constexpr u32 STRIDE = SLOT_STRIDE / sizeof(u32);
    const u32 world = round.world;
    const u32 others = round.requesters & ~(1u << round.rank);
    for (u32 other = 0; blockIdx.x == 0 && other < world; ++other) {
        if (others >> other & 1) signal_slot(round.gates[other] + (ROW * world + round.rank) * STRIDE, round.sequence);
    }
#pragma unroll 1  // unrolled waits cost a compile time that nobody gets back
    for (u32 other = 0; other <= world; ++other) {
        if (!(others >> other & 1)) continue;
        const bool is_cpu = other == world;
        const u32* sign = is_cpu ? round.cpu_word : round.gates[round.rank] + (ROW * world + other) * STRIDE;
        const u32 wanted = is_cpu ? 1 : round.sequence;
        const u32 row = is_cpu ? CPU_ROW : ROW;
        if (!wait_slot<AcquireSys>(sign, wanted, deadline, round.rank, row, other, round.sequence)) return false;
    }
    return true;
}

template <typename Way>
__device__ __forceinline__ void count_round(Watch* watch, const Round& round) {
    __shared__ bool go;
    const Deadline deadline = deadline_from(watch);
    if (threadIdx.x == 0) go = all_are_here(round, deadline);
    __syncthreads();
    if (!go) return;

    const u32 thread = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 operations = round.operations;
    u32* const slot = round.slots + (round.first_thread + thread) * (SLOT_STRIDE / sizeof(u32));
#if OPERATION >= MIN
    const u32 threads = gridDim.x * blockDim.x;
    const u32 step = threads * __popc(round.requesters);
    const u32 first_number =
        thread * __popc(round.requesters) + round.first_thread / threads + round.sequence % 32 * 32;
#else
    const u32 step = 1;
    const u32 first_number = (round.first_thread + thread) * operations + 1;
#endif
    u32 done = 0;
    while (done < operations) {
        const u32 before = Way::count(round.word, slot, done, first_number + done * step);
        if (Way::KEEPS_OLD_VALUES) round.old_values[(thread * operations + done) % KEPT_OLD_VALUES] = before;
        ++done;
        if (done % DEADLINE_CHECK_EVERY == 0 && out_of_time(deadline, 0)) break;
    }
    round.counted[thread] = done;
}

#define ENTRY(name, Way) \
    extern "C" __global__ void name(Watch* watch, const Round round) { count_round<Way>(watch, round); }

DEFINE_ATOM(AtomSys, "sys");
DEFINE_ATOM(AtomGpu, "gpu");
ENTRY(count_atom_sys, AtomSys)
ENTRY(count_atom_gpu, AtomGpu)
#if OPERATION != CAS && OPERATION != EXCH  // both only exist with a result
DEFINE_RED(RedSys, "sys");
DEFINE_RED(RedGpu, "gpu");
ENTRY(count_red_sys, RedSys)
ENTRY(count_red_gpu, RedGpu)
#endif
#if OPERATION == ADD
ENTRY(count_wide, Wide)
ENTRY(count_beside, Beside)
#endif
ENTRY(count_slots, Slots)
ENTRY(count_plain, Plain)
