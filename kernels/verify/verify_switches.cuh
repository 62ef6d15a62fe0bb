// What the kernels of `verify` can be compiled to do wrong, or to do right in another way. One switch, one link of the
// protocol; value 0 is the protocol as it is meant. pcietool/protocol/switches.py has the same names and values.
#pragma once

// SIGNAL: how a sequence number gets into its slot.
#define SIGNAL_RELEASE_SYS 0            // signal_slot of slots.cuh
#define SIGNAL_FENCE_SYS_RELEASE_SYS 1  // as the source article has it: a system fence before that
#define SIGNAL_FENCE_SYS_RELAXED_SYS 2
#define SIGNAL_RELAXED_SYS 3
#define SIGNAL_RELEASE_GPU 4
#define SIGNAL_FENCE_GPU_RELAXED_SYS 5
#define SIGNAL_WEAK 6
#define SIGNAL_FENCE_SYS_WEAK 7
#define SIGNAL_WITH_DATA 8  // part of the data and the flag in one vector store
#ifndef SIGNAL
#define SIGNAL SIGNAL_RELEASE_SYS
#endif

// ELECTION: how arrivals are counted on this GPU.
#define ELECTION_ACQ_REL 0
#define ELECTION_FENCE_GPU_RELAXED 1
#define ELECTION_RELEASE 2
#define ELECTION_ACQUIRE 3
#define ELECTION_RELAXED 4
#ifndef ELECTION
#define ELECTION ELECTION_ACQ_REL
#endif

// WAIT: how a slot is waited for.
#define WAIT_ACQUIRE_SYS 0
#define WAIT_RELAXED_SYS 1
#define WAIT_RELAXED_SYS_FENCE_GPU 2
#define WAIT_ACQUIRE_GPU 3
#ifndef WAIT
#define WAIT WAIT_ACQUIRE_SYS
#endif

// COUNT: how an arrival is told to a gate.
#define COUNT_RELEASE_GPU 0
#define COUNT_RELAXED_GPU 1
#ifndef COUNT
#define COUNT COUNT_RELEASE_GPU
#endif

// SEQUENCE: what is stored in a slot, round after round.
#define SEQUENCE_GROWS 0
#define SEQUENCE_CLEARED_BY_WAITER 1
#define SEQUENCE_RESET_BETWEEN_ROUNDS 2
#ifndef SEQUENCE
#define SEQUENCE SEQUENCE_GROWS
#endif

// ARRIVED_BY: how a barrier learns that everybody came.
#define ARRIVED_BY_SLOTS 0
#define ARRIVED_BY_REMOTE_COUNTER 1  // one word that all ranks increment
#ifndef ARRIVED_BY
#define ARRIVED_BY ARRIVED_BY_SLOTS
#endif

// COMPARE: when a sequence number is reached.
#define COMPARE_DIFFERENCE 0
#define COMPARE_PLAIN 1     // as signed numbers
#define COMPARE_UNSIGNED 2  // as they are
#ifndef COMPARE
#define COMPARE COMPARE_DIFFERENCE
#endif

// BLOCK_SYNC: who of a block waits for whom.
#define BLOCK_SYNC_ALL 0
#define BLOCK_SYNC_NOT_BEFORE_COUNT 1
#define BLOCK_SYNC_NOT_AFTER_WAIT 2
#ifndef BLOCK_SYNC
#define BLOCK_SYNC BLOCK_SYNC_ALL
#endif

// BULK_WAIT: what a bulk store is waited for before it is counted.
#define BULK_WAIT_WRITTEN 0
#define BULK_WAIT_READ 1
#ifndef BULK_WAIT
#define BULK_WAIT BULK_WAIT_WRITTEN
#endif

// Each 0 or 1.
#ifndef BULK  // rows are stored by TMA, from shared memory; needs sm_90
#define BULK 0
#endif
#ifndef NO_PROXY_FENCE  // between writing shared memory and the bulk store that reads it
#define NO_PROXY_FENCE 0
#endif
#ifndef ONE_SLOT_FOR_ALL  // all producers of a consumer store to the same slot
#define ONE_SLOT_FOR_ALL 0
#endif
#ifndef PUBLISH_FIRST  // chunks are published before their rows are stored
#define PUBLISH_FIRST 0
#endif
#ifndef CHUNK_BEFORE  // a chunk is released by the slot of the one before it
#define CHUNK_BEFORE 0
#endif
#ifndef NO_ACK_WAIT  // rows are overwritten without asking whether they were read
#define NO_ACK_WAIT 0
#endif
#ifndef OWN_SLOT  // a barrier also waits for its own slot, which nobody stores to
#define OWN_SLOT 0
#endif
// Added to what is expected: arrivals that elect, and what a gate is seeded with.
#ifndef EXPECTED_EXTRA
#define EXPECTED_EXTRA 0
#endif
#ifndef SEED_EXTRA
#define SEED_EXTRA 0
#endif
