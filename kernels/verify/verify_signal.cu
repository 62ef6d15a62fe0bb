// Messages from thread to thread: thread t of rank r sends to rank t, and reads what rank t sent to r. Nothing but
// signal_slot and wait_slot orders them: no block barrier, no election. One block a rank.
#include "verify.cuh"

constexpr u32 MESSAGE_WORDS = 16;
constexpr u32 WORDS_WITH_FLAG = SIGNAL == SIGNAL_WITH_DATA ? 3 : 0;  // the first of a message

// outputs[rank]: [iterations][world][MESSAGE_WORDS], what the rank read from each other.
extern "C" __global__ void verify_signal(Watch* watch, const Endpoint* ranks, u32* const* outputs, TRIAL_PARAMETERS) {
    const Deadline deadline = deadline_from(watch);
    const Trial trial = TRIAL;
    const u32 rank = first_rank + blockIdx.x;
    const u32 peer = threadIdx.x;
    if (peer >= world || peer == rank) return;
    const Endpoint& own = ranks[rank];
    u32* const theirs = reinterpret_cast<u32*>(ranks[peer].landing) + rank * MESSAGE_WORDS;
    u32* const mine = reinterpret_cast<u32*>(own.landing) + peer * MESSAGE_WORDS;
    u32* const signal = slot_at(ranks[peer].slots, FIRST_ROW, rank, world);
    [[maybe_unused]] const u32* const with_flag = slot_at(own.slots, FIRST_ROW, peer, world) + 1;
    for (u32 iteration = 0; iteration < iterations; ++iteration) {
        const u32 sequence = start + iteration;
        const u32 key = row_key(iteration, rank, peer);
        if (!await_ack(own, ACK_ROW, peer, sequence, deadline, rank, world)) return;
#if PUBLISH_FIRST
        publish(signal, sequence);
#endif
        be_late(trial, rank, WRITING, deadline);
        const bool corrupt = rank == corrupt_rank && peer == corrupt_row && iteration == 0;
        for (u32 column = WORDS_WITH_FLAG; column < MESSAGE_WORDS; ++column) {
            theirs[column] = payload(key, column) ^ (corrupt && column == 1 ? 0x100 : 0);
        }
#if SIGNAL == SIGNAL_WITH_DATA
        fence_sys();
        asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(signal), "r"(sequence),
                     "r"(payload(key, 0)), "r"(payload(key, 1)), "r"(payload(key, 2))
                     : "memory");
#elif !PUBLISH_FIRST
        publish(signal, sequence);
#endif

        if (!await(own, FIRST_ROW, peer, sequence, deadline, rank, world)) return;
        be_late(trial, rank, READING, deadline);
        u32* const output = outputs[rank] + (static_cast<u64>(iteration) * world + peer) * MESSAGE_WORDS;
        for (u32 column = 0; column < MESSAGE_WORDS; ++column) {
            const u32* const from = mine + column;
            if (column < WORDS_WITH_FLAG) {
                output[column] = with_flag[column];
            } else {
                output[column] = *from;
                mine[column] = POISON;
            }
        }
        signal_slot(slot_at(ranks[peer].slots, ACK_ROW, rank, world), sequence);
    }
}
