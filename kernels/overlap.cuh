// For kernels that may start while the launch before them still runs: programmatic dependent launch, which exists from
// compute capability 9.0 on. Before that, and when a launch was not made so, both calls do nothing.
#pragma once

// Once all blocks of this grid have called it or ended, the next launch may start. So that grid never takes the place
// of blocks of this one that others wait for.
__device__ __forceinline__ void let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Returns when the launch before has ended and all that it wrote is visible. Nothing that a launch may write can be
// read, and nothing that it may read can be written, before this.
__device__ __forceinline__ void wait_for_previous_launch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
