# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NVML's error codes mean, with NVIDIA's own binding and no NVML."""

from __future__ import annotations

import os
import pickle
import time

import pytest

from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.call import (
    CODES,
    CallError,
    Gpu,
    Kind,
    Nvml,
    Reading,
    classify,
    missing,
)
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.identity import Identity
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.nvml.values import NotTold

pynvml = pytest.importorskip("pynvml", reason="needs nvidia-ml-py")
GPU = Identity(3, pci_address="0001:00:00.0")


def nvml(**arguments):
    return Nvml(pynvml, lambda *dummy: None, **arguments)


def test_every_error_code_of_the_binding_is_known_by_the_same_name():
    of_binding = {
        getattr(pynvml, name): name[len("NVML_ERROR_") :] for name in dir(pynvml) if name.startswith("NVML_ERROR_")
    }
    assert {code: entry[0] for code, entry in CODES.items()} == of_binding


@pytest.mark.parametrize("code", [3, 13, 25, 26])
def test_a_feature_that_is_not_there_is_absent(code):
    assert classify(code) is Kind.ABSENT


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (2, Kind.WRONG_VALUE),
        (4, Kind.PERMISSION),
        (9, Kind.DRIVER_NOT_LOADED),
        (12, Kind.NO_LIBRARY),
        (15, Kind.LOST),
        (16, Kind.RESET_REQUIRED),
        (18, Kind.DRIVER_MISMATCH),
        (19, Kind.IN_USE),
        (24, Kind.WRONG_VALUE),
        (999, Kind.FAILED),
        (12345, Kind.FAILED),
    ],
)
def test_kinds_of_failures(code, kind):
    assert classify(code) is kind


@pytest.mark.parametrize("code", sorted(CODES) + [12345])
def test_every_error_is_one_sentence_that_names_the_gpu_the_call_and_a_remedy(code):
    error = CallError.of_code(GPU.label, "nvmlDeviceSetEccMode", code)
    assert str(error).startswith("GPU 3 (0001:00:00.0): ")
    assert "nvmlDeviceSetEccMode" in str(error)
    assert error.remedy
    assert "\n" not in str(error) and str(error).endswith(".") and not str(error).endswith("..")


def test_a_call_error_survives_the_way_from_child_to_parent():
    error = CallError.of_code(GPU.label, "nvmlDeviceSetEccMode", 4)
    copy = pickle.loads(pickle.dumps(error))
    assert (str(copy), copy.kind, copy.call, copy.code) == (str(error), Kind.PERMISSION, "nvmlDeviceSetEccMode", 4)


def test_a_wrapper_that_the_binding_lacks_is_absent_and_named():
    reading = nvml().read("GPU 0", "nvmlDeviceGetWarpCore")
    assert reading.absent and reading.value is None
    assert reading.reason == "this version of NVIDIA's Python binding does not have nvmlDeviceGetWarpCore"


def test_the_constants_of_older_bindings_have_a_value_beside_them():
    assert nvml().constant("NVML_CLOCK_MEM", 0) == 2
    assert nvml().constant("NVML_NOT_YET_INVENTED", 77) == 77
    # The binding's own slip: a comma makes this one a tuple.
    assert nvml().constant("NVML_P2P_CAPS_INDEX_READ", 0) == 0


def test_after_the_deadline_no_call_is_made():
    with pytest.raises(CallError) as caught:
        nvml(deadline=time.monotonic() - 1).call("GPU 0", "nvmlDeviceGetName", None)
    assert caught.value.kind is Kind.OUT_OF_TIME


def test_the_first_way_that_gives_a_value_counts_and_else_the_reason_of_the_first():
    class Binding:
        NVMLError = pynvml.NVMLError

        @staticmethod
        def old(_handle):
            return 42

        @staticmethod
        def new(_handle):
            raise pynvml.NVMLError(13)

    gpu = Gpu(Nvml(Binding, lambda *dummy: None), None, GPU, {})
    assert gpu.first(("new",), ("old",)) == Reading(42)
    assert "(new: FUNCTION_NOT_FOUND)" in (gpu.first(("new",), ("newer",)).reason or "")


def test_an_error_of_the_binding_itself_is_a_reading_without_a_value():
    class Binding:
        NVMLError = pynvml.NVMLError

        @staticmethod
        def stumbles(_handle):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

        @staticmethod
        def mismatch(_handle):
            raise pynvml.NVMLLibraryMismatchError("no such symbol")

    gpu = Gpu(Nvml(Binding, lambda *dummy: None), None, GPU, {})
    assert gpu.read("stumbles").kind is Kind.FAILED
    assert gpu.read("mismatch").absent


def test_a_reading_that_cannot_be_converted_has_no_value_and_a_reason():
    def refuse(value):
        raise ValueError("not available")

    def empty(value):
        raise NotTold("empty")

    assert Reading(5).map(lambda value: value + 1) == Reading(6)
    assert Reading(5).map(refuse) == Reading(None, "the driver told no usable value (not available)", Kind.UNUSABLE)
    assert Reading(5).map(empty) == Reading(None, "the driver told no usable value (empty)", Kind.NO_DATA)
    assert Reading(float("inf")).map(int).kind is Kind.UNUSABLE
    assert missing("no such thing").map(refuse) == missing("no such thing")
    assert not Reading(5).map(refuse).ok


def test_root_of_a_container_is_told_what_is_missing_and_not_to_be_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert CallError.of_code("GPU 0", "nvmlDeviceSetPersistenceMode", 4).remedy.startswith("run it as root")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    told = CallError.of_code("GPU 0", "nvmlDeviceSetPersistenceMode", 4)
    assert "run it as root" not in str(told) and "device cgroup" in told.remedy and "on the node itself" in told.remedy


def test_a_gpu_that_is_lost_needs_a_reboot_and_no_reset():
    assert "reboot" in CallError.of_code("GPU 0", "nvmlDeviceGetName", 15).remedy
    assert "reset" not in CallError.of_code("GPU 0", "nvmlDeviceGetName", 15).remedy
    assert "nvidia-smi --gpu-reset" in CallError.of_code("GPU 0", "nvmlDeviceGetName", 16).remedy
