extern "C" __global__ void give(Watch*, u32* box, u32* ready, u32 payload) {
    *box = payload;
    st_release_sys(ready, 1);
}
extern "C" __global__ void sum(Watch*, u32* box, u32* ready, u32* total) {
    while (ld_acquire_sys(ready) == 0) {}
    u32 both;
    asm("add.ftz.f32 %0, %1, %2;" : "=r"(both) : "r"(*total), "r"(*box));
    *total = both;
}
