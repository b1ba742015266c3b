# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The place of checkpoints and all that is asked of it, by one azcopy a question."""

from __future__ import annotations

import os
import tempfile
from typing import Callable, Mapping, Tuple

from ..core.frozen import frozen
from ..core.host import Host
from ..core.resource import NodeError
from . import copying, destination, words
from .access import Access
from .cores import Cores
from .plan import Shape, environment, inherited
from .settings import Settings
from .work import Work

Tell = Callable[[str], None]


@frozen
class Store:
    """``setting``: how azcopy is run for it."""

    url: str
    setting: copying.Setting

    def address(self, *names: str) -> words.Word:
        return words.addressed(destination.joined(self.url, *names), self.setting.access.query)

    def listing(self, *names: str) -> Tuple[words.Blob, ...]:
        """What lies below a folder of it, by names from there on."""
        # With a slash at its end it is a folder, and not a blob of that name.
        target = words.addressed(destination.joined(self.url, *names) + "/", self.setting.access.query)
        return words.blobs(copying.ask(self.setting, words.listing(target), "destination " + self.url))

    def write(self, text: str, *names: str) -> None:
        """A small blob."""
        path = self._temporary(text)
        try:
            copying.ask(self.setting, words.upload(path, self.address(*names), 0), "/".join(names))
        finally:
            os.unlink(path)

    def read(self, *names: str) -> str:
        """:raises NodeError: it is not there, or not whole."""
        path = self._temporary("")
        try:
            copying.ask(self.setting, words.download(self.address(*names), path, 0), "/".join(names))
            with open(path, encoding="utf-8", errors="replace") as stream:
                return stream.read(1 << 26)
        finally:
            os.unlink(path)

    def remove(self, name: str, manifests: Tuple[str, ...]) -> None:
        """A checkpoint. Its manifests go first, so what is left of it counts no more, whenever this is cut off."""
        for one in manifests:
            copying.ask(self.setting, words.remove(self.address(name, one)), "checkpoint " + name)
        everything = words.remove(self.address(name), everything=True)
        copying.ask(self.setting, everything, "checkpoint " + name, seconds=600.0)

    def _temporary(self, text: str) -> str:
        try:
            handle, path = tempfile.mkstemp(prefix="manifest-", dir=self.setting.work.folder)
            with os.fdopen(handle, "w", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as error:
            thing = "work folder " + self.setting.work.folder
            reason = "a manifest could not be written there ({0})".format(error.strerror)
            raise NodeError(thing, reason, "free some space there, or give another place by --work") from error
        return path


def opened(
    host: Host,
    settings: Settings,
    access: Access,
    work: Work,
    found: Shape,
    cores: Cores,
    outer: Mapping[str, str],
) -> Store:
    """:raises NodeError: there is no destination, or no azcopy."""
    return Store(
        destination.checked(settings.destination),
        copying.Setting(
            program=program(host),
            environment={
                **inherited(outer),
                **work.environment(),
                **environment(found),
                **dict(access.environment),
            },
            access=access,
            work=work,
            at_once=found.at_once,
            cap=found.cap,
            cpus=cores.cpus,
        ),
    )


def program(host: Host) -> str:
    found = host.which("azcopy")
    if found is None:
        remedy = "install it: role checkpoint, or the package azcopy of Microsoft's repository"
        raise NodeError("azcopy", "this program is not installed", remedy)
    return found


def named(settings: Settings) -> Settings:
    """:raises NodeError: no destination is declared or given."""
    if not settings.destination:
        raise NodeError("destination", "none is declared", "set checkpoint_destination, or give --to URL")
    return settings
