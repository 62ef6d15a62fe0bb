extern "C" __global__ void swap(Watch*, u32* seen) {
    __shared__ u32 words[2];
    words[threadIdx.x] = threadIdx.x + 1;
    seen[threadIdx.x] = words[1 - threadIdx.x];
}
