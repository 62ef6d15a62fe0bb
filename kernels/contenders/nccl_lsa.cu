// NCCL's own barrier inside a kernel (LSA: all GPUs reach each other's memory), round after round.
// Compiled by nvcc against the headers of the NCCL that is loaded; called by pcietool/contenders/nccl_lsa.py.
#include <cuda_runtime.h>
#include <nccl.h>
#include <nccl_device.h>

#include <thread>
#include <vector>

namespace {

struct Rank {
    int device;
    ncclComm_t comm;
    ncclDevComm devcomm;
    cudaStream_t stream;
    unsigned long long* span;  // mapped host memory
};
std::vector<Rank> ranks;

__device__ unsigned long long timer_ns() {
    unsigned long long now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

template <cuda::memory_order ORDER>
__global__ void barriers(ncclDevComm devcomm, int rounds, unsigned long long* span) {
    ncclLsaBarrierSession<ncclCoopCta> barrier(ncclCoopCta(), devcomm, ncclTeamTagLsa(), 0);
    const unsigned long long began = timer_ns();
    for (int round = 0; round < rounds; ++round) barrier.sync(ncclCoopCta(), ORDER);
    if (threadIdx.x == 0) *span = timer_ns() - began;
}

int create(Rank& rank) {
    if (cudaSetDevice(rank.device)) return ncclUnhandledCudaError;
    if (cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking)) return ncclUnhandledCudaError;
    if (cudaHostAlloc(&rank.span, sizeof *rank.span, cudaHostAllocMapped)) return ncclUnhandledCudaError;
#ifdef NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER  // NCCL 2.29 and newer check a version in it
    ncclDevCommRequirements wanted = NCCL_DEV_COMM_REQUIREMENTS_INITIALIZER;
#else
    ncclDevCommRequirements wanted = {};
#endif
    wanted.lsaBarrierCount = 1;
    return ncclDevCommCreate(rank.comm, &wanted, &rank.devcomm);
}

}  // namespace

extern "C" int lsa_headers() { return NCCL_VERSION_CODE; }

// Device communicators for all ranks of this process; an ncclResult_t.
extern "C" int lsa_open(int count, const int* devices, ncclComm_t* comms) {
    ranks.assign(count, Rank{});
    std::vector<int> results(count);
    std::vector<std::thread> threads;  // it is collective
    for (int index = 0; index < count; ++index) {
        ranks[index].device = devices[index];
        ranks[index].comm = comms[index];
        threads.emplace_back([&results, index] { results[index] = create(ranks[index]); });
    }
    for (std::thread& thread : threads) thread.join();
    for (int result : results) {
        if (result) return result;
    }
    return 0;
}

// `spans_ns[rank]`: time of all rounds; a cudaError_t.
extern "C" int lsa_run(int relaxed, int threads, int rounds, unsigned long long* spans_ns) {
    const auto kernel = relaxed ? barriers<cuda::memory_order_relaxed> : barriers<cuda::memory_order_acq_rel>;
    for (const Rank& rank : ranks) {
        if (cudaError_t error = cudaSetDevice(rank.device)) return error;
        kernel<<<1, threads, 0, rank.stream>>>(rank.devcomm, rounds, rank.span);
        if (cudaError_t error = cudaGetLastError()) return error;
    }
    for (size_t index = 0; index < ranks.size(); ++index) {
        if (cudaError_t error = cudaStreamSynchronize(ranks[index].stream)) return error;
        spans_ns[index] = *ranks[index].span;
    }
    return 0;
}
