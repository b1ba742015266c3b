# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look of `gpunode image` at the roots of four images, which must take less than 0.2 s.

The databases of packages have as many packages as real ones (an HPC image 2,500), the cache of ld.so and the list of
modules as many entries, and libnccl is a file of 250 MB, so what is read of them is as long as there. The files are in
the page cache, as they are where a program has just used them.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from _measure import machine, seconds

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".collections"))

from ansible_collections.trainyard.gpu_node.plugins.module_utils.core.host import Host  # noqa: E402
from ansible_collections.trainyard.gpu_node.plugins.module_utils.facts.image import answer  # noqa: E402
from ansible_collections.trainyard.gpu_node.tests.unit.data.image import images  # noqa: E402

LIMIT_SECONDS = 0.2
_RUNS = 30
_BULK = 250 << 20
_COMMAND = """
import sys
sys.path.insert(0, {0!r})
from ansible_collections.trainyard.gpu_node.plugins.module_utils.command import main
main.main(["image", "--root", {1!r}])
"""


def large(root: images.Root) -> None:
    """What the small roots leave out."""
    path = root.at("/var/lib/dpkg/status")
    if path.exists():
        block = (
            "Package: {0}\nStatus: install ok installed\nPriority: optional\nArchitecture: amd64\nVersion: 1.0-{1}\n"
        )
        about = "Depends: libc6 (>= 2.34)\nDescription: one of many packages\n" + " words of a description\n" * 25
        more = "\n".join(block.format("package" + str(number), number) + about for number in range(2500))
        path.write_text(path.read_text() + "\n" + more + "\n")
    for modules in root.path.glob("lib/modules/*/modules.dep"):
        lines = "".join(
            "kernel/drivers/net/driver{0}.ko: kernel/lib/a.ko kernel/lib/b.ko\n".format(n) for n in range(6500)
        )
        modules.write_text(modules.read_text() + lines)
    if root.libraries:
        root.libraries.update(
            {"libother{0}.so.1".format(n): "/usr/lib64/libother{0}.so.1".format(n) for n in range(2500)}
        )
        root.ldconfig()
    for library in root.path.glob("usr/lib*/**/libnccl.so.2.*"):
        with library.open("ab") as stream:
            stream.truncate(_BULK)


def main() -> None:
    print("\nA look at an image and its judgement ({processor}, {cores} cores)\n".format(**machine()))
    print("| image | median | longest of {0} |\n| --- | --- | --- |".format(_RUNS))
    longest = 0.0
    with tempfile.TemporaryDirectory() as folder:
        for name, make in images.IMAGES.items():
            root = make(Path(folder) / name)
            large(root)
            host = Host(str(root.path))
            answer.judge(answer.look(host))
            times = [seconds(lambda host=host: answer.judge(answer.look(host))) for _run in range(_RUNS)]
            longest = max(longest, statistics.median(times))
            print("| {0} | {1:.0f} ms | {2:.0f} ms |".format(name, 1000 * statistics.median(times), 1000 * max(times)))
        code = _COMMAND.format(str(ROOT / ".collections"), str(Path(folder) / "azure_hpc"))
        command = [sys.executable, "-c", code]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        whole = [
            seconds(lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL))
            for _run in range(_RUNS // 2)
        ]
        print(
            "| the whole command, azure_hpc | {0:.0f} ms | {1:.0f} ms |".format(
                1000 * statistics.median(whole), 1000 * max(whole)
            )
        )
    if longest > LIMIT_SECONDS:
        sys.exit("a look took {0:.2f} s, and {1} s is the limit".format(longest, LIMIT_SECONDS))


if __name__ == "__main__":
    main()
