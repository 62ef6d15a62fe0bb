extern "C" __global__ void produce(Watch*, u32* payload, u32* ready) {
    *payload = 11;
    st_release_sys(ready, 1);
}
extern "C" __global__ void consume(Watch*, u32* payload, u32* ready, u32* seen) {
    while (ld_acquire_sys(ready) == 0) {}
    *seen = ld_nc(payload);
}
