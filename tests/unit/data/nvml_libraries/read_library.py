# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a libnvidia-ml.so.1 tells without a driver: error strings, and the answers to calls before nvmlInit.

    python read_library.py /path/to/libnvidia-ml.so.1

The tests run it on the simulator; ``libraries.json`` holds what it told of NVIDIA's own libraries, which Debian has
(section non-free) and which must not be copied here. To add one: unpack its package and run this on the library.
"""

from __future__ import annotations

import ctypes
import json
import sys

CODES = list(range(31)) + [999]


def texts(library):
    library.nvmlErrorString.restype = ctypes.c_char_p
    return {str(code): library.nvmlErrorString(code).decode() for code in CODES}


def version(library, name, size=80):
    """The code of a call that tells a version as text, and the text."""
    text = ctypes.create_string_buffer(b"untouched", 80)
    code = getattr(library, name)(text, ctypes.c_uint(size))
    return [code, text.value.decode() if code == 0 else ""]


def calls(library):
    """Calls that a program makes before nvmlInit, or after one that failed."""
    number = ctypes.c_uint(0)
    handle = ctypes.c_void_p()
    return {
        "nvmlSystemGetDriverVersion": version(library, "nvmlSystemGetDriverVersion"),
        "nvmlSystemGetNVMLVersion": version(library, "nvmlSystemGetNVMLVersion"),
        "nvmlSystemGetNVMLVersion, no room": version(library, "nvmlSystemGetNVMLVersion", 3),
        "nvmlSystemGetNVMLVersion, no buffer": [library.nvmlSystemGetNVMLVersion(None, 80)],
        "nvmlSystemGetCudaDriverVersion_v2": [library.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(number))],
        "nvmlSystemGetCudaDriverVersion, no buffer": [library.nvmlSystemGetCudaDriverVersion(None)],
        "nvmlDeviceGetCount_v2": [library.nvmlDeviceGetCount_v2(ctypes.byref(number))],
        "nvmlDeviceGetCount_v2, no buffer": [library.nvmlDeviceGetCount_v2(None)],
        "nvmlDeviceGetHandleByIndex_v2": [library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle))],
        "nvmlEventSetCreate": [library.nvmlEventSetCreate(ctypes.byref(handle))],
        "nvmlShutdown": [library.nvmlShutdown(), library.nvmlShutdown()],
    }


def read(path):
    library = ctypes.CDLL(path)
    before = calls(library)
    init = {name: getattr(library, name)() for name in ("nvmlInit", "nvmlInit_v2")}
    init["nvmlInitWithFlags"] = library.nvmlInitWithFlags(ctypes.c_uint(0))
    return {"texts": texts(library), "before_init": before, "init": init, "after_failed_init": calls(library)}


if __name__ == "__main__":
    print(json.dumps(read(sys.argv[1])))
