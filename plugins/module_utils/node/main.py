# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""``converge``: verify, unpack, run the play, and say whether the node is ready."""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import shutil
import signal
import sys
import time
from typing import Any, Iterator, Optional, Sequence, Set, Tuple

from ..core import converge_record as record
from ..core.converge_record import Record, Standing
from ..core.frozen import frozen
from ..core.host import Host, LockHeld
from ..core.resource import NodeError
from . import arguments, journal, places, trust, unit, unpack
from .play import Play
from .unit import ConvergeUnit
from .wheels import Interpreter

READY, NOT_READY, WRONG, BUSY = 0, 1, 2, 75
# A look at the record holds the lock for a moment.
_LOCK_SECONDS = 5.0


class Signalled(Exception):
    """Somebody wants the run to end."""


def interpreter() -> Interpreter:
    """This Python."""
    name, dummy, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
    numbers = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    libc = (numbers[0], numbers[1]) if name == "glibc" and len(numbers) == 2 else None
    return Interpreter(sys.version_info[:2], platform.machine(), libc)


def main(words: Sequence[str], folder: str) -> int:
    """``folder`` is where ``converge`` lies: a bundle that was copied here, or what was unpacked of one."""
    options = arguments.parse(words)
    host = Host()
    if options.status:
        return status(host)
    if options.admit:
        return admit(host)
    say = journal.Output(journal=not options.check).say
    try:
        with _signals():
            if os.geteuid() != 0:
                raise NodeError("converge", "only root may change this node", "run it as root")
            os.umask(0o022)
            os.chdir("/")
            with _lock(host):
                return _remove(host, say) if options.remove else _converge(host, options, folder, say)
    except _Busy as error:
        say("busy: {0}".format(error))
        return BUSY
    except NodeError as error:
        say("refused: {0}".format(error))
        return WRONG
    except Signalled as error:
        say("not ready: {0}.".format(error))
        return NOT_READY
    except OSError as error:
        say("refused: {0}: {1}; mend that, then run it again.".format(error.filename or "converge", error.strerror))
        return WRONG


def status(host: Host) -> int:
    """The record in one sentence."""
    known = record.known(host)
    if known.standing is Standing.READY and known.record is not None and known.record.ended is not None:
        when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(known.record.ended))
        journal.Output(journal=False).say(
            "ready: bundle {0} ended at {1}, verdict {2}.".format(known.record.version, when, known.record.outcome)
        )
        return READY
    running = known.standing is Standing.RUNNING
    text = "{0}: {1}.".format("running" if running else "not ready", known.reason.rstrip("."))
    journal.Output(journal=False).say(text)
    return BUSY if running else NOT_READY


def admit(host: Host) -> int:
    """Whether slurmd may start; where it may not, the sentence is for ``systemctl status slurmd``."""
    return READY if record.admits(record.known(host), record.each_boot(host)) else status(host)


class _Busy(NodeError):
    """Another converge holds the lock."""


@contextlib.contextmanager
def _lock(host: Host) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(host.lock(record.LOCK, _LOCK_SECONDS))
        except LockHeld as error:
            raise _Busy(error.thing, error.reason, error.remedy) from error
        yield


@frozen
class _Inputs:
    """What the run acts by, after it was found to be whole and root's alone."""

    variables: Tuple[str, ...]
    unit: Optional[ConvergeUnit]
    vault_password: Optional[str]
    bundle: Optional[unpack.Bundle]
    version: str


def _inputs(host: Host, options: argparse.Namespace, folder: str) -> _Inputs:
    """:raises NodeError: somebody else may write to one of them, or one is damaged."""
    owners = {0, os.geteuid()}
    # What was checked is what is read: a link could be led elsewhere in between, or before the next boot.
    of_site = [trust.check_file(path, owners) for path in (places.VARIABLES,) if os.path.lexists(path)]
    wanted = options.variables or (() if options.boot or options.install else ConvergeUnit.installed_variables(host))
    given = tuple(trust.check_file(path, owners) for path in wanted)
    vault_password = places.VAULT_PASSWORD if os.path.lexists(places.VAULT_PASSWORD) else None
    if vault_password is not None:
        vault_password = trust.check_file(vault_password, owners, private=True)
    trust.check_tree(folder, owners | _whose_sudo())
    trust.check_place(places.FOLDER, owners)
    bundle, version = _verified(folder)
    wanted_unit = ConvergeUnit(variables=given) if options.install else None
    return _Inputs((*of_site, *given), wanted_unit, vault_password, bundle, version)


def _converge(host: Host, options: argparse.Namespace, folder: str, say: Any) -> int:
    started, version, in_service = time.time(), "", _runs(host, "slurmd.service")

    def note(state: str, reason: str = "", outcome: Optional[str] = None) -> None:
        ended = None if state == "running" else time.time()
        boot = record.boot_id(host)
        record.write(host, Record(state, reason, started, ended, boot, version, outcome, in_service))

    try:
        inputs = _inputs(host, options, folder)
    except (NodeError, OSError) as error:
        # The record of another boot would be all that slurmd and --status had to tell of this one.
        if options.boot and not options.check:
            with contextlib.suppress(NodeError):
                note("not_ready", "its converge was refused: {0}".format(error).rstrip("."))
        raise
    version, bundle = inputs.version, inputs.bundle

    def play(tree: str) -> Play:
        return Play(tree, places.WORK, inputs.variables, inputs.vault_password, options.check, options.boot)

    if options.check:
        return _check(bundle, folder, play, say)
    outcome = None
    try:
        note("running")
        tree = folder if bundle is None else unpack.unpack(bundle, interpreter(), places.FOLDER)
        if inputs.unit is not None:
            unit.have(host, inputs.unit)
        done = play(tree).run(say)
        reason, outcome = done.reason, done.outcome
    except (NodeError, OSError, Signalled) as error:
        reason = str(error)
    reason = " ".join(reason.split()).rstrip(".")
    try:
        note("not_ready" if reason else "ready", reason, outcome)
    except NodeError as error:  # the record says running, which is an interrupted run from now on
        reason = str(error).rstrip(".")
    shutil.rmtree(places.WORK, ignore_errors=True)
    say("not ready: {0}.".format(reason) if reason else "ready: verdict {0}.".format(outcome))
    return NOT_READY if reason else READY


def _verified(folder: str) -> Any:
    """The bundle (None: it is unpacked already) and its version.

    :raises NodeError: not a byte of it is run when one differs.
    """
    if not unpack.is_tree(folder):
        bundle = unpack.read(folder)
        return bundle, bundle.version
    if not unpack.is_whole(folder):
        raise NodeError(folder, "something in it is damaged", "unpack gpu-node-bundle-*.tar.gz and run its 'converge'")
    unpack.check_interpreter(folder, interpreter())
    return None, unpack.version_of(folder)


def _check(bundle: Optional[unpack.Bundle], folder: str, play: Any, say: Any) -> int:
    """Nothing stays: a bundle that is not unpacked yet is unpacked beside the place, and removed."""
    aside = places.WORK + "-check"
    try:
        tree = folder
        if bundle is not None:
            tree = unpack.place(bundle, interpreter(), places.FOLDER)
            tree = tree if unpack.is_whole(tree) else unpack.unpack(bundle, interpreter(), aside)
        done = play(tree).run(say)
    finally:
        for path in (aside, places.WORK):
            shutil.rmtree(path, ignore_errors=True)
        _remove_empty(places.FOLDER)
    if done.status == 0:
        say("planned: nothing was changed.")
        return READY
    say("not ready: {0}.".format(done.reason.rstrip(".")))
    return NOT_READY


def _remove(host: Host, say: Any) -> int:
    unit.have(host, ConvergeUnit(), wanted=False)
    host.remove(record.PATH)
    if os.path.isdir(places.FOLDER):
        shutil.rmtree(places.FOLDER)
    _remove_empty(os.path.dirname(places.FOLDER))
    say("removed: the unit, the record and the bundle. What it made of the node stays; reset.yml undoes that.")
    return READY


def _remove_empty(folder: str) -> None:
    while folder.startswith("/opt/"):
        try:
            os.rmdir(folder)
        except OSError:
            return
        folder = os.path.dirname(folder)


def _runs(host: Host, unit: str) -> bool:
    """Not one that is refused: it has no process, however often it is tried."""
    try:
        found = host.run(["systemctl", "show", "--property=MainPID", "--value", unit], timeout_seconds=10.0).stdout
    except NodeError:
        return False
    return found.strip() not in ("", "0")


def _whose_sudo() -> Set[int]:
    """The user who became root to run this may have unpacked the bundle."""
    found = os.environ.get("SUDO_UID", "")
    return {int(found)} if found.isdigit() else set()


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """A run that is told to end says so in the record; one that is killed cannot, and counts as interrupted."""

    def end(number: int, dummy: object) -> None:
        raise Signalled("it was ended by signal {0}".format(signal.Signals(number).name))

    kept = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
