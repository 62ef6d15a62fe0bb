extern "C" __global__ void give(Watch*, u32* tiles, u32* index) {
    tiles[2] = 7;
    st_relaxed_sys(index, 2);
}
extern "C" __global__ void take(Watch*, u32* tiles, u32* index, u32* seen) {
    u32 at;
    while ((at = ld_acquire_sys(index)) == 0) {}
    *seen = tiles[at];
}
