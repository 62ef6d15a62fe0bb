extern "C" __global__ void sum(Watch*, u32* parts, u32* arrived, u32* total) {
    parts[blockIdx.x] = blockIdx.x + 1;
    if (add_acq_rel_cta(arrived, 1) == gridDim.x - 1) *total = parts[0] + parts[1];
}
