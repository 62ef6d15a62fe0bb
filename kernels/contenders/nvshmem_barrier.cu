// NVSHMEM's barriers, inside a kernel and on a stream; one process a GPU.
// Compiled by nvcc with the wheel's headers and device library; called by pcietool/contenders/nvshmem.py.
#include <cuda_runtime.h>
#include <nvshmem.h>
#include <nvshmemx.h>

#include <cstring>

namespace {

cudaStream_t stream;
cudaEvent_t began, ended;
unsigned long long* span;  // mapped host memory

__device__ unsigned long long timer_ns() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

__global__ void syncs(int rounds, unsigned long long* span) {
    const unsigned long long start = timer_ns();
    for (int round = 0; round < rounds; ++round) nvshmemx_sync_all_block();
    if (threadIdx.x == 0) *span = timer_ns() - start;
}

__global__ void barriers(int rounds, unsigned long long* span) {
    const unsigned long long start = timer_ns();
    for (int round = 0; round < rounds; ++round) nvshmemx_barrier_all_block();
    if (threadIdx.x == 0) *span = timer_ns() - start;
}

}  // namespace

extern "C" int shmem_token_bytes() { return sizeof(nvshmemx_uniqueid_t); }

extern "C" int shmem_token(void* token) {
    nvshmemx_uniqueid_t id = NVSHMEMX_UNIQUEID_INITIALIZER;
    const int error = nvshmemx_get_uniqueid(&id);
    std::memcpy(token, &id, sizeof id);
    return error;
}

extern "C" int shmem_open(int device, int rank, int world, const void* token) {
    if (cudaSetDevice(device)) return -1;
    nvshmemx_uniqueid_t id;
    std::memcpy(&id, token, sizeof id);
    nvshmemx_init_attr_t attributes = NVSHMEMX_INIT_ATTR_INITIALIZER;
    nvshmemx_set_attr_uniqueid_args(rank, world, &id, &attributes);
    if (const int error = nvshmemx_init_attr(NVSHMEMX_INIT_WITH_UNIQUEID, &attributes)) return error;
    if (cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)) return -2;
    if (cudaEventCreate(&began) || cudaEventCreate(&ended)) return -2;
    return cudaHostAlloc(&span, sizeof *span, cudaHostAllocMapped) ? -2 : 0;
}

extern "C" void shmem_version(int* major, int* minor, int* patch) {
    nvshmemx_vendor_get_version_info(major, minor, patch);
}

// Time of all rounds in one kernel. Collective: every process calls it with the same arguments.
extern "C" int shmem_in_kernel(int is_sync, int threads, int rounds, unsigned long long* span_ns) {
    void* arguments[] = {&rounds, &span};
    const void* kernel = is_sync ? reinterpret_cast<const void*>(syncs) : reinterpret_cast<const void*>(barriers);
    nvshmem_barrier_all();
    if (const int error = nvshmemx_collective_launch(kernel, dim3(1), dim3(threads), arguments, 0, stream))
        return error;
    const cudaError_t error = cudaStreamSynchronize(stream);
    *span_ns = *span;
    return error;
}

// Microseconds of one of `count` barriers on the stream, back to back.
extern "C" int shmem_on_stream(int count, float* each_us) {
    nvshmem_barrier_all();
    cudaEventRecord(began, stream);
    for (int index = 0; index < count; ++index) nvshmemx_barrier_all_on_stream(stream);
    cudaEventRecord(ended, stream);
    if (cudaError_t error = cudaEventSynchronize(ended)) return error;
    float elapsed_ms = 0;
    const cudaError_t error = cudaEventElapsedTime(&elapsed_ms, began, ended);
    *each_us = elapsed_ms * 1e3f / count;
    return error;
}

extern "C" void shmem_close() { nvshmem_finalize(); }
