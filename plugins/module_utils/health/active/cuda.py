# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few calls of the CUDA driver library (libcuda.so.1) that measurements need, through ctypes.

The library comes with the driver, so it is on every GPU node; no toolkit and no compiler is needed. Everything here
runs in a child process (:mod:`apart`): a call may hang, and a context must not outlive its measurement.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any, Callable, List, Sequence, Tuple, Union

from ...core.resource import NodeError
from ..data.tools import CUDA_FAULTS, PTX_REFUSED

LIBRARY = "libcuda.so.1"
_PORTABLE = 1  # CU_MEMHOSTALLOC_PORTABLE
_OUT_OF_MEMORY = 2
_ALREADY_ENABLED = 704  # CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED
#: CUDA_ERROR_TOO_MANY_PEERS: a GPU has eight peers at the most, unless it is behind NVSwitches.
TOO_MANY_PEERS = 711
_POINTER, _SIZE, _DEVICE, _INT, _UINT = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_int, ctypes.c_uint
Kernel = ctypes.c_void_p
Argument = Union[ctypes.c_uint32, ctypes.c_uint64]
# CUdevice_attribute and CUjit_option
_MULTIPROCESSORS, _CACHE_BYTES, _CAPABILITY_MAJOR, _CAPABILITY_MINOR = 16, 38, 75, 76
_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES, _LOG_BYTES = 5, 6, 4096
# Those with a _v2 have had 64-bit sizes since CUDA 3.2; the name without it is the old call.
_CALLS = {
    "cuInit": (_UINT,),
    "cuDeviceGetCount": (_POINTER,),
    "cuDeviceGet": (_POINTER, _INT),
    "cuDeviceGetPCIBusId": (_POINTER, _INT, _INT),
    "cuDeviceCanAccessPeer": (_POINTER, _INT, _INT),
    "cuDeviceGetAttribute": (_POINTER, _INT, _INT),
    "cuDevicePrimaryCtxRetain": (_POINTER, _INT),
    "cuCtxSetCurrent": (_POINTER,),
    "cuCtxEnablePeerAccess": (_POINTER, _UINT),
    "cuMemGetInfo_v2": (_POINTER, _POINTER),
    "cuMemAlloc_v2": (_POINTER, _SIZE),
    "cuMemFree_v2": (_DEVICE,),
    "cuMemHostAlloc": (_POINTER, _SIZE, _UINT),
    "cuMemFreeHost": (_POINTER,),
    "cuMemcpyHtoDAsync_v2": (_DEVICE, _POINTER, _SIZE, _POINTER),
    "cuMemcpyDtoHAsync_v2": (_POINTER, _DEVICE, _SIZE, _POINTER),
    "cuMemcpyDtoDAsync_v2": (_DEVICE, _DEVICE, _SIZE, _POINTER),
    "cuMemcpyPeerAsync": (_DEVICE, _POINTER, _DEVICE, _POINTER, _SIZE, _POINTER),
    "cuMemsetD32Async": (_DEVICE, _UINT, _SIZE, _POINTER),
    "cuModuleLoadDataEx": (_POINTER, ctypes.c_char_p, _UINT, _POINTER, _POINTER),
    "cuModuleGetFunction": (_POINTER, _POINTER, ctypes.c_char_p),
    "cuLaunchKernel": (_POINTER, *(_UINT,) * 7, _POINTER, _POINTER, _POINTER),
    "cuStreamCreate": (_POINTER, _UINT),
    "cuStreamSynchronize": (_POINTER,),
    "cuEventCreate": (_POINTER, _UINT),
    "cuEventRecord": (_POINTER, _POINTER),
    "cuEventSynchronize": (_POINTER,),
    "cuEventElapsedTime": (_POINTER, _POINTER, _POINTER),
}


class CudaError(NodeError):
    """A call that failed. ``fault``: what to do (a value of ``Remedy``), where it tells of the machine; ``code``."""

    def __init__(self, call: str, result: int) -> None:
        known = CUDA_FAULTS.get(result)
        reason = known.reason if known else "the CUDA driver refused it"
        remedy = known.remedy if known else "look at the kernel log, and at the driver with nvidia-smi"
        name = " ({0})".format(known.name) if known else ""
        super().__init__("CUDA", "{0}: {1} gave error {2}{3}".format(reason, call, result, name), remedy)
        self.call, self.result = call, result
        self.fault = known.action if known else None
        self.code = "cuda_{0}".format(result)

    def __reduce__(self) -> Any:
        return type(self), (self.call, self.result)


class PtxRefused(CudaError):
    """The driver does not accept a PTX text: it is too old for it, or has no compiler. The GPU itself is not at fault.

    ``log``: the first line of the compiler's log, or empty.
    """

    def __init__(self, call: str, result: int, log: str = "") -> None:
        super().__init__(call, result)
        said = " ({0})".format(log) if log else ""
        self.reason = "the driver does not accept the PTX: {0} gave error {1}{2}".format(call, result, said)
        self.remedy = "install a newer NVIDIA driver, with its library libnvidia-ptxjitcompiler"
        self.log = log

    def __reduce__(self) -> Any:
        return type(self), (self.call, self.result, self.log)


class Cuda:
    """The library, opened. Devices are numbered in the order of PCI addresses (see ``apart.environment``)."""

    def __init__(self, library: str = LIBRARY) -> None:
        """:raises NodeError: when it is not there, or there is no usable GPU."""
        try:
            self._library = ctypes.CDLL(library)
        except OSError as error:
            raise NodeError(library, "it cannot be loaded ({0})".format(error), "install NVIDIA's driver") from error
        for name, types in _CALLS.items():
            try:
                function = getattr(self._library, name)
            except AttributeError as error:
                raise NodeError(library, "it has no {0}".format(name), "install a newer driver") from error
            function.argtypes, function.restype = types, _INT
        self.call("cuInit", 0)

    def call(self, name: str, *arguments: Any) -> None:
        """:raises CudaError: when it does not return CUDA_SUCCESS."""
        result = getattr(self._library, name)(*arguments)
        if result:
            raise CudaError(name, result)

    def count(self) -> int:
        number = _INT()
        self.call("cuDeviceGetCount", ctypes.byref(number))
        return number.value

    def shows(self, count: int) -> None:
        """:raises NodeError: when it shows another number of GPUs than that, as after one was lost."""
        seen = self.count()
        if seen != count:
            reason = "it shows {0} of {1} GPUs".format(seen, count) if seen else "it shows no GPU"
            raise NodeError("CUDA", reason, "look at nvidia-smi and the kernel log")

    def pci_address(self, device: int) -> str:
        text = ctypes.create_string_buffer(32)
        self.call("cuDeviceGetPCIBusId", text, len(text), device)
        return text.value.decode("ascii", "replace")

    def open(self, index: int) -> Device:
        number, context = _INT(), _POINTER()
        self.call("cuDeviceGet", ctypes.byref(number), index)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
        return Device(self, number.value, context)

    def host_memory(self, size: int) -> int:
        """The address of pinned memory, of the NUMA node that this process is bound to."""
        pointer = _POINTER()
        self.call("cuMemHostAlloc", ctypes.byref(pointer), size, _PORTABLE)
        return int(pointer.value or 0)


class Device:
    """One GPU with its primary context. Each call makes that context the current one first."""

    def __init__(self, cuda: Cuda, number: int, context: ctypes.c_void_p) -> None:
        self.cuda = cuda
        self.number = number
        self.context = context
        self._stream, self._events = _POINTER(), (_POINTER(), _POINTER())
        self._use()
        cuda.call("cuStreamCreate", ctypes.byref(self._stream), 1)  # CU_STREAM_NON_BLOCKING
        for event in self._events:
            cuda.call("cuEventCreate", ctypes.byref(event), 0)

    def _use(self) -> None:
        self.cuda.call("cuCtxSetCurrent", self.context)

    def attribute(self, number: int) -> int:
        """A value of the enumeration CUdevice_attribute."""
        value = _INT()
        self.cuda.call("cuDeviceGetAttribute", ctypes.byref(value), number, self.number)
        return value.value

    @property
    def multiprocessors(self) -> int:
        return self.attribute(_MULTIPROCESSORS)

    @property
    def cache_bytes(self) -> int:
        """The size of its L2 cache."""
        return self.attribute(_CACHE_BYTES)

    @property
    def capability(self) -> Tuple[int, int]:
        """(9, 0) for Hopper."""
        return self.attribute(_CAPABILITY_MAJOR), self.attribute(_CAPABILITY_MINOR)

    def kernels(self, text: str, names: Sequence[str]) -> List[Kernel]:
        """The driver compiles the PTX ``text`` for this GPU: about 0.1 s.

        :raises PtxRefused: the driver does not accept it; the reason has the first line of its log.
        :raises CudaError: anything else failed.
        """
        module, log = _POINTER(), ctypes.create_string_buffer(_LOG_BYTES)
        options = (_INT * 2)(_JIT_ERROR_LOG, _JIT_ERROR_LOG_BYTES)
        values = (_POINTER * 2)(ctypes.cast(log, _POINTER), _POINTER(_LOG_BYTES))
        self._use()
        try:
            self.cuda.call("cuModuleLoadDataEx", ctypes.byref(module), text.encode("ascii"), 2, options, values)
        except CudaError as error:
            if error.result not in PTX_REFUSED:
                raise
            said = log.value.decode("ascii", "replace").strip().splitlines()
            refused = PtxRefused(error.call, error.result, said[0].strip()[:200] if said else "")
            raise refused from error  # pylint: disable=bad-exception-cause  # CudaError is an exception
        return [self._kernel(module, name) for name in names]

    def _kernel(self, module: ctypes.c_void_p, name: str) -> Kernel:
        function = _POINTER()
        self.cuda.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode("ascii"))
        return function

    def launch(self, kernel: Kernel, blocks: int, threads: int, *arguments: Argument) -> None:
        """Start ``blocks`` × ``threads`` threads of it, after what was asked of this device before; not waited for.

        Each argument is a ctypes object of the type that the kernel declares.
        """
        pointers = (_POINTER * len(arguments))(*(ctypes.cast(ctypes.pointer(one), _POINTER) for one in arguments))
        self._use()
        self.cuda.call("cuLaunchKernel", kernel, blocks, 1, 1, threads, 1, 1, 0, self._stream, pointers, None)

    def wait(self) -> None:
        """Until all that was asked of this device is done.

        :raises CudaError: also for a kernel that failed, as by an illegal address.
        """
        self._use()
        self.cuda.call("cuStreamSynchronize", self._stream)

    def fill(self, pointer: int, word: int, words: int) -> None:
        """Write a 32-bit word ``words`` times, not waited for."""
        self._use()
        self.cuda.call("cuMemsetD32Async", pointer, word, words, self._stream)

    def read(self, pointer: int, size: int) -> bytes:
        """``size`` bytes of its memory, after all that was asked of this device before."""
        target = ctypes.create_string_buffer(size)
        self.copy_from(ctypes.addressof(target), pointer, size)
        return target.raw

    def memory_sizes(self) -> Tuple[int, int]:
        """(free, total) bytes of its memory."""
        free, total = _SIZE(), _SIZE()
        self._use()
        self.cuda.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def memory(self, size: int) -> int:
        pointer = _DEVICE()
        self._use()
        self.cuda.call("cuMemAlloc_v2", ctypes.byref(pointer), size)
        return pointer.value

    def all_memory(self, largest: int, smallest: int, keep_free: int) -> List[Tuple[int, int]]:
        """(address, bytes) of pieces that take all its memory but ``keep_free`` bytes.

        Pieces have ``largest`` bytes; where no such piece is left, half of that, and so on down to ``smallest``.
        """
        pieces: List[Tuple[int, int]] = []
        size = largest
        while size >= smallest:
            if self.memory_sizes()[0] >= size + keep_free:
                try:
                    pieces.append((self.memory(size), size))
                    continue
                except CudaError as error:
                    if error.result != _OUT_OF_MEMORY:
                        raise
            size //= 2
        return pieces

    def release(self, pointer: int) -> None:
        self._use()
        self.cuda.call("cuMemFree_v2", pointer)

    def copy_from(self, host: int, pointer: int, size: int) -> None:
        self._use()
        self.cuda.call("cuMemcpyDtoHAsync_v2", host, pointer, size, self._stream)
        self.cuda.call("cuStreamSynchronize", self._stream)

    def copy_to(self, pointer: int, host: int, size: int) -> None:
        self._use()
        self.cuda.call("cuMemcpyHtoDAsync_v2", pointer, host, size, self._stream)
        self.cuda.call("cuStreamSynchronize", self._stream)

    def copy_within(self, pointer: int, source: int, size: int) -> None:
        """From one place of its memory to another, not waited for: later copies of this device come after it."""
        self._use()
        self.cuda.call("cuMemcpyDtoDAsync_v2", pointer, source, size, self._stream)

    def reaches(self, other: Device) -> bool:
        """Whether this GPU can read the memory of another one by itself."""
        possible = _INT()
        self.cuda.call("cuDeviceCanAccessPeer", ctypes.byref(possible), self.number, other.number)
        if not possible.value:
            return False
        self._use()
        try:
            self.cuda.call("cuCtxEnablePeerAccess", other.context, 0)
        except CudaError as error:
            if error.result != _ALREADY_ENABLED:
                raise
        return True

    def seconds_of(self, work: Callable[[], None]) -> float:
        """How long the GPU takes for all that ``work`` asks of this device, by the clock of the GPU.

        :raises NodeError: its clock shows no time.
        :raises CudaError: a call or a kernel of it failed.
        """
        self.start()
        work()
        self.stop()
        return self.elapsed()

    def start(self) -> None:
        """Begin to measure the time of what is asked of this device from now on, until :meth:`stop`."""
        self._use()
        self.cuda.call("cuEventRecord", self._events[0], self._stream)

    def stop(self) -> None:
        self._use()
        self.cuda.call("cuEventRecord", self._events[1], self._stream)

    def elapsed(self) -> float:
        """Seconds between the two by the clock of the GPU, when all of it is done. Raises as :meth:`seconds_of`."""
        self._use()
        begin, end = self._events
        self.cuda.call("cuEventSynchronize", end)
        elapsed = ctypes.c_float()
        self.cuda.call("cuEventElapsedTime", ctypes.byref(elapsed), begin, end)
        if math.isnan(elapsed.value) or elapsed.value <= 0:
            raise NodeError("CUDA", "its clock shows no time", "run it again")
        return float(elapsed.value) / 1e3

    def ask(self, name: str, *arguments: Any) -> None:
        """Call an asynchronous function of the driver on the stream of this device."""
        self._use()
        self.cuda.call(name, *arguments, self._stream)
