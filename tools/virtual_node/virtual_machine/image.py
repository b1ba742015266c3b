# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The guest image: built from Debian packages by mmdebstrap, cached by the hash of its recipe."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
import uuid
from pathlib import Path
from typing import Dict, List, Optional, Sequence

from . import boot_files, places
from .progress import VirtualNodeError, say, step

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_DEFAULT_MIRROR = "http://deb.debian.org/debian"
_UNPACKED_DOCS = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/locale/*", "/usr/share/info/*")
# Modules for hardware that no guest has: two thirds of a kernel, which has to be unpacked, indexed and packed again.
_HARDWARE = ("sound", "net/bluetooth", "net/mac80211", "net/wireless") + tuple(
    "drivers/" + name
    for name in ("bluetooth", "gpu", "hid", "iio", "infiniband/hw", "isdn", "media", "mtd", "net/can", "net/ethernet")
    + ("net/usb", "net/wireless", "platform", "staging", "usb")
)
UNPACKED_MODULES = tuple("*/lib/modules/*/kernel/{0}/*".format(name) for name in _HARDWARE)
# Counted up when the code below makes another image from the same recipe.
_BUILDER = 3
# Space for what tests write: the root filesystem is resized at first use of a larger root_size.
_ROOT_BYTES = 4 * 1024 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Image:
    """One built image. ``root`` is an ext4 filesystem, never written after the build."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "root.raw"

    @property
    def kernel(self) -> Path:
        return self.folder / "kernel"

    def initramfs(self, kind: str) -> Path:
        """``quick`` (reaches the root disk, nothing else) or ``debian`` (Debian's own, as on an installed machine)."""
        return self.folder / "initramfs-{0}".format(kind)

    @property
    def complete(self) -> bool:
        return (self.folder / "image.json").is_file()


def packages(suite: str) -> List[str]:
    names = []
    for line in (places.RECIPE / "packages").read_text().splitlines():
        words = line.partition("#")[0].split()
        if words and (len(words) == 1 or suite in words[1:]):
            names.append(words[0])
    return names


def recipe_hash(suite: str) -> str:
    """Of everything that decides what is in the image; a change of it means a new image."""
    digest = hashlib.sha256()
    digest.update("{0} {1}".format(_BUILDER, suite).encode())
    for path in sorted(places.RECIPE.rglob("*")):
        if path.is_file():
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


def image_for(suite: str) -> Image:
    return Image(places.images() / "{0}-{1}".format(suite, recipe_hash(suite)))


def sources(suite: str, apt_sources: Optional[Dict[str, str]] = None) -> List[str]:
    """The apt lines for the guest: VIRTUAL_NODE_MIRROR, else what this Debian host itself uses, else Debian's own."""
    mirror = os.environ.get("VIRTUAL_NODE_MIRROR")
    lines = []
    found = {} if mirror else (_host_mirrors() if apt_sources is None else apt_sources)
    main = mirror or found.get("main") or _DEFAULT_MIRROR
    signed = " [signed-by={0}]".format(_KEYRING) if _KEYRING.exists() else ""
    lines.append("deb{0} {1} {2} main".format(signed, main, suite))
    lines.append("deb{0} {1} {2}-updates main".format(signed, main, suite))
    security = found.get("security") or (None if mirror else "http://deb.debian.org/debian-security")
    if security:
        lines.append("deb{0} {1} {2}-security main".format(signed, security, suite))
    return lines


def _host_mirrors() -> Dict[str, str]:
    """Debian mirrors named in this host's apt sources; nothing on a host that is not Debian."""
    found: Dict[str, str] = {}
    for path in [Path("/etc/apt/sources.list")] + sorted(Path("/etc/apt/sources.list.d").glob("*")):
        if path.suffix not in (".list", ".sources") or not path.is_file():
            continue
        for line in path.read_text(errors="replace").splitlines():
            match = re.match(r"^(?:URIs:|deb\s+(?:\[[^\]]*\]\s+)?)\s*((?:https?|file)://\S+)", line)
            if match:
                uri = match.group(1).rstrip("/")
                if uri.endswith("/debian"):
                    found.setdefault("main", uri)
                elif uri.endswith("/debian-security"):
                    found.setdefault("security", uri)
    return found


def ensure(suite: str, refresh: bool = False) -> Image:
    """The image of a suite, built when it is missing. Two builders at once: one builds, the other waits."""
    image = image_for(suite)
    if image.complete and not refresh:
        return image
    with places.lock(places.images() / "{0}.lock".format(suite), "another build of the {0} image".format(suite)):
        if image.complete and not refresh:
            return image
        _build(suite, image)
        _remove_old(suite, image)
    return image


def _tools() -> None:
    missing = [name for name in ("mmdebstrap", "mke2fs", "tar") if not _which(name)]
    if missing:
        raise VirtualNodeError(
            "image: {0} not found; install the packages mmdebstrap, e2fsprogs and tar.".format(", ".join(missing))
        )


def _which(name: str) -> Optional[str]:
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


@dataclasses.dataclass(frozen=True)
class _Mode:
    """How this user may make files that belong to root: what mmdebstrap is told, and what wraps the unpacking."""

    mmdebstrap: Sequence[str]
    wrap: Sequence[str]


def _mode() -> _Mode:
    if os.geteuid() == 0:
        return _Mode(["mmdebstrap", "--mode=root"], [])
    if _which("newuidmap") and _unshare_works():
        return _Mode(["mmdebstrap", "--mode=unshare"], ["mmdebstrap", "--unshare-helper"])
    if _which("sudo"):
        say("  building as root through sudo, because user namespaces do not work for this user")
        say("  (the package uidmap with lines in /etc/subuid and /etc/subgid would make sudo unnecessary)")
        return _Mode(["sudo", "mmdebstrap", "--mode=root"], ["sudo"])
    raise VirtualNodeError(
        "image: this user can neither use user namespaces nor sudo; install uidmap and add the user to /etc/subuid"
        " and /etc/subgid."
    )


def _unshare_works() -> bool:
    done = subprocess.run(
        ["mmdebstrap", "--unshare-helper", "true"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return done.returncode == 0


def _build(suite: str, image: Image) -> None:
    _tools()
    mode = _mode()
    _remove_leftovers(suite, mode)
    folder = Path(tempfile.mkdtemp(prefix="{0}-building-".format(suite), dir=str(places.images())))
    try:
        with step("building the {0} image (Debian packages; a few minutes)".format(suite)):
            root_uuid = str(uuid.uuid5(uuid.NAMESPACE_URL, "trainyard-virtual-node-" + image.folder.name))
            tree = folder / "root.tar"
            _bootstrap(suite, root_uuid, mode, folder, tree)
            with step("preparing kernel and initramfs"):
                _boot_files(tree, folder)
            with step("writing the root filesystem"):
                _filesystem(root_uuid, mode, folder, tree)
            tree.unlink()
            facts = {"suite": suite, "root_uuid": root_uuid, "built": int(time.time()), "sources": sources(suite)}
            (folder / "image.json").write_text(json.dumps(facts, indent=2) + "\n")
        if image.folder.exists():  # --refresh: nodes that run keep the old files open until they end
            image.folder.rename(folder.with_name(folder.name + "-replaced"))
        folder.rename(image.folder)
    except BaseException:
        _remove_tree(folder, mode)
        raise
    finally:
        _remove_leftovers(suite, mode)


def _bootstrap(suite: str, root_uuid: str, mode: _Mode, folder: Path, tree: Path) -> None:
    files = folder / "files.tar"
    with tarfile.open(str(files), "w") as out:
        out.add(str(places.RECIPE / "files"), arcname=".", filter=_owned_by_root)
        out.add(str(places.RECIPE / "customize"), arcname="./virtual_node_customize", filter=_owned_by_root)
    command = list(mode.mmdebstrap) + ["--variant=minbase", "--include=" + ",".join(packages(suite))]
    command += ['--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Retries "5"']
    command += ["--dpkgopt=path-exclude={0}".format(pattern) for pattern in _UNPACKED_DOCS + UNPACKED_MODULES]
    command += ["--dpkgopt=force-unsafe-io"]
    command += ["--customize-hook=tar-in {0} /".format(files)]
    command += ['--customize-hook=chroot "$1" sh /virtual_node_customize {0} {1}'.format(suite, root_uuid)]
    command += ['--customize-hook=rm "$1/virtual_node_customize"', "--format=tar", suite, "-"]
    command += sources(suite)
    with step("installing {0} packages and what they need".format(len(packages(suite)))) as current:
        log = folder / "mmdebstrap.log"
        with open(str(log), "wb") as errors, open(str(tree), "wb") as out_file:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out_file,
                stderr=errors,
                cwd=str(folder),
                # Debian's way to say that a kernel gets no initramfs: `customize` makes it, once its modules are known.
                env=dict(os.environ, INITRD="No"),
                start_new_session=True,
            )
            try:
                while child.poll() is None:
                    current.tick(_last_line(log))
                    time.sleep(0.2)
            except BaseException:
                # Its helpers too (hence the process group): mmdebstrap unmounts what it mounted when told to end.
                os.killpg(child.pid, signal.SIGTERM)
                child.wait()
                raise
        if child.returncode != 0:
            kept = places.cache() / "mmdebstrap-{0}.log".format(suite)
            shutil.copy(str(log), str(kept))
            raise VirtualNodeError(
                "image {0}: mmdebstrap failed ({1}); read {2}, and set VIRTUAL_NODE_MIRROR if the mirror is"
                " not reachable.".format(suite, _last_line(log, errors_first=True), kept)
            )


def _owned_by_root(info: tarfile.TarInfo) -> tarfile.TarInfo:
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    info.mode = 0o755 if info.isdir() or info.mode & 0o100 else 0o644
    return info


def _last_line(log: Path, errors_first: bool = False) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if errors_first:
        lines = [line for line in lines if line.startswith("E:")][:1] or lines
    return lines[-1][:100] if lines else ""


def _boot_files(tree: Path, folder: Path) -> None:
    """Take kernel and initramfs out of the tree. A guest has one kernel: the one that linux-image-amd64 names."""
    with tarfile.open(str(tree)) as source:
        names = [name for name in source.getnames() if re.match(r"^(\./)?boot/(vmlinuz|initrd\.img)-", name)]
        picked = {}
        for kind in ("vmlinuz", "initrd.img"):
            stream = source.extractfile(sorted(name for name in names if kind in name)[-1])
            assert stream is not None
            picked[kind] = stream.read()
        (folder / "kernel").write_bytes(boot_files.unpack_kernel(picked["vmlinuz"]))
        (folder / "initramfs-debian").write_bytes(boot_files.unpack_initramfs(picked["initrd.img"]))
        init = (places.RECIPE / "initramfs_init").read_bytes()
        (folder / "initramfs-quick").write_bytes(boot_files.quick_initramfs(source, init))


def _filesystem(root_uuid: str, mode: _Mode, folder: Path, tree: Path) -> None:
    """mke2fs fills the filesystem from a folder, so nothing needs to be mounted."""
    # Device nodes stay out: a user namespace cannot make them, and the kernel puts its own /dev there at boot.
    script = (
        'set -e; PATH="$PATH:/usr/sbin:/sbin"; mkdir unpacked; '
        'tar --exclude="./dev/*" --numeric-owner --xattrs --xattrs-include="*" -xpf - -C unpacked; '
        "mke2fs -q -t ext4 -E root_owner=0:0,lazy_itable_init=1 -m 1 -U {0} -L root "
        "-d unpacked root.raw {1}k; rm -rf unpacked"
    ).format(root_uuid, _ROOT_BYTES // 1024)
    root = folder / "root.raw"
    root.touch()
    # Names relative to the working directory: in a user namespace root cannot pass through a private home.
    if mode.wrap:
        root.chmod(0o666)
        folder.chmod(0o777)
    try:
        with open(str(tree), "rb") as source:
            done = subprocess.run(
                list(mode.wrap) + ["sh", "-c", script],
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                cwd=str(folder),
                text=True,
            )
    finally:
        folder.chmod(0o755)
    if done.returncode != 0:
        raise VirtualNodeError(
            "image: writing the root filesystem failed ({0}); is there space in {1}?".format(
                done.stdout.strip()[:200], folder
            )
        )
    root.chmod(0o444)


def _remove_tree(folder: Path, mode: Optional[_Mode] = None) -> None:
    shutil.rmtree(str(folder), ignore_errors=True)
    if folder.exists() and mode is not None and mode.wrap:
        # What an unpacking left belongs to users of the namespace; only its root may remove it, by a relative name.
        folder.chmod(0o777)
        subprocess.run(
            list(mode.wrap) + ["rm", "-rf", "unpacked"], stdin=subprocess.DEVNULL, cwd=str(folder), check=False
        )
        shutil.rmtree(str(folder), ignore_errors=True)


def _remove_leftovers(suite: str, mode: _Mode) -> None:
    """What a build that was killed left behind. Called under the lock, so no build is running."""
    for path in places.images().glob("{0}-building-*".format(suite)):
        _remove_tree(path, mode)


def _remove_old(suite: str, keep: Image) -> None:
    """Images of former recipes, unless a node still stands on one."""
    used = {path.read_text().strip() for path in places.runs().glob("*/*/image")}
    for path in places.images().glob("{0}-*".format(suite)):
        if path.is_dir() and path != keep.folder and str(path) not in used:
            say("  removing the image of a former recipe: {0}".format(path.name))
            _remove_tree(path)
