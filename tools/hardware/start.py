# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The main program of the file: unpack the node command with bytecode for this Python, then run the steps."""

import os
import signal
import sys
import tempfile

OLDEST = (3, 8)


def main() -> int:
    if sys.version_info < OLDEST:
        print(
            "gpu-node-hardware: Python {0}.{1} is too old; run it with Python 3.8 or newer.".format(*sys.version_info)
        )
        return 1
    for number in (signal.SIGTERM, signal.SIGHUP):  # as ^C does
        signal.signal(number, signal.default_int_handler)
    try:
        with tempfile.TemporaryDirectory(prefix="gpu-node-hardware-") as folder:
            return _run(folder)
    except KeyboardInterrupt:
        print("\ninterrupted: nothing was written", file=sys.stderr)
        return 130
    except OSError as error:
        reason = "gpu-node-hardware: {0}: {1}; free some space there, or set TMPDIR to another directory."
        print(reason.format(error.filename or tempfile.gettempdir(), error.strerror), file=sys.stderr)
        return 1


def _run(folder: str) -> int:
    import pkgutil

    command = os.path.join(folder, "gpunode.pyz")
    content = pkgutil.get_data("ansible_collections", "gpunode.pyz")
    assert content is not None
    _write(command, content)
    # The library is that of the node command; its modules have the names that they have in a collection.
    from ansible_collections.trainyard.gpu_node.plugins import module_utils

    module_utils.__path__[:] = [command + "/gpu_node"]
    sys.path.append(command)
    from ansible_collections.trainyard.gpu_node.plugins.module_utils.resources.node_runtime import bytecode, launcher
    from ansible_collections.trainyard.gpu_node.tools.hardware import run

    def installed() -> str:
        """The node command as a node has it, for a fair cost of whole commands; it takes some seconds."""
        made = bytecode.with_bytecode(content, launcher.interpreter())
        os.mkdir(os.path.join(folder, "installed"))
        path = os.path.join(folder, "installed", "gpunode")
        _write(path, made)
        return path

    return run.main(sys.argv[1:], folder, installed)


def _write(path: str, content: bytes) -> None:
    with open(path, "wb") as stream:
        stream.write(content)
    os.chmod(path, 0o700)


if __name__ == "__main__":
    sys.exit(main())
