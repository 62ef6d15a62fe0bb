extern "C" __global__ void give(Watch*, u32* box, u32 payload) { st_release_sys(box, payload); }
extern "C" __global__ void take(Watch*, u32* box, u32* seen) {
    u32 got;
    do got = ld_acquire_sys(box);
    while (__uint_as_float(got) != __uint_as_float(got));
    *seen = got;
}
