extern "C" __global__ void give(Watch*, u32* box) {
    box[4] = 7;
    st_release_sys(box, 1);
}
extern "C" __global__ void take(Watch*, u32* box, u32* seen) {
    u32 arrived = 0;
#pragma unroll 1
    for (u32 look = 0; look < 3 && arrived == 0; ++look) arrived = ld_acquire_sys(box);
    if (arrived == 0)
        while (ld_acquire_sys(box) == 0);
    *seen = box[4];
}
