// Stands before every kernel of these cases: what slots.cuh does not have.
#include "slots.cuh"

#define LOAD(name, order)                                                                               \
    __device__ __forceinline__ u32 name(const u32* word) {                                              \
        u32 value;                                                                                      \
        asm volatile("ld." order ".global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");         \
        return value;                                                                                   \
    }
#define STORE(name, order)                                                                              \
    __device__ __forceinline__ void name(u32* word, u32 value) {                                        \
        asm volatile("st." order ".global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");           \
    }
#define ATOM(name, form)                                                                                \
    __device__ __forceinline__ u32 name(u32* word, u32 value) {                                         \
        u32 before;                                                                                     \
        asm volatile("atom." form " %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");  \
        return before;                                                                                  \
    }
#define CAS(name, order)                                                                                \
    __device__ __forceinline__ u32 name(u32* word, u32 expected, u32 value) {                           \
        u32 before;                                                                                     \
        asm volatile("atom." order ".global.cas.b32 %0, [%1], %2, %3;"                                  \
                     : "=r"(before)                                                                     \
                     : "l"(word), "r"(expected), "r"(value)                                             \
                     : "memory");                                                                       \
        return before;                                                                                  \
    }
// ld_acquire_sys(word), st_release_gpu(word, value), add_acq_rel_sys(word, value), cas_relaxed_gpu(word, old, new), ...
#define OF_SCOPE(scope, dotted)                                     \
    LOAD(ld_relaxed_##scope, "relaxed." dotted)                     \
    LOAD(ld_acquire_##scope, "acquire." dotted)                     \
    STORE(st_relaxed_##scope, "relaxed." dotted)                    \
    STORE(st_release_##scope, "release." dotted)                    \
    OF_ORDER(relaxed_##scope, "relaxed." dotted)                    \
    OF_ORDER(acquire_##scope, "acquire." dotted)                    \
    OF_ORDER(release_##scope, "release." dotted)                    \
    OF_ORDER(acq_rel_##scope, "acq_rel." dotted)
#define OF_ORDER(how, order)                                        \
    ATOM(add_##how, order ".global.add.u32")                        \
    ATOM(min_##how, order ".global.min.u32")                        \
    ATOM(max_##how, order ".global.max.u32")                        \
    ATOM(and_##how, order ".global.and.b32")                        \
    ATOM(or_##how, order ".global.or.b32")                          \
    ATOM(xor_##how, order ".global.xor.b32")                        \
    ATOM(inc_##how, order ".global.inc.u32")                        \
    ATOM(exch_##how, order ".global.exch.b32")                      \
    CAS(cas_##how, order)
OF_SCOPE(cta, "cta")
OF_SCOPE(gpu, "gpu")
OF_SCOPE(sys, "sys")


__device__ __forceinline__ void fence_gpu() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }
__device__ __forceinline__ void fence_sys() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ __forceinline__ void fence_sc_sys() { asm volatile("fence.sc.sys;" ::: "memory"); }
__device__ __forceinline__ u32 ld_nc(const u32* word) {
    u32 value;
    asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(value) : "l"(word));
    return value;
}
