extern "C" __global__ void swap(Watch*, u32* words, u32* seen) {
    words[threadIdx.x] = threadIdx.x + 1;
    __syncwarp(3);
    seen[threadIdx.x] = words[1 - threadIdx.x];
}
