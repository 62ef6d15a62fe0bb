extern "C" __global__ void first(Watch*, u32* tile, u32* to_second) {
    *tile = 7;
    st_release_sys(to_second, 1);
}
extern "C" __global__ void second(Watch*, u32* to_second, u32* to_third) {
    while (ld_acquire_sys(to_second) == 0) {}
    st_release_sys(to_third, 1);
}
extern "C" __global__ void third(Watch*, u32* tile, u32* to_third, u32* seen) {
    while (ld_acquire_sys(to_third) == 0) {}
    *seen = *tile;
}
