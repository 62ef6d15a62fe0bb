extern "C" __global__ void give(Watch*, u32* tile, unsigned char* flags, u32 rank, u32* words) {
    tile[rank] = 7;
    st_release_sys(words + rank, 1);
}
extern "C" __global__ void take(Watch*, u32* tile, u32* flags, u32* words, u32* seen) {
    for (u32 rank = 0; rank < 2; ++rank)
        while (ld_acquire_sys(words + rank) == 0) {}
    *seen = tile[0] + tile[1];
}
