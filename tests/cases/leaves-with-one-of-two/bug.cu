extern "C" __global__ void give(Watch*, u32* box) {
    st_relaxed_sys(box + 4, 1);
    st_relaxed_sys(box, 1);
}
extern "C" __global__ void take(Watch*, u32* box, u32* seen) {
    u32 first, second;
    do {
        first = ld_relaxed_sys(box);
        second = ld_relaxed_sys(box + 4);
    } while (first == 0 && second == 0);
    *seen = first + second;
}
