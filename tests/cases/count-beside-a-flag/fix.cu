extern "C" __global__ void count(Watch*, u64* count) {
    add_relaxed_sys(reinterpret_cast<u32*>(count), 1);
}
extern "C" __global__ void signal(Watch*, u32* halves) {
    st_release_sys(halves + 1, 5);
}
