# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run PTX on a simulated GPU through libcuda.so.1 and ctypes alone, in a process of its own."""

from __future__ import annotations

import json

# What the code of a test can use in its process. A call returns CUDA's number; ``ok`` demands 0.
PRELUDE = r'''
import ctypes as C, json, struct, sys

cuda = C.CDLL("libcuda.so.1")
P, U32, U64, SIZE = C.c_void_p, C.c_uint32, C.c_uint64, C.c_size_t
for name in ("cuMemAlloc_v2", "cuMemcpyHtoD_v2", "cuMemcpyDtoH_v2", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2"):
    getattr(cuda, name).argtypes = None


def call(name, *arguments):
    return getattr(cuda, name)(*arguments)


def ok(name, *arguments):
    number = call(name, *arguments)
    assert number == 0, (name, number)


def context(index=0):
    handle = P()
    ok("cuDevicePrimaryCtxRetain", C.byref(handle), index)
    ok("cuCtxSetCurrent", handle)
    return handle


def begin(index=0):
    ok("cuInit", 0)
    return context(index)


def integer(name, *arguments):
    number = C.c_int()
    ok(name, C.byref(number), *arguments)
    return number.value


def memory(content):
    """The address of device memory with this content; a number: of so many bytes."""
    address, size = U64(), content if isinstance(content, int) else len(content)
    ok("cuMemAlloc_v2", C.byref(address), SIZE(size))
    if not isinstance(content, int):
        ok("cuMemcpyHtoD_v2", address, content, SIZE(size))
    return address.value


def read(address, size):
    target = C.create_string_buffer(size)
    ok("cuMemcpyDtoH_v2", target, U64(address), SIZE(size))
    return target.raw


def load(text):
    """(CUDA's number, module, what the log says)"""
    module, log = P(), C.create_string_buffer(2048)
    values = (P * 2)(C.cast(log, P), P(len(log)))
    number = call("cuModuleLoadDataEx", C.byref(module), text.encode(), 2, (C.c_int * 2)(5, 6), values)
    return number, module, log.value.decode()


def kernel(text, name="k"):
    number, module, log = load(text)
    assert number == 0, (number, log)
    function = P()
    ok("cuModuleGetFunction", C.byref(function), module, name.encode())
    return function


def launch(function, blocks, threads, *arguments, stream=None):
    pointers = (P * max(len(arguments), 1))(*(C.cast(C.pointer(one), P) for one in arguments))
    return call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream, pointers, None)


def wait():
    return call("cuCtxSynchronize")


def seconds(work, stream=None):
    events = P(), P()
    for event in events:
        ok("cuEventCreate", C.byref(event), 0)
    ok("cuEventRecord", events[0], stream)
    work()
    ok("cuEventRecord", events[1], stream)
    ok("cuEventSynchronize", events[1])
    elapsed = C.c_float()
    ok("cuEventElapsedTime", C.byref(elapsed), *events)
    return elapsed.value / 1e3


def module(body, parameters="", version="8.4", target="sm_80"):
    return (
        ".version {0}\n.target {1}\n.address_size 64\n.visible .entry k({2})\n{{\n{3}\nret;\n}}\n"
    ).format(version, target, parameters, body)


given = json.load(open(sys.argv[1]))
'''


def compute(simulator, code, given=None, **environment):
    """The JSON document that ``code`` prints; ``given`` is there under this name."""
    path = simulator.state / "given.json"
    path.write_text(json.dumps(given))
    return simulator.python(PRELUDE + code, str(path), **environment)
