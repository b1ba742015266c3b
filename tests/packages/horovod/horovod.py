# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A stand-in for tests, and NOT Horovod: the ranks and the sum of Open MPI, and a timeline with Horovod's names."""

from __future__ import annotations

import ctypes
import json
import os

_mpi = ctypes.CDLL("libmpi.so.40", ctypes.RTLD_GLOBAL)
_world = ctypes.byref(ctypes.c_char.in_dll(_mpi, "ompi_mpi_comm_world"))


def _number(call):
    value = ctypes.c_int()
    getattr(_mpi, call)(_world, ctypes.byref(value))
    return value.value


def init():
    _mpi.MPI_Init(None, None)
    path = os.environ.get("HOROVOD_TIMELINE")
    if path and rank() == 0:
        events = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad"}}]
        phases = ((0, 300, "NEGOTIATE_ALLREDUCE"), (300, 1000, "ALLREDUCE"), (400, 900, "MPI_ALLREDUCE"))
        for start, end, name in phases:
            events += [{"ph": "B", "name": name, "ts": start, "pid": 1}, {"ph": "E", "ts": end, "pid": 1}]
        events.sort(key=lambda one: one.get("ts", 0))
        with open(path, "w") as stream:
            stream.write("[\n" + ",\n".join(map(json.dumps, events)) + ",\n")


def rank():
    return _number("MPI_Comm_rank")


def size():
    return _number("MPI_Comm_size")


def local_rank():
    """The rank among those that share memory."""
    here, none = ctypes.c_void_p(), ctypes.byref(ctypes.c_char.in_dll(_mpi, "ompi_mpi_info_null"))
    _mpi.MPI_Comm_split_type(_world, 0, 0, none, ctypes.byref(here))
    value = ctypes.c_int()
    _mpi.MPI_Comm_rank(here, ctypes.byref(value))
    return value.value


def allreduce(value):
    given, summed = ctypes.c_double(value), ctypes.c_double()
    double, add = (ctypes.byref(ctypes.c_char.in_dll(_mpi, "ompi_mpi_" + name)) for name in ("double", "op_sum"))
    _mpi.MPI_Allreduce(ctypes.byref(given), ctypes.byref(summed), 1, double, add, _world)
    return summed.value


def shutdown():
    _mpi.MPI_Finalize()
