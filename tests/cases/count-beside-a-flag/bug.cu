extern "C" __global__ void count(Watch*, u64* count) {
    atomicAdd(reinterpret_cast<unsigned long long*>(count), 1ull);
}
extern "C" __global__ void signal(Watch*, u32* halves) {
    st_release_sys(halves + 1, 5);
}
