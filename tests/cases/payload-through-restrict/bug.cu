extern "C" __global__ void halves(Watch*, u32* table, const u32* __restrict__ same_table, u32* out) {
    table[threadIdx.x] = threadIdx.x + 40;
    __syncthreads();
    out[threadIdx.x] = same_table[threadIdx.x ^ 32];
}
