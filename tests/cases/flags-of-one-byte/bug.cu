extern "C" __global__ void give(Watch*, u32* tile, unsigned char* flags, u32 rank, u32* words) {
    tile[rank] = 7;
    asm volatile("st.release.sys.global.u8 [%0], %1;" ::"l"(flags + rank), "r"(1) : "memory");
}
extern "C" __global__ void take(Watch*, u32* tile, u32* flags, u32* words, u32* seen) {
    while (ld_acquire_sys(flags) != 0x0101) {}
    *seen = tile[0] + tile[1];
}
