# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the wheel of pip that this Python brings, and one of a package of one line, into the folder given."""

from __future__ import annotations

import ensurepip
import shutil
import sys
import zipfile
from pathlib import Path

FILES = {
    "example.py": "VERSION = '1.0'\n",
    "example-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: example\nVersion: 1.0\n",
    "example-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
}
RECORD = "example-1.0.dist-info/RECORD"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    (pip,) = Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl")
    shutil.copy(pip, folder)
    with zipfile.ZipFile(folder / "example-1.0-py3-none-any.whl", "w") as archive:
        for path, text in FILES.items():
            archive.writestr(path, text)
        archive.writestr(RECORD, "".join("{0},,\n".format(path) for path in (*FILES, RECORD)))


if __name__ == "__main__":
    main()
