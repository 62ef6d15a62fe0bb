extern "C" __global__ void give(Watch*, u32* box, u32* flag, u32* ack) {
    for (u32 round = 1; round <= 2; ++round) {
        while (ld_acquire_sys(ack) < round - 1) {}
        *box = 10 * round;
        st_release_sys(flag, round);
    }
}
extern "C" __global__ void take(Watch*, u32* box, u32* flag, u32* ack, u32* seen) {
    for (u32 round = 1; round <= 2; ++round) {
        while (ld_acquire_sys(flag) < round) {}
        st_release_sys(ack, round);
        seen[round - 1] = *box;
    }
}
