# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a simulated machine one thing through NVIDIA's binding, in a process of its own."""

from __future__ import annotations

import json

# ``run`` evaluates expressions in turn. In them n is the binding and gpu(i) a handle; structures become plain values
# and an NVML error its code as a text, "E<code>".
PRELUDE = """
import ctypes, json, sys, pynvml as n

def gpu(index):
    return n.nvmlDeviceGetHandleByIndex(index)

def plain(value):
    if isinstance(value, (ctypes.Structure, ctypes.Union)):
        return {field[0]: plain(getattr(value, field[0])) for field in value._fields_}
    if isinstance(value, ctypes.Array):
        return [plain(item) for item in value]
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, ctypes._Pointer):
        return "pointer"
    return value

results = []
if sys.argv[1] == "init":
    n.nvmlInit()
for expression in json.loads(sys.argv[2]):
    try:
        results.append(plain(eval(expression)))
    except n.NVMLError as error:
        results.append("E%d" % error.value)
print(json.dumps(results))
"""


def run(simulator, *expressions, init=True, **environment):
    """The values of the expressions, evaluated one after the other in one process."""
    return simulator.python(PRELUDE, "init" if init else "bare", json.dumps(expressions), **environment)


def ask(simulator, expression, **options):
    """The value of one expression."""
    return run(simulator, expression, **options)[0]
