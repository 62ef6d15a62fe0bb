extern "C" __global__ void give(Watch*, u32* box, u32* carry) {
    st_relaxed_sys(box, ~0u);
}
extern "C" __global__ void take(Watch*, u32* box, u32* carry, u32* seen) {
    while (ld_relaxed_sys(box) == ~0u) {}
    *seen = 1;
}
