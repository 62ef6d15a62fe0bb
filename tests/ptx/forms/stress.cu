// What people write in fused kernels, family by family, so that NVRTC emits the instruction forms of each.
// Compiled and lowered only, never run: the results of single instructions are tests/emulator/instructions.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

__constant__ u32 table[4] = {1, 2, 3, 5};

extern "C" __global__ void integers(const int* a, const long long* b, u32* o, u64* w, short s, signed char c) {
    const u32 t = blockIdx.x * blockDim.x + threadIdx.x;
    const int x = a[t], y = a[t + 1];
    const long long p = b[t], q = b[t + 1];
    o[0] = x / y + x % y + (u32)x / (u32)y + (u32)x % (u32)y + (x / 7) + (u32)x % 10u;
    w[0] = p / q + p % q + (u64)p / (u64)q + (u64)p % (u64)q + p / 10 + (u64)p % 1000u;
    o[1] = min(x, y) + max(x, y) + min((u32)x, (u32)y) + max((u32)x, (u32)y) + abs(x) + -x + ~x;
    w[1] = min(p, q) + max(p, q) + min((u64)p, (u64)q) + max((u64)p, (u64)q) + llabs(p) + -q + ~p;
    o[2] = __popc(x) + __clz(x) + __brev(x) + __ffs(x) + __popcll(p) + __clzll(p) + __ffsll(p);
    w[2] = __brevll(p) + __mul64hi(p, q) + __umul64hi(p, q) + (u64)x * (u32)y + (long long)x * y + p * q;
    o[3] = __mulhi(x, y) + __umulhi(x, y) + __byte_perm(x, y, 0x5410) + __byte_perm(x, y, t) + __sad(x, y, 1u)
           + __usad(x, y, 1u) + __mul24(x, y) + __umul24(x, y) + __hadd(x, y) + __rhadd(x, y) + __uhadd(x, y);
    o[4] = __funnelshift_l(x, y, t) + __funnelshift_r(x, y, t) + __funnelshift_lc(x, y, t) + __funnelshift_rc(x, y, t);
    o[5] = (x << y) + (x >> y) + ((u32)x >> y) + (x << 3 | (u32)x >> 29);
    w[3] = (p << y) + (p >> y) + ((u64)p >> y);
    o[6] = s + c + (u8)x + (short)y + (signed char)(x + y) + (s < c) + (u16)(s * c) + s / c;
    w[4] = (x > y ? p : q) + (p > q) + (x == y) + ((u64)p > (u64)q && (u32)x <= (u32)y || p != q);
    o[7] = (x >> 5 & 31) | (y & 0xff00) | ((u32)x >> 8 & 255) << 16;
    o[8] = __vadd2(x, y) + __dp4a(x, y, 1) + __vmaxs4(x, y);
    w[5] = ((u8*)b)[t] + ((signed char*)b)[t + 1] + ((u16*)b)[t] + ((short*)b)[t + 1];
    ((u8*)w)[100 + t] = x;
    ((u16*)w)[100 + t] = y;
    asm("{ .reg .u32 l; add.cc.u32 l, %1, %2; addc.u32 %0, l, %2; }" : "=r"(o[9]) : "r"(x), "r"(y));
}

extern "C" __global__ void floats(const float* a, const double* b, float* o, double* w, int* n, long long* m) {
    const u32 t = threadIdx.x;
    const float x = a[t], y = a[t + 1], z = a[t + 2];
    const double p = b[t], q = b[t + 1], r = b[t + 2];
    o[0] = x + y * z - x / y + sqrtf(z) + fminf(x, y) + fmaxf(x, z) + fabsf(y) - -z;
    w[0] = p + q * r - p / q + sqrt(r) + fmin(p, q) + fmax(p, r) + fabs(q) - -r;
    o[1] = __fdividef(x, y) + rsqrtf(z) + __expf(x) + exp2f(y) + log2f(z) + __sinf(x) + __cosf(y) + __frcp_rn(z);
    o[2] = floorf(x) + ceilf(y) + truncf(z) + rintf(x) + roundf(y) + copysignf(x, y) + fmodf(x, 2.0f) + tanhf(z);
    w[1] = floor(p) + ceil(q) + trunc(r) + rint(p) + fma(p, q, r) + rsqrt(r);
    o[3] = (float)p + (float)n[t] + (float)(u32)n[t] + (float)m[t] + (float)(u64)m[t] + (float)(short)n[t];
    w[2] = (double)x + (double)n[t] + (double)(u32)n[t] + (double)m[t] + (double)(u64)m[t];
    n[1] = (int)x + (u32)y + (int)p + (u32)q + __float2int_rn(z) + __double2int_rn(r) + __float2int_rd(x)
           + __float2int_ru(x);
    m[1] = (long long)x + (u64)y + (long long)p + (u64)q + __double2ll_rn(r) + __float2ll_rn(z);
    n[2] = (x < y) + (x <= z) + (x == y) + (x != z) + (x > y) + !(x > z) + !(x <= y) + isnan(x) + isinf(y)
           + signbit(z) + isfinite(x);
    m[2] = (p < q) + (p <= r) + (p == q) + (p != r) + (p > q) + !(p > r) + !(p < r) + isnan(p) + isinf(q)
           + isfinite(r);
    n[3] = __float_as_int(x) ^ __double2hiint(p) ^ __double2loint(q);
    m[3] = __double_as_longlong(p);
    w[3] = __hiloint2double(n[5], n[6]) + __longlong_as_double(m[5]) + (x > y ? p : q);
    o[4] = __fadd_rz(x, y) + __fmul_rn(x, y) + __fmaf_rn(x, y, z) + __fsub_rn(x, y) + __saturatef(z);
    o[5] = x > y ? z : __int_as_float(n[7]);
    w[4] = __dadd_rn(p, q) + __dmul_rn(p, q) + __dsub_rn(p, q);
    asm("{ .reg .b16 h; cvt.rn.f16.f32 h, %1; cvt.f32.f16 %0, h; }" : "=f"(o[6]) : "f"(x));
    asm("{ .reg .b16 h; cvt.rn.bf16.f32 h, %1; mov.b32 %0, {0, h}; }" : "=f"(o[7]) : "f"(x));
    asm("{ .reg .b32 h; cvt.rn.bf16x2.f32 h, %1, %2; mov.b32 %0, h; }" : "=r"(((u32*)o)[8]) : "f"(x), "f"(y));
    asm("{ .reg .b32 h; cvt.rn.f16x2.f32 h, %1, %2; add.f16x2 %0, h, h; }" : "=r"(((u32*)o)[9]) : "f"(x), "f"(y));
}

extern "C" __global__ void caches(const uint4* a, uint4* o, const double2* b, u8* bytes, const float4* f) {
    const u32 t = threadIdx.x;
    o[0] = __ldg(a + t);
    o[1] = __ldcg(a + t + 1);
    __stcg(o + 2, __ldcs(a + t + 2));
    __stcs(o + 3, __ldca(a + t + 3));
    __stwt(o + 4, __ldcv(a + t + 4));
    __stwb(&o[5].x, __ldlu(&a[t].x));
    ((double2*)o)[6] = __ldg(b + t);
    ((float4*)o)[7] = __ldg(f + t);
    bytes[0] = __ldg((const u8*)a + t) + __ldcg((const u8*)a + t + 1);
    ((u16*)bytes)[1] = __ldg((const u16*)a + t);
    __stcg((u64*)bytes + 1, __ldcg((const u64*)a + t));
    __stcg((float*)bytes + 4, __ldcg((const float*)a + t));
    ((uint2*)o)[20] = ((const uint2*)a)[t];
    ((ulonglong2*)o)[21] = ((const ulonglong2*)a)[t];
    ((ushort4*)o)[60] = ((const ushort4*)a)[t];
    ((uchar4*)o)[130] = ((const uchar4*)a)[t];
    asm volatile("prefetch.global.L2 [%0];" ::"l"(a + 100));
    asm volatile("{ .reg .b32 v; ld.global.nc.L1::no_allocate.L2::128B.u32 v, [%0]; st.global.L1::no_allocate.u32 [%1], v; }"
                 ::"l"(a), "l"(o + 30) : "memory");
    asm volatile("{ .reg .b64 p; createpolicy.fractional.L2::evict_first.b64 p, 0f3F800000;"
                 " st.global.L2::cache_hint.u32 [%0], 1, p; }" ::"l"(o + 31) : "memory");
}

extern "C" __global__ void ordered(u32* g, u64* w, volatile u32* v, volatile u64* d, float* f, double* e, int* s) {
    __shared__ u32 own;
    __shared__ u64 own_wide;
    __shared__ float own_float;
    volatile u32* shared = &own;
    v[0] = v[1] + d[0];
    d[1] = v[2];
    ((volatile u8*)v)[40] = ((volatile u8*)v)[41];
    ((volatile float*)v)[12] = ((volatile float*)v)[13];
    *shared = v[3];
    __threadfence_block();
    __threadfence();
    __threadfence_system();
    g[0] = atomicAdd(g, 1u) + atomicSub(g, 2u) + atomicExch(g, 3u) + atomicMin(g, 4u) + atomicMax(g, 5u)
           + atomicInc(g, 6u) + atomicDec(g, 7u) + atomicCAS(g, 8u, 9u) + atomicAnd(g, 1u) + atomicOr(g, 2u)
           + atomicXor(g, 3u);
    w[0] = atomicAdd(w, 1ull) + atomicExch(w, 3ull) + atomicMin(w, 4ull) + atomicMax(w, 5ull) + atomicCAS(w, 8ull, 9ull)
           + atomicAnd(w, 1ull) + atomicOr(w, 2ull) + atomicXor(w, 3ull);
    s[0] = atomicAdd(s, 1) + atomicMin(s, 2) + atomicMax(s, 3) + atomicAdd_system(s, 1) + atomicAdd_block(s, 1);
    f[0] = atomicAdd(f, 1.0f) + atomicExch(f, 2.0f) + atomicAdd_system(f, 1.0f);
    e[0] = atomicAdd(e, 1.0) + atomicAdd_system(e, 1.0);
    atomicAdd(g, 1u);
    atomicAdd_system(g, 1u);
    atomicMax(s, 5);
    atomicOr(w, 5ull);
    atomicAdd(f, 1.0f);
    atomicAdd(e, 1.0);
    atomicInc(g, 5u);
    g[1] = atomicAdd(&own, 1u) + atomicCAS(&own, 1u, 2u) + atomicExch(&own, 1u) + (u32)atomicAdd(&own_wide, 1ull);
    atomicAdd(&own, 2u);
    atomicAdd(&own_float, 1.0f);
    f[1] = own_float;
    w[1] = atomicCAS_system(w, 1ull, 2ull) + atomicExch_system(w, 3ull);
    asm volatile("fence.sc.cta;" ::: "memory");
    asm volatile("fence.sc.gpu;" ::: "memory");
    asm volatile("fence.sc.sys;" ::: "memory");
    asm volatile("fence.acq_rel.cta;" ::: "memory");
    asm volatile("fence.acq_rel.gpu;" ::: "memory");
    asm volatile("fence.acq_rel.sys;" ::: "memory");
    asm volatile("st.mmio.relaxed.sys.global.u32 [%0], 1;" ::"l"(g) : "memory");
    asm volatile("ld.mmio.relaxed.sys.global.u32 %0, [%1];" : "=r"(own) : "l"(g) : "memory");
}

extern "C" __global__ void builtins(u32* g, u64* w) {
    __shared__ u32 own;
#define ALL_ORDERS(SCOPE)                                                                         \
    g[1] = __nv_atomic_load_n(g, __NV_ATOMIC_ACQUIRE, SCOPE);                                     \
    w[1] = __nv_atomic_load_n(w, __NV_ATOMIC_RELAXED, SCOPE);                                     \
    g[2] = __nv_atomic_load_n(g, __NV_ATOMIC_SEQ_CST, SCOPE);                                     \
    __nv_atomic_store_n(g, 1u, __NV_ATOMIC_RELEASE, SCOPE);                                       \
    __nv_atomic_store_n(w, 1ull, __NV_ATOMIC_RELAXED, SCOPE);                                     \
    __nv_atomic_store_n(g, 1u, __NV_ATOMIC_SEQ_CST, SCOPE);                                       \
    g[3] = __nv_atomic_fetch_add(g, 1u, __NV_ATOMIC_ACQ_REL, SCOPE);                              \
    g[4] = __nv_atomic_fetch_or(g, 1u, __NV_ATOMIC_ACQUIRE, SCOPE);                               \
    w[3] = __nv_atomic_fetch_add(w, 1ull, __NV_ATOMIC_RELEASE, SCOPE);                            \
    w[4] = __nv_atomic_fetch_max(w, 1ull, __NV_ATOMIC_RELAXED, SCOPE);                            \
    __nv_atomic_add(g, 1u, __NV_ATOMIC_RELEASE, SCOPE);                                           \
    __nv_atomic_add(&own, 1u, __NV_ATOMIC_RELAXED, SCOPE);                                        \
    g[5] = __nv_atomic_exchange_n(g, 7u, __NV_ATOMIC_ACQ_REL, SCOPE);                             \
    u32 expected##SCOPE = 1;                                                                      \
    g[6] = __nv_atomic_compare_exchange_n(g, &expected##SCOPE, 2u, false, __NV_ATOMIC_ACQ_REL,    \
                                          __NV_ATOMIC_ACQUIRE, SCOPE);                            \
    __nv_atomic_thread_fence(__NV_ATOMIC_ACQ_REL, SCOPE);                                         \
    __nv_atomic_thread_fence(__NV_ATOMIC_SEQ_CST, SCOPE);
    ALL_ORDERS(__NV_THREAD_SCOPE_BLOCK)
    ALL_ORDERS(__NV_THREAD_SCOPE_DEVICE)
    ALL_ORDERS(__NV_THREAD_SCOPE_SYSTEM)
}

extern "C" __global__ void warps(u32* o, u64* w, float* f, double* d) {
    const u32 t = threadIdx.x;
    o[0] = __shfl_sync(~0u, t, 3) + __shfl_up_sync(~0u, t, 1) + __shfl_down_sync(~0u, t, 2) + __shfl_xor_sync(~0u, t, 4, 8);
    f[0] = __shfl_xor_sync(~0u, f[t], 16);
    d[0] = __shfl_down_sync(~0u, d[t], 8);
    w[0] = __shfl_sync(~0u, w[t], 0);
    o[1] = __ballot_sync(~0u, t & 1) + __any_sync(~0u, t > 3) + __all_sync(~0u, t > 4) + __activemask();
    __syncwarp();
    o[2] = __match_any_sync(~0u, t & 3) + __match_any_sync(~0u, w[t]);
    int same;
    o[3] = __match_all_sync(~0u, o[t], &same) + same;
    o[4] = __reduce_add_sync(~0u, t) + __reduce_min_sync(~0u, t) + __reduce_max_sync(~0u, t) + __reduce_and_sync(~0u, t)
           + __reduce_or_sync(~0u, t) + __reduce_xor_sync(~0u, t);
    o[5] = __reduce_min_sync(~0u, (int)t) + __reduce_max_sync(~0u, (int)t) + __reduce_add_sync(~0u, (int)t);
    o[6] = __syncthreads_count(t & 1) + __syncthreads_or(t == 3) + __syncthreads_and(t < 40);
    asm volatile("bar.sync 1, 64;" ::: "memory");
    asm volatile("bar.arrive 2, 64;" ::: "memory");
    asm volatile("barrier.sync 3, 64;" ::: "memory");
    asm volatile("barrier.cta.sync.aligned 4;" ::: "memory");
    __nanosleep(t);
    u32 lane, below, warp, warps;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
    asm("mov.u32 %0, %%warpid;" : "=r"(warp));
    asm("mov.u32 %0, %%nwarpid;" : "=r"(warps));
    o[7] = lane + below + warp + warps + threadIdx.y + threadIdx.z + blockIdx.y + blockIdx.z + blockDim.y + blockDim.z
           + gridDim.y + gridDim.z + warpSize;
    w[1] = clock64() + clock();
    if (t == 1000) __trap();
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; elect.sync _|p, -1; selp.u32 %0, 1, 0, p; }" : "=r"(o[8]));
#endif
}

__device__ __noinline__ u32 helper(u32 a, u32 b) { return a / (b | 1) + 3; }

struct Arguments {
    u32 some[3];
    u64 other[2];
    u8 byte;
};

extern "C" __global__ void control(Arguments arguments, u32* o, int which, short h, u8 flag, float scale, double wide) {
    u32 local[16];
    for (int i = 0; i < 16; ++i) local[i] = o[i] + arguments.some[i % 3];
    switch (which) {
        case 0: o[0] = local[o[20] & 15]; break;
        case 1: o[1] = helper(o[3], which); break;
        case 2: atomicAdd(o + 3, 1u); break;
        case 3: o[4] = arguments.other[1] + arguments.byte; break;
        case 4: o[5] = __popc(o[1]); break;
        case 5: __syncthreads(); break;
        case 6: o[7] = h + flag; break;
        case 7: o[8] = scale * wide; break;
        default: o[9] = table[which & 3];
    }
    for (int i = 0; i < h; ++i) o[i + 30] = o[i + 60];
    if (flag) return;
    while (o[100] < 5) o[101] += local[o[101] & 15];
}

extern "C" __global__ void copies(char* o, const char* a, u64 bytes) {
    __shared__ __align__(128) char space[4096];
    __shared__ __align__(8) u64 barrier;
    const u32 to = (u32)__cvta_generic_to_shared(space), word = (u32)__cvta_generic_to_shared(&barrier);
    for (u64 i = threadIdx.x; i < bytes; i += blockDim.x) o[i] = a[i];
    memcpy(o + 4096, a, 64);
    memset(o + 8192, 0, 32);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(a) : "memory");
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + 16), "l"(a + 16) : "memory");
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(word) : "memory");
    asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(word) : "memory");
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(word) : "memory");
    __syncthreads();
    o[threadIdx.x] = space[threadIdx.x];
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .b64 s; .reg .pred p; mbarrier.arrive.expect_tx.shared::cta.b64 s, [%0], 64;"
                 " mbarrier.try_wait.shared::cta.b64 p, [%0], s; }" ::"r"(word) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 64, [%2];"
                 ::"r"(to), "l"(a), "r"(word) : "memory");
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; }" ::"r"(word) : "memory");
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%0], 0; }" ::"r"(word) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" ::"l"(o), "r"(to) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
