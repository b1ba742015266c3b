/* Copyright (c) 2026, trainyard.gpu_node contributors
 * GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later */
/* The calls of libcuda.so.1, for the loader and for `nvml-simulator fault call`. */
#ifndef CUDA_ENTRY_POINTS_H
#define CUDA_ENTRY_POINTS_H

#include <stddef.h>

static const char *const cuda_entry_points[] = {
    "cuCtxCreate_v2", "cuCtxDestroy_v2", "cuCtxDisablePeerAccess", "cuCtxEnablePeerAccess", "cuCtxGetCurrent", "cuCtxGetDevice", "cuCtxSetCurrent", "cuCtxSynchronize",
    "cuDeviceCanAccessPeer", "cuDeviceGet", "cuDeviceGetAttribute", "cuDeviceGetCount", "cuDeviceGetName", "cuDeviceGetPCIBusId", "cuDeviceGetUuid",
    "cuDevicePrimaryCtxRelease_v2", "cuDevicePrimaryCtxReset_v2", "cuDevicePrimaryCtxRetain", "cuDeviceTotalMem_v2", "cuDriverGetVersion", "cuEventCreate", "cuEventDestroy_v2",
    "cuEventElapsedTime", "cuEventQuery", "cuEventRecord", "cuEventSynchronize", "cuGetErrorName", "cuInit", "cuLaunchKernel", "cuMemAlloc_v2", "cuMemFreeHost",
    "cuMemFree_v2", "cuMemGetInfo_v2", "cuMemHostAlloc", "cuMemcpyDtoDAsync_v2", "cuMemcpyDtoD_v2", "cuMemcpyDtoHAsync_v2", "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2",
    "cuMemcpyHtoD_v2", "cuMemcpyPeer", "cuMemcpyPeerAsync", "cuMemsetD32Async", "cuMemsetD32_v2", "cuMemsetD8Async", "cuMemsetD8_v2", "cuModuleGetFunction",
    "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleUnload", "cuStreamCreate", "cuStreamDestroy_v2", "cuStreamQuery", "cuStreamSynchronize", "cuStreamWaitEvent", NULL,
};

#endif
