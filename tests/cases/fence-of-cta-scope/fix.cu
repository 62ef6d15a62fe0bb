extern "C" __global__ void hand(Watch*, u32* word, u32* ready, u32* seen) {
    if (blockIdx.x == 0) {
        *word = 7;
        __threadfence();
        st_relaxed_gpu(ready, 1);
    } else {
        while (ld_acquire_gpu(ready) == 0) {}
        *seen = *word;
    }
}
