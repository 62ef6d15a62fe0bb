// One rank sends words to the next: as packets that carry their own flag, through buffers in which a sentinel says "not
// yet", through a FIFO with head and tail, and through a mailbox in pinned host memory.
#pragma once
#include "slots.cuh"

// 8 bytes: data below, flag above, in one store. Whoever sees the flag sees the data; no fence, no second look.
__global__ void send_packets(u64* inbox, const u32* data, u32 words, u32 flag) {
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
#ifdef TWO_STORES  // the flag may arrive before the data
        volatile u32* halves = reinterpret_cast<u32*>(inbox + i);
        halves[0] = data[i];
        halves[1] = flag;
#else
        const u64 packet = static_cast<u64>(flag) << 32 | data[i];
        asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(inbox + i), "l"(packet) : "memory");
#endif
    }
}
__global__ void receive_packets(const u64* inbox, u32* out, u32 words, u32 flag) {
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
        u64 packet;
        do {
            asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(packet) : "l"(inbox + i) : "memory");
        } while (packet >> 32 != flag);
        out[i] = static_cast<u32>(packet);
    }
}

// Three buffers in rotation: a call reads one, and clears the one that the call after next writes to. EMPTY is no
// value. Release and acquire order the clearing, a call before, ahead of what the other rank writes there, a call
// later.
constexpr u32 EMPTY = 0xffffffff;
#ifdef RELAXED  // then PTX orders nothing between the two: the clearing may land last
#define SEND store_relaxed_sys
#define LOOK load_relaxed_sys
#else
#define SEND store_release_sys
#define LOOK load_acquire_sys
#endif
__global__ void exchange_by_sentinel(u32* mine, u32* theirs, const u32* data, u32* out, u32 words, u32 call) {
    const u32 now = call % 3 * words;
#ifdef CLEARS_NEXT  // into which the other rank may be writing already
    const u32 clear = (call + 1) % 3 * words;
#else
    const u32 clear = (call + 2) % 3 * words;
#endif
    for (u32 i = threadIdx.x; i < words; i += blockDim.x) {
        SEND(theirs + now + i, data[i] + call);
        u32 value;
        do value = LOOK(mine + now + i);
        while (value == EMPTY);
        out[i] = value;
        store_relaxed_sys(mine + clear + i, EMPTY);
    }
}

// A ring of SLOTS words. The writer owns `tail`, the reader `head`; each only grows, and lies with who polls it.
template <u32 SLOTS>
__global__ void fifo_push(u32* ring, u32* tail, const u32* head, u32 count) {
    for (u32 n = 0; n < count; ++n) {
#ifndef NEVER_FULL  // overwrites what was not read yet
        while (static_cast<s32>(n - load_acquire_sys(head)) >= static_cast<s32>(SLOTS)) {
        }
#endif
        ring[n % SLOTS] = 100 + n;
#ifdef RELAXED_TAIL  // the reader may see the new tail and the old word
        store_relaxed_sys(tail, n + 1);
#else
        store_release_sys(tail, n + 1);
#endif
    }
}
template <u32 SLOTS>
__global__ void fifo_pop(const u32* ring, const u32* tail, u32* head, u32* out, u32 count) {
    for (u32 n = 0; n < count; ++n) {
        while (!reached(load_acquire_sys(tail), n + 1)) {
        }
        out[n] = ring[n % SLOTS];
        store_release_sys(head, n + 1);
    }
}

// A mailbox that two GPUs reach only through pinned host memory.
__global__ void mail_write(u32* mailbox, u32* flag, u32 value) {
    *mailbox = value;
#ifdef DEVICE_FENCE  // orders for this GPU alone
    __threadfence();
#else
    __threadfence_system();
#endif
    *static_cast<volatile u32*>(flag) = 1;
}
__global__ void mail_read(const u32* mailbox, const u32* flag, u32* out) {
    while (*static_cast<const volatile u32*>(flag) == 0) {
    }
    __threadfence_system();
    *out = *static_cast<const volatile u32*>(mailbox);
}
