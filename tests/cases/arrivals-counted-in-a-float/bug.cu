extern "C" __global__ void arrive(Watch*, float* count) {
    asm volatile("red.release.gpu.global.add.f32 [%0], 0f3F800000;" ::"l"(count) : "memory");
    while (__uint_as_float(ld_acquire_gpu(reinterpret_cast<u32*>(count))) < 16777218.0f) {}
}
