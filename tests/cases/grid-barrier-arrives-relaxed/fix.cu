extern "C" __global__ void meet(Watch*, u32* count, u32* data, u32* seen) {
    data[blockIdx.x] = 1;
    add_release_gpu(count, 1);
    while (ld_acquire_gpu(count) < gridDim.x) {}
    seen[blockIdx.x] = data[1 - blockIdx.x];
}
