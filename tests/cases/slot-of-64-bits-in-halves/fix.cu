__device__ __forceinline__ u64 whole(const u64* slot) {
    u64 value;
    asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(slot) : "memory");
    return value;
}
extern "C" __global__ void give(Watch*, u64* slot) {
    asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(slot), "l"(1ull << 32 | 7) : "memory");
}
extern "C" __global__ void take(Watch*, u64* slot, u32* seen) {
    u64 value;
    while ((value = whole(slot)) == 0) {}
    *seen = static_cast<u32>(value) + static_cast<u32>(value >> 32);
}
