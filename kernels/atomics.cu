// How many increments survive when several GPUs, or a GPU and the CPU, count on one word.
//
// The same count is also made through single-writer slots, which need no atomicity: that one must never lose.
#include "slots.cuh"

// OPERATION: what is counted with. RESULT_USED: 1 makes it an atom, 0 a red. SCOPE_SYS: 1 sys, 0 gpu.
#define OP_ADD 0
#define OP_INC 1
#define OP_CAS 2   // a compare-and-swap loop
#define OP_EXCH 3  // exchange never counts; what is checked is that every value comes back exactly once
#define OP_MAX 4
#define OP_OR 5
#ifndef OPERATION
#define OPERATION OP_ADD
#endif
#ifndef RESULT_USED
#define RESULT_USED 0
#endif
#ifndef SCOPE_SYS
#define SCOPE_SYS 1
#endif
