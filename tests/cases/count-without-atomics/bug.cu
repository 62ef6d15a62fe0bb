extern "C" __global__ void count(Watch*, u32* total) {
    *total += 1;
}
