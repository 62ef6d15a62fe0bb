// What kernels do when a failure is asked for, shared by those that can be asked.
#pragma once
#include "slots.cuh"

// Lets this thread be late by `ns`, but not much later than the launch's deadline: whoever waits for it gives up then.
__device__ __forceinline__ void stall(u64 ns, const Deadline& deadline) {
    constexpr u32 LONG_NS = 50000;
    const u64 began = timer_ns();
    constexpr u64 PAST_DEADLINE_NS = 10000000;
    const u64 since_entry = began - deadline.entry_ns;
    const u64 longest = deadline.watch->deadline_ns + PAST_DEADLINE_NS;
    const u64 left = since_entry < longest ? longest - since_entry : 0;
    ns = ns < left ? ns : left;
    for (u64 passed = 0; passed < ns; passed = timer_ns() - began) {
        __nanosleep(ns - passed > 2 * LONG_NS ? LONG_NS : 1000);
    }
}
