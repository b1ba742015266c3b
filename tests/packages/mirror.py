# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serves a folder on the loopback interface: whole files on one port; on the other each breaks off half-way.

python3 mirror.py FOLDER PORT PORT_THAT_BREAKS_OFF
"""

from __future__ import annotations

import functools
import http.server
import sys
import threading


class Whole(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *dummy):
        pass


class BreaksOff(Whole):
    """The length was promised, half of it is sent, and the connection ends."""

    def copyfile(self, source, outputfile):
        text = source.read()
        outputfile.write(text[: len(text) // 2])


if __name__ == "__main__":
    for port, kind in zip(sys.argv[2:], (Whole, BreaksOff)):
        handler = functools.partial(kind, directory=sys.argv[1])
        server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), handler)
        threading.Thread(target=server.serve_forever).start()
