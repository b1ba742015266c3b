# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Record what NVML answers here, or compare a recording with the simulator. It reads only, and masks who the GPU is.

python -m tools.nvml_answers record FILE [--gpu INDEX]      on a machine with a GPU; needs nvidia-ml-py
python -m tools.nvml_answers compare FILE [--built FOLDER]  anywhere; needs a C compiler and make
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from .compare import compare, not_simulated
from .record import record
from .simulated import ROOT, build, simulated


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.nvml_answers", description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    recorder = commands.add_parser("record", help="write what the GPU answers into a file; - is standard output")
    recorder.add_argument("file")
    recorder.add_argument("--gpu", type=int, default=0, metavar="INDEX")
    comparer = commands.add_parser("compare", help="list where the simulator answers otherwise")
    comparer.add_argument("file")
    comparer.add_argument("--built", type=Path, metavar="FOLDER", help="a built simulator")
    options = parser.parse_args()
    return _record(options) if options.command == "record" else _compare(options)


def _record(options: argparse.Namespace) -> int:
    try:
        import pynvml
    except ImportError:
        print("module pynvml: it is not installed; install nvidia-ml-py", file=sys.stderr)
        return 2
    try:
        told = record(pynvml, options.gpu)
    except pynvml.NVMLError as error:
        print("NVML: {0}; run this on a machine with an NVIDIA GPU and its driver".format(error), file=sys.stderr)
        return 2
    text = json.dumps(told, indent=1) + "\n"
    if options.file == "-":
        sys.stdout.write(text)
    else:
        Path(options.file).write_text(text, encoding="utf-8")
    return 0


def _compare(options: argparse.Namespace) -> int:
    real = json.loads(Path(options.file).read_text(encoding="utf-8"))
    built = options.built or ROOT / "build" / "nvml_simulator"
    if options.built is None:
        build(built)
    try:
        answers = simulated(real, built)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    differences = compare(real, answers)
    for difference in differences:
        print(difference)
    missing = not_simulated(real, answers)
    print("{0} answers, {1} differ, {2} not simulated".format(len(real["answers"]), len(differences), len(missing)))
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
