extern "C" __global__ void give(Watch*, u32* slots, u32* tail, u32* head) {
    for (u32 item = 0; item < 2; ++item) {
        while (item - ld_acquire_sys(head) > 1) {}
        slots[0] = item + 5;
        st_release_sys(tail, item + 1);
    }
}
extern "C" __global__ void take(Watch*, u32* slots, u32* tail, u32* head, u32* seen) {
    for (u32 item = 0; item < 2; ++item) {
        while (ld_acquire_sys(tail) <= item) {}
        seen[item] = slots[0];
        st_release_sys(head, item + 1);
    }
}
