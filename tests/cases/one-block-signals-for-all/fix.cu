extern "C" __global__ void give(Watch*, u32* parts, u32* arrived, u32* ready) {
    parts[blockIdx.x] = 7;
    if (add_acq_rel_gpu(arrived, 1) == gridDim.x - 1) st_release_sys(ready, 1);
}
extern "C" __global__ void take(Watch*, u32* parts, u32* ready, u32* seen) {
    while (ld_acquire_sys(ready) == 0) {}
    *seen = parts[0] + parts[1];
}
