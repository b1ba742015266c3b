# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether the parts of NVIDIA's driver fit each other, the kernel and the GPUs. Pure."""

from __future__ import annotations

import fnmatch
from typing import Optional, Tuple

from . import data
from .problem import FAIL, WARN, Problem, Told
from .types import OPEN, Driver, Image
from .version import major


def library(image: Image) -> Told:
    driver = image.driver
    kernel = driver.loaded or driver.module
    if kernel and driver.library and kernel != driver.library:
        where = "in the kernel" if driver.loaded else "for the running kernel"
        yield Problem(
            "driver_library",
            FAIL,
            "NVIDIA's driver",
            "its libraries are of {0}, and its module {1} is of {2}".format(driver.library, where, kernel),
            "reboot where the driver was just updated, otherwise install both of one version",
        )


def _needs_module(image: Image) -> bool:
    driver = image.driver
    return bool(driver.library) and driver.loaded is None and driver.module_path is None


def module(image: Image) -> Told:
    if _needs_module(image) and not any(_is_nvidia(one.module) for one in image.dkms) and image.kernel:
        yield Problem(
            "driver_module",
            FAIL,
            "NVIDIA's driver",
            "its libraries are of {0}, and kernel {1} has no module nvidia".format(image.driver.library, image.kernel),
            "install the driver's modules for this kernel",
        )


def dkms(image: Image) -> Told:
    for one in image.dkms:
        if one.kernel or not image.kernel:
            continue
        # A module that is loaded is there, wherever it came from.
        if _is_nvidia(one.module) and (image.driver.module_path is not None or image.driver.loaded is not None):
            continue
        needed = any(fnmatch.fnmatchcase(one.module, pattern) for pattern in data.DKMS_NEEDED)
        yield Problem(
            "dkms",
            FAIL if needed else WARN,
            "DKMS module {0}".format(one.module),
            "{0} was not built for the running kernel {1}".format(one.version, image.kernel),
            "install the headers of that kernel, then run 'dkms autoinstall -k {0}'".format(image.kernel),
            one.module,
        )


def _is_nvidia(module: str) -> bool:
    return module.split("-")[0] == "nvidia" and "peermem" not in module and "fs" not in module.split("-")


def next_kernel(image: Image) -> Told:
    driver = image.driver
    if driver.version is None or image.next_has_driver or image.next_kernel is None or _needs_module(image):
        return
    by_dkms = any(_is_nvidia(one.module) for one in image.dkms)
    # The loaded module has no file if a container loaded it, or after DKMS failed to build a new version.
    if driver.loaded and driver.module_path is None and (driver.contained or not by_dkms or driver.library is None):
        return
    remedy = "install the headers of that kernel, then run 'dkms autoinstall -k {0}'".format(image.next_kernel)
    if not by_dkms:
        remedy = "install the modules of the driver for that kernel"
    if image.next_kernel != image.kernel and driver.module_path is not None:
        remedy += ", or keep the boot loader at {0}".format(image.kernel or "the running kernel")
    yield Problem(
        "next_kernel",
        WARN,
        "kernel {0}".format(image.next_kernel),
        "it is the newest one to boot, and has no module nvidia, so the driver does not load after the next boot",
        remedy,
    )


def _generation(device: str) -> Optional[data.Generation]:
    vendor, dummy, number = device.partition(":")
    try:
        found = int(number, 16)
    except ValueError:
        return None
    return next((one for one in data.GENERATIONS if vendor == "10de" and one.first <= found <= one.last), None)


def _generations(image: Image) -> Tuple[data.Generation, ...]:
    """Of GPUs that the loaded driver has accepted nothing needs to be concluded from tables."""
    ids = [one for one in image.gpu_ids if one not in image.gpus_driven]
    found = [one for one in map(_generation, ids) if one is not None]
    return tuple(dict.fromkeys(found))


def module_kind(image: Image) -> Told:
    for one in _generations(image):
        kind = image.driver.kind
        if one.kind and kind is not None and kind != one.kind and not _beyond(one, image.driver):
            yield Problem(
                "module_kind",
                FAIL,
                "NVIDIA's driver",
                "its kernel module is the {0} one, and GPUs of {1} work with the {2} one only".format(
                    kind, one.name, one.kind
                ),
                "install the {0} kernel modules of {1}".format(one.kind, image.driver.version or "this version"),
                one.name,
            )


def _beyond(one: data.Generation, driver: Driver) -> bool:
    """A newer branch has the open module only, so the branch is what is to be told."""
    return bool(one.last_branch and driver.version and major(driver.version) > one.last_branch)


def last_branch(image: Image) -> Told:
    for one in _generations(image):
        if _beyond(one, image.driver):
            yield Problem(
                "last_branch",
                FAIL,
                "NVIDIA's driver",
                "it is of {0}, and {1} is the last branch for GPUs of {2}".format(
                    image.driver.version, one.last_branch, one.name
                ),
                "install a driver of branch {0}, and keep updates of the distribution from replacing it".format(
                    one.last_branch
                ),
                one.name,
            )


def firmware(image: Image) -> Told:
    driver = image.driver
    if driver.kind == OPEN and driver.version and not driver.firmware:
        yield Problem(
            "gsp_firmware",
            FAIL,
            "NVIDIA's driver",
            "its open kernel module needs GSP firmware, and /lib/firmware/nvidia/{0} has none".format(driver.version),
            "install the firmware package of the driver (nvidia-firmware) in the same version",
        )


def nouveau(image: Image) -> Told:
    if image.driver.nouveau:
        yield Problem(
            "nouveau",
            FAIL,
            "module nouveau",
            "it is loaded, so NVIDIA's driver cannot take the GPUs",
            "add 'blacklist nouveau' to a file in /etc/modprobe.d, make the initramfs anew, then reboot",
        )


def fabric_manager(image: Image) -> Told:
    driver = image.driver
    version = driver.version
    if driver.other_manager or (image.gpu_ids and not image.nvswitches):
        return  # the installed one does not run here, or has nothing to do
    if version and driver.fabric_manager and driver.fabric_manager != version:
        yield Problem(
            "fabric_manager",
            FAIL,
            "Fabric Manager",
            "it is of {0}, and the driver is of {1}: it does not start".format(driver.fabric_manager, version),
            "install nvidia-fabricmanager of {0}".format(version),
        )
    elif version and image.nvswitches and not driver.fabric_manager and driver.fabric_manager_path is None:
        yield Problem(
            "fabric_manager",
            FAIL,
            "Fabric Manager",
            "this machine has NVSwitches, and it is not installed",
            "install nvidia-fabricmanager of {0}".format(version),
        )
