# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvme_scratch against the role storage of linux-system-roles, both through Ansible, on the same disks of a guest.

    python tests/bench/storage_role.py --role FOLDER --posix FOLDER

``--role``: a checkout of github.com/linux-system-roles/storage; ``--posix``: a folder with
ansible_collections/ansible/posix, which the role mounts with. Debian has no package of blivet, which the role works
with: its wheel comes from PyPI and what that needs from Debian 13, which is the guest. None of this is in the times.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import in_turn, machine, row, seconds, table

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "virtual_node"))

from virtual_machine import image  # noqa: E402

TOOL = str(ROOT / "tools/virtual_node/virtual_node")
NODE = "bench"
BLIVET = "blivet==3.14.2"
# What python3-blivet and the role's list for Debian 13 would bring.
PACKAGES = (
    "python3-blockdev python3-bytesize python3-dasbus python3-parted "
    "python3-packaging python3-pyudev python3-gi gir1.2-blockdev-3.0 libblockdev-btrfs3 libblockdev-loop3 "
    "libblockdev-mpath3 libblockdev-part3 "
    "libblockdev-crypto3 libblockdev-dm3 "
    "libblockdev-fs3 libblockdev-lvm3 libblockdev-mdraid3 libblockdev-swap3 libblockdev-nvme3 python3-selinux lsof "
    "kpartx lvm2"
).split()
OURS = {"models": ["QEMU NVMe Ctrl"], "count": 8, "mount_point": "/mnt/scratch", "declare": False, "boot_unit": False}
THEIRS = {
    "_blivet_custom_repo": {},
    "storage_skip_checks": ["blivet_available", "packages_installed"],
    "storage_safe_mode": False,
    "storage_volumes": [
        {
            "name": "scratch",
            "type": "raid",
            "disks": ["nvme{0}n1".format(number) for number in range(8)],
            "raid_level": "raid0",
            "raid_chunk_size": "512 KiB",
            "fs_type": "xfs",
            "mount_point": "/mnt/scratch",
            "mount_options": "noatime",
        }
    ],
}
BLANK = (
    "umount /mnt/scratch; sed -i '/mnt.scratch/d' /etc/fstab; mdadm --stop --scan; "
    "mdadm --zero-superblock /dev/nvme[0-7]n1; for disk in /dev/nvme[0-7]n1; do blkdiscard -f $disk; done; "
    "udevadm settle"
)


def run(*words: str, **more: object) -> str:
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **more)
    if done.returncode != 0:
        sys.exit("{0}:\n{1}".format(" ".join(words)[:200], done.stdout[-6000:]))
    return done.stdout


def ssh(command: str) -> str:
    return run(TOOL, "ssh", NODE, command)


def install(work: Path) -> None:
    """The packages that the guest lacks, fetched here for it, as it has no network."""
    for folder in ("lists/partial", "archives/partial"):
        (work / folder).mkdir(parents=True)
    (work / "sources.list").write_text("\n".join(image.sources("trixie")) + "\n", encoding="utf-8")
    (work / "status").write_text(ssh("cat /var/lib/dpkg/status"), encoding="utf-8")
    options = {
        "Dir::State::status": work / "status",
        "Dir::State::lists": work / "lists",
        "Dir::Cache::archives": work / "archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Dir::Etc::sourcelist": work / "sources.list",
        "Dir::Etc::sourceparts": "-",
        "APT::Sandbox::User": "root",
        "APT::Install-Recommends": "false",
    }
    words = [word for name, value in options.items() for word in ("-o", "{0}={1}".format(name, value))]
    run("apt-get", *words, "-q", "update")
    run("apt-get", *words, "-q", "-y", "--download-only", "install", *PACKAGES)
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(work / "archives"), BLIVET)
    tar = subprocess.run(["tar", "c", "-C", str(work / "archives"), "."], stdout=subprocess.PIPE, check=True)
    subprocess.run([TOOL, "ssh", NODE, "mkdir -p /opt/bench && tar x -C /opt/bench"], input=tar.stdout, check=True)
    ssh("dpkg -i /opt/bench/*.deb && python3 -m zipfile -e /opt/bench/blivet-*.whl /usr/lib/python3/dist-packages")


def ansible(words: list, environment: dict) -> None:
    # The newest Debian goes with the newest core in the tests; both sides have the same here.
    run(*words, cwd=str(ROOT), env=dict(os.environ, **environment))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="pairs of each measurement")
    parser.add_argument("--role", type=Path, help="a checkout of linux-system-roles/storage")
    parser.add_argument("--posix", type=Path, help="the folder above ansible_collections/ansible/posix")
    arguments = parser.parse_args()
    if arguments.role is None or arguments.posix is None:
        print("storage_role: left out; it needs --role and --posix, as its first lines tell", flush=True)
        return
    program = str(Path(sys.executable).parent / "ansible-playbook")
    play = [program, "-i", str(ROOT / "inventories/virtual"), "-l", NODE]
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        hosts = {"hosts": NODE, "gather_facts": False, "become": True}
        ours_play, theirs_play = work / "ours.yml", work / "theirs.yml"
        ours_play.write_text(json.dumps([dict(hosts, tasks=[{"trainyard.gpu_node.nvme_scratch": OURS}])]), "utf-8")
        theirs_play.write_text(json.dumps([dict(hosts, roles=[str(arguments.role.resolve())])]), "utf-8")
        collections = {"ANSIBLE_COLLECTIONS_PATH": "{0}:{1}".format(ROOT / ".collections", arguments.posix.resolve())}

        def ours() -> None:
            ansible([*play, str(ours_play)], collections)

        def theirs() -> None:
            ansible([*play, "-e", json.dumps(THEIRS), str(theirs_play)], collections)

        run(TOOL, "up", NODE, "--set", "suite=trixie")
        try:
            install(work / "apt")
            ours()  # brings the node command, which a node has from then on
            ssh(BLANK)
            first: tuple = ([], [])
            for _ in range(arguments.runs):
                first[0].append(seconds(ours))
                ssh(BLANK)
                first[1].append(seconds(theirs))
                ssh("findmnt -t xfs /mnt/scratch")
                ssh(BLANK)
            theirs()
            warm_theirs = in_turn(theirs, lambda: None, arguments.runs)[0]
            ssh(BLANK)
            ours()
            warm_ours = in_turn(ours, lambda: None, arguments.runs)[0]
        finally:
            run(TOOL, "--quiet", "down", NODE)
    title = (
        "nvme_scratch against linux-system-roles/storage with {0}, as plays over ssh to an emulated guest ({processor})"
    )
    rows = [row("first run", *first), row("warm run", warm_ours, warm_theirs)]
    table(title.format(BLIVET, **machine()), rows)


if __name__ == "__main__":
    os.environ.setdefault("VIRTUAL_NODE_RUN", "bench")
    main()
