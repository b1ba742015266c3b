# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build one environment where it stays, and verify it.

It has no mark until all of it is there, is verified and is on the disk. What builds it runs with a home, temporary
files and caches of its own beside the tree, with nothing of root's environment, and keeps a lock on the file
``.building`` as long as it runs: when this process is killed, the next run sees whether one is still at it.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import glob
import json
import os
import re
import signal
import subprocess
import time
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...core import artefact, trees, urls
from ...core.artefact import Source
from ...core.environments import LOCK_NAME, MARK, MARK_NAME, Mark
from ...core.host import Host
from ...core.one_line import line
from ...core.resource import NodeError
from ...core.secrets import hide
from . import ds_report, locks
from .options import CONDA, Desired
from .presets import PRESETS
from .resolve import Wish
from .types import building, workshop

LOG = "/run/gpu_node/python_env-{0}.log"
_CUDA = "/usr/local/cuda"
_PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# What a build may take over from whoever runs us: how to reach an index.
_PASSED = ("http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")
_KEPT_LETTERS = 300
_PR_SET_PDEATHSIG = 1


def build(host: Host, wish: Wish, folder: str, desired: Desired) -> None:
    """:raises NodeError: it cannot be built, or does not pass its checks; nothing of it is left then."""
    path = wish.path(folder)
    with trees.said(path, "built"):
        remove_half(host, path)
        os.makedirs(os.path.dirname(host.path(LOG)), mode=0o755, exist_ok=True)
        handle = os.open(host.path(building(path)), os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            os.mkdir(host.path(workshop(path)), 0o700)
            bench = _Bench(host, wish, path, handle, time.monotonic() + desired.timeout_seconds)
            lock = (_of_conda if wish.kind == CONDA else _of_venv)(bench, desired)
            _verify(bench)
            _finish(host, wish, path, lock)
        except BaseException:
            with contextlib.suppress(OSError):
                remove_half(host, path)
            raise
        finally:
            os.close(handle)
        remove_half(host, path)


def remove_half(host: Host, path: str) -> None:
    """What a build has beside the tree, and the tree unless it is whole.

    :raises OSError: the file system says no.
    """
    if not os.path.exists(host.path("{0}/{1}".format(path, MARK_NAME))):
        trees.remove(host.path(path))
    trees.remove(host.path(workshop(path)))
    # Last: while it is there the next run knows that the rest is ours.
    trees.remove(host.path(building(path)))


def _finish(host: Host, wish: Wish, path: str, lock: str) -> None:
    """On the disk before the mark, and the mark before anything leads here: what has one is whole, whenever power
    goes."""
    if lock:
        host.write("{0}/{1}".format(path, LOCK_NAME), lock)
    trees.sync(host.path(path))
    mark = Mark(path, wish.name, wish.digest, int(time.time()), str(wish.machine), wish.spec)
    MARK.write(host, mark, path)


class _Bench:
    """Where one environment is built: ``run`` starts programs for it."""

    def __init__(self, host: Host, wish: Wish, path: str, handle: int, deadline: float) -> None:
        self.host, self.wish, self.handle, self.deadline = host, wish, handle, deadline
        self.tree, self.work = host.path(path), host.path(workshop(path))
        self.log = LOG.format(wish.name)
        self.thing = "environment {0}".format(wish.name)
        with open(host.path(self.log), "w", encoding="utf-8"):
            pass  # of this build alone

    def file(self, name: str, text: str) -> str:
        path = "{0}/{1}".format(self.work, name)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)
        return path

    def environment(self, more: Mapping[str, str]) -> Dict[str, str]:
        found = {name: os.environ[name] for name in _PASSED if name in os.environ}
        paths = [self.tree + "/bin"] + ([_CUDA + "/bin"] if os.path.isdir(_CUDA) else []) + [_PATHS]
        found.update(
            PATH=":".join(paths),
            HOME=self.work,
            TMPDIR=self.work,
            XDG_CACHE_HOME=self.work + "/cache",
            TORCH_EXTENSIONS_DIR=self.work + "/cache/torch_extensions",
            LC_ALL="C.UTF-8",
            PYTHONNOUSERSITE="1",
            PIP_CONFIG_FILE=os.devnull,
            PIP_NO_INPUT="1",
            PIP_DISABLE_PIP_VERSION_CHECK="1",
        )
        if os.path.isdir(_CUDA):
            found.update(CUDA_HOME=_CUDA, HOROVOD_CUDA_HOME=_CUDA)
        found["CONDA_PREFIX" if self.wish.kind == CONDA else "VIRTUAL_ENV"] = self.tree
        found.update(more)
        return found

    def run(self, argv: Sequence[str], what: str, more: Optional[Mapping[str, str]] = None) -> str:
        """What it printed.

        :raises NodeError: it cannot be started, failed, or took too long.
        """
        output = self.work + "/output"
        with open(self.host.path(self.log), "a", encoding="utf-8") as log, open(output, "w+b") as stream:
            log.write("$ {0}\n".format(urls.shown(" ".join(argv))))
            try:
                child = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
                    list(argv),
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env=self.environment(more or {}),
                    cwd=self.work,
                    pass_fds=(self.handle,),
                    start_new_session=True,
                    preexec_fn=_end_with_parent,
                )
            except OSError as error:
                reason = "{0} cannot be started ({1})".format(argv[0], error.strerror or error)
                raise NodeError(self.thing, reason, "install it, or correct the option that names it") from error
            try:
                status = child.wait(max(0.1, self.deadline - time.monotonic()))
            except BaseException as error:
                with contextlib.suppress(OSError):
                    os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                if not isinstance(error, subprocess.TimeoutExpired):
                    raise
                reason = "{0} did not end within the time of a build".format(what)
                raise NodeError(self.thing, reason, "see {0}, or raise timeout_seconds".format(self.log)) from error
            stream.seek(0)
            text = stream.read().decode("utf-8", "replace")
            log.write(hide(text))
        if status != 0:
            reason = "{0} ended with status {1}: {2}".format(what, status, _quoted(text))
            raise NodeError(self.thing, reason, "see {0}".format(self.log))
        return text


def _end_with_parent() -> None:
    """Between fork and exec: a builder whose starter was killed ends, too; what it has started keeps the lock."""
    os.umask(0o022)  # all users of the node run what is built, whatever root's own umask is
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _quoted(text: str) -> str:
    """What a person would quote: the last error of Python, else one of pip, else the last line."""
    lines = [one.strip() for one in text.splitlines() if one.strip()]
    raised = [one for one in lines if re.match(r"[A-Za-z_.]*(Error|Exception): ", one)]
    errors = [one for one in lines if one.lower().startswith("error")]
    return line(hide((raised or errors or lines or ["it said nothing"])[-1]))[:_KEPT_LETTERS]


def _on_node(host: Host, program: str) -> str:
    """A program of a captured tree where it has one."""
    return host.path(program) if os.path.exists(host.path(program)) else program


def _of_venv(bench: _Bench, desired: Desired) -> str:
    wish = bench.wish
    try:
        bench.run([_on_node(bench.host, wish.python), "-m", "venv", bench.tree], "making the venv")
    except NodeError as error:
        remedy = "install the package python3-venv (Debian, Ubuntu), or see {0}".format(bench.log)
        raise NodeError(error.thing, error.reason, remedy) from error
    pip = [bench.tree + "/bin/python", "-m", "pip", "install", "--no-cache-dir", "--only-binary=:all:"]
    if desired.find_links:
        pip += ["--no-index", "--find-links", bench.host.path(desired.find_links)]
    elif desired.index_url:
        pip += ["--index-url", desired.index_url]
    if wish.locked:
        # All that is needed is listed, and what is not must not come unseen.
        pip += ["--require-hashes", "--no-deps"]
    reports: List[object] = []
    for lines, more in ((wish.first, False), (wish.then, True)):
        if not lines:
            continue
        names = ",".join(map(locks.requirement_name, lines))
        argv = [*pip, "--requirement", bench.file("requirements", "".join(one + "\n" for one in lines))]
        if more:
            argv += ["--no-build-isolation", "--no-binary", names]
        reports += _installed(bench, argv, wish.variables if more else {})
    if not wish.clone_of:
        bench.run([bench.tree + "/bin/python", "-m", "pip", "check"], "pip check")
    return locks.of_reports(reports)


def _tells(tree: str) -> bool:
    """Pip 22.2 and newer can report what it took."""
    found = glob.glob(tree + "/lib/python3*/site-packages/pip-*.dist-info")
    version = re.search(r"/pip-(\d+)\.(\d+)", found[0]) if found else None
    return version is not None and tuple(int(one) for one in version.groups()) >= (22, 2)


def _installed(bench: _Bench, argv: List[str], variables: Mapping[str, str]) -> List[object]:
    report = bench.work + "/report.json"
    reports: List[object] = []
    bench.run(argv + (["--report", report] if _tells(bench.tree) else []), "pip install", variables)
    with contextlib.suppress(OSError, ValueError):
        with open(report, encoding="utf-8") as stream:
            reports.append(json.load(stream))
    return reports


def _of_conda(bench: _Bench, dummy: Desired) -> str:
    host, wish = bench.host, bench.wish
    folders = [bench.work + "/pkgs"]
    argv = [_on_node(host, wish.program)]
    argv += ["create", "--yes", "--quiet", "--prefix", bench.tree]
    if wish.clone_of:
        argv += ["--clone", host.path(wish.clone_of)]
        # Those that the site's conda has unpacked already; the first that can be written to gets what is missing.
        folders.append(os.path.dirname(os.path.dirname(os.path.realpath(argv[0]))) + "/pkgs")
    elif wish.packages:
        listed = "".join("file://{0}\n".format(_fetched(bench, one)) for one in wish.packages)
        argv += ["--file", bench.file("explicit.txt", "@EXPLICIT\n" + listed), "--offline"]
    else:
        argv += list(wish.first)
    bench.run(argv, "conda create", {"CONDA_PKGS_DIRS": ",".join(folders), "CONDA_AUTO_UPDATE_CONDA": "false"})
    # All users read it.
    listed = "".join("{0}#sha256:{1}\n".format(urls.shown(one.url), one.sha256) for one in wish.packages)
    return "@EXPLICIT\n" + listed if listed else ""


def _fetched(bench: _Bench, package: locks.Package) -> str:
    """The path of a verified package under its own name, which conda takes its version and build from."""
    source = Source(package.url, package.sha256)
    left = max(1.0, bench.deadline - time.monotonic())
    relative = "/" + os.path.relpath(bench.work, bench.host.root) + "/artefacts"
    verified = bench.host.path(artefact.fetch(bench.host, source, relative, left))
    folder = "{0}/channel/{1}".format(bench.work, package.subdir)
    os.makedirs(folder, exist_ok=True)
    path = "{0}/{1}".format(folder, package.file)
    os.link(verified, path)
    return path


def _verify(bench: _Bench) -> None:
    wish = bench.wish
    preset: Any = PRESETS.get(wish.preset)
    for module in wish.imports:
        bench.run([bench.tree + "/bin/python", "-c", "import " + module], "importing {0}".format(module))
    for command in wish.commands:
        bench.run(["/bin/bash", "-c", command], "the check {0!r}".format(command))
    for command, pattern, wrong in preset.tells if preset else ():
        if not re.search(pattern, bench.run(["/bin/bash", "-c", command], "the check {0!r}".format(command))):
            raise NodeError(bench.thing, wrong, "see {0}".format(bench.log))
    if preset and preset.ops:
        report = ds_report.parse(bench.run([bench.tree + "/bin/ds_report"], "ds_report"))
        wrong = ds_report.fault(report, preset.ops)
        if wrong:
            raise NodeError(bench.thing, wrong, "see {0}".format(bench.log))
