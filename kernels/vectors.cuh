// What one thread moves at a time: 16 bytes, by weak accesses.
#pragma once

typedef uint4 Vector;

// Global addresses: the compiler, which finds them in a table, would go by generic ones.
__device__ __forceinline__ Vector load_vector(const Vector* from) {
    Vector v;
    asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(from)
                 : "memory");
    return v;
}
__device__ __forceinline__ void store_vector(Vector* to, const Vector& v) {
    asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
                 : "memory");
}
