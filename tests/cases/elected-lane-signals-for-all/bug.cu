extern "C" __global__ void give(Watch*, u32* tile, u32* ready) {
    tile[threadIdx.x] = 7;
    u32 chosen;
    asm volatile("{ .reg .pred p; elect.sync _|p, 3; selp.u32 %0, 1, 0, p; }" : "=r"(chosen));
    if (chosen) st_release_sys(ready, 1);
}
extern "C" __global__ void take(Watch*, u32* tile, u32* ready, u32* seen) {
    while (ld_acquire_sys(ready) == 0) {}
    *seen = tile[0] + tile[1];
}
