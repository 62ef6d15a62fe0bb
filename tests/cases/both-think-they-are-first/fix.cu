extern "C" __global__ void enter(Watch*, u32* mine, u32* theirs, u32* entered) {
    st_relaxed_sys(mine, 1);
    fence_sc_sys();
    if (ld_relaxed_sys(theirs) == 0) *entered = 1;
}
