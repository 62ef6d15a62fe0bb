extern "C" __global__ void meet(Watch*, u32* mine, u32* theirs, u32* seen) {
    for (u32 epoch = 0; epoch < 2; ++epoch) {
        st_relaxed_sys(theirs + epoch % 3, epoch + 1);
        u32 got;
        while ((got = ld_relaxed_sys(mine + epoch % 3)) == 0) {}
        seen[epoch] = got;
        st_relaxed_sys(mine + (epoch + 1) % 3, 0);
    }
}
