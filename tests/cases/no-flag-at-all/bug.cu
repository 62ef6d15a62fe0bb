extern "C" __global__ void give(Watch*, u32* tile, u32* ready) {
    *tile = 7;
}
extern "C" __global__ void take(Watch*, u32* tile, u32* ready, u32* seen) {
    *seen = *tile;
}
