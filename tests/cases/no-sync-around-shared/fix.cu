extern "C" __global__ void swap_warps(Watch*, u32* left) {
    __shared__ u32 tile[64];
    tile[threadIdx.x] = 100 + threadIdx.x;
    __syncthreads();
    left[threadIdx.x] = tile[threadIdx.x ^ 32];
}
