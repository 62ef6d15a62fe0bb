extern "C" __global__ void give(Watch*, u32* flag) {
    for (u32 round = 1; round <= 2; ++round) st_release_sys(flag, round & 1);
}
extern "C" __global__ void take(Watch*, u32* flag, u32* seen) {
    for (u32 round = 1; round <= 2; ++round)
        while (ld_acquire_sys(flag) != (round & 1)) {}
    *seen = 1;
}
