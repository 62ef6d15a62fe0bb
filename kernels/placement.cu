// How long a poll of each of several lines takes: an L2 cache has near and far parts, and where a slot lies decides.
#include "slots.cuh"

// One thread looks `looks` times at each of `count` zeroed words, `step` words apart. times: [count], cycles of the
// looks at that word together.
extern "C" __global__ void poll_cycles(Watch*, const u32* words, u32 step, u32 count, u32 looks, u32* times) {
    if (threadIdx.x != 0) return;
    for (u32 n = 0; n < count; ++n) {
        const u32* word = words + n * step;
        u32 seen = load_relaxed_sys(word);  // the first look may miss
        const u32 began = cycles();
        for (u32 look = 0; look < looks; ++look) seen = load_relaxed_sys(word + seen);  // each needs the one before
        times[n] = cycles() - began + seen;
    }
}
