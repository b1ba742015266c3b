# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How users, Slurm and CUDA name GPUs: index, UUID, PCI address, lists, ``all``. The only parser of it. Pure."""

from __future__ import annotations

import itertools
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Type

from ...core.resource import Misuse, NodeError, Refusal
from .identity import Identity, normalise_pci_address

ALL = "all"
#: Whole numbers that can only be indexes: of an address such as 1:00 YAML makes 60, and of others more.
INDEX = (0, 31)
# The longest name of a GPU, its UUID, has 40 characters.
_LONGEST = 64
# What slurmd writes where a job has GPUs and gres.conf names no device files.
_NO_DEVICES = ("NoDevFiles", "N/A")


def parse(given: Any, thing: str) -> Tuple[str, ...]:
    """What an option or the command line has: ``0,1``, ``[0, "GPU-…"]``, ``all``; None is all. ``thing``: for errors.

    :raises Misuse: it names no GPU.
    """
    if given is None:
        return (ALL,)
    values = list(given) if isinstance(given, (list, tuple)) else [given]
    if not values:
        raise Misuse(thing, "the list is empty", "name GPUs, or use all")
    found = tuple(word for value in values for word in _words(value, thing))
    if ALL in found and len(found) > 1:
        raise Misuse(thing, "all stands beside single GPUs", "use all alone, or name GPUs")
    return found


def parse_one(given: Any, thing: str) -> str:
    """:raises Misuse: it does not name one GPU."""
    found = () if given is None else parse(given, thing)
    if len(found) != 1 or found == (ALL,):
        raise Misuse(thing, "{0} is not one GPU".format(given), "name the GPU by index, UUID or PCI address")
    return found[0]


def _words(value: Any, thing: str) -> List[str]:
    words = [word.strip() for word in str(value).split(",")]
    known = isinstance(value, (int, str)) and not isinstance(value, bool)
    if not known or not all(0 < len(word) <= _LONGEST for word in words):
        raise Misuse(thing, "{0!r} names no GPU".format(value), "use an index, a UUID or a PCI address")
    return words


def identity_of(gpu: Any) -> Identity:
    """The names of whatever has an index, a UUID and a PCI address; None: it did not tell them."""
    return Identity(-1 if gpu.index is None else gpu.index, gpu.uuid, gpu.pci_address)


def matches(identity: Identity, selector: str) -> bool:
    """Whether a selector means this GPU."""
    text = selector.strip()
    if text == ALL:
        return True
    if re.fullmatch(r"[0-9]+", text):
        return identity.index == int(text)
    if identity.uuid is not None and identity.uuid.lower() == text.lower():
        return True
    return identity.pci_address is not None and identity.pci_address == normalise_pci_address(text)


def matches_any(identity: Identity, selectors: Sequence[str]) -> bool:
    return any(matches(identity, selector) for selector in selectors)


def unmatched(identities: Sequence[Identity], selectors: Sequence[str]) -> Iterator[NodeError]:
    """An error for each selector that means none of these GPUs; ``all`` of no GPU is none of them."""
    for selector in selectors:
        if selector.strip() != ALL and not any(matches(identity, selector) for identity in identities):
            yield unknown(selector, identities)


def refused(gpus: Sequence[Any], selectors: Sequence[str]) -> Tuple[Refusal, ...]:
    """The same for a plan; ``gpus``: those that answer and those that do not."""
    found = unmatched([identity_of(gpu) for gpu in gpus], selectors)
    return tuple(Refusal(error.thing, error.reason, error.remedy) for error in found)


def select(identities: Sequence[Identity], selectors: Sequence[str]) -> Tuple[Identity, ...]:
    """The GPUs that the selectors mean, each once, in the order of ``identities``.

    :raises NodeError: when a selector means none of them, see :func:`unknown`; the sentence names those that exist.
    """
    for error in unmatched(identities, selectors):
        raise error
    return tuple(identity for identity in identities if matches_any(identity, selectors))


def unknown(selector: str, identities: Sequence[Identity]) -> NodeError:
    """The error for a selector that means no GPU: wrong use, unless it may be one that does not tell its name."""
    there = ", ".join(
        " = ".join((_number(one), *(name for name in (one.pci_address, one.uuid) if name)))
        for one in identities
        if one.index >= 0 or one.pci_address or one.uuid
    )
    nameless = [_number(one) for one in identities if one.pci_address is None]
    kind: Type[NodeError] = Misuse
    if not re.fullmatch(r"[0-9]+|GPU-\S+", selector.strip()) and normalise_pci_address(selector) is None:
        reason = "this is no GPU index, no UUID (GPU-...) and no PCI address (0001:00:00.0)"
    elif nameless:
        kind = NodeError
        reason = "no GPU that answers has this name, and GPU {0} did not tell its own".format(", ".join(nameless))
    else:
        reason = "this machine has no such GPU"
    from ...core.nearest import nearest

    # Not PCI addresses: one of another GPU is always like it.
    near = nearest(selector.strip(), [one.uuid for one in identities if one.uuid is not None])
    return kind(
        "GPU " + repr(selector), reason, near + "choose among " + there if there else "compare with 'nvidia-smi -L'"
    )


def _number(one: Identity) -> str:
    return "?" if one.index < 0 else str(one.index)


# In the environment of a job ---------------------------------------------------------------------------


def slurm_gpus(text: str) -> Tuple[str, ...]:
    """SLURM_JOB_GPUS: ``0,3`` as ("0", "3"). Some versions write a range (``0-3``), or ``gpu:`` before the numbers."""
    # A user's process may have any text in it: a name is in here once, and a range is of indices that exist.
    names: Dict[str, None] = {}
    for word in re.split(r"[,\s]+", text.strip()):
        word = word.partition("gpu:")[2] or word
        found = re.fullmatch(r"([0-9]{1,4})-([0-9]{1,4})", word)
        if found:
            last = min(int(found.group(2)), INDEX[1])
            names.update((str(number), None) for number in range(int(found.group(1)), last + 1))
        elif re.fullmatch(r"[0-9]{1,4}", word):
            names[str(int(word))] = None
        elif word and word not in _NO_DEVICES:
            names[word] = None
    return tuple(names)


def cuda_gpus(text: str) -> Tuple[str, ...]:
    """CUDA_VISIBLE_DEVICES: the devices before the first word that is none (CUDA C++ Programming Guide, "CUDA
    Environment Variables": ``0,2,-1,1`` shows 0 and 2). ``-1``, ``none`` and Slurm's NoDevFiles at the front are no GPU
    at all."""
    words = [word.strip() for word in text.split(",")]
    return tuple(itertools.takewhile(lambda word: word.isdecimal() or word.startswith(("GPU-", "MIG-")), words))


def container_gpus(text: str) -> Optional[Tuple[str, ...]]:
    """NVIDIA_VISIBLE_DEVICES; None: it limits nothing. With ``void`` or no word the NVIDIA Container Toolkit leaves the
    container as it is (its documentation, "GPU Enumeration"); without it, the variable is only a word in the
    environment."""
    return None if text.split(",")[0].strip() in (ALL, "void", "") else cuda_gpus(text)
