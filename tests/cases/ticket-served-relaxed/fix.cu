extern "C" __global__ void enter(Watch*, u32* next, u32* serving, u32* total) {
    const u32 mine = add_relaxed_gpu(next, 1);
    while (ld_acquire_gpu(serving) != mine) {}
    *total += 1;
    st_release_gpu(serving, mine + 1);
}
