# Copyright (c) 2026, trainyard.gpu_node contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Headless Chromium, controlled by Chrome's DevTools protocol over a pair of pipes."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Optional, Type

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome")
SECONDS = 120.0


class BrowserError(Exception):
    """What failed, and the remedy."""


class Browser:
    """One page of a browser of its own: ``with Browser() as page``."""

    def __init__(self) -> None:
        self._program = next((found for found in map(shutil.which, PROGRAMS) if found), None)
        if self._program is None:
            raise BrowserError("no browser: install chromium-headless-shell (Debian) or Google Chrome")
        self._number = 0
        self._read = b""
        self._session = ""

    def __enter__(self) -> "Browser":
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        # Chromium reads from descriptor 3 and writes to 4.
        words = ["bash", "-c", 'exec "$@" 3<&{0} 4>&{1}'.format(commands, answers), "bash", str(self._program)]
        words += [
            "--headless",
            "--remote-debugging-pipe",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-web-security",
        ]
        words += ["--user-data-dir=" + self._profile.name, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        log = Path(self._profile.name) / "log"
        with log.open("wb") as stream:
            self._process = subprocess.Popen(
                words, pass_fds=(commands, answers), stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
        os.close(commands)
        os.close(answers)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._process.terminate()
        self._process.wait(30)
        os.close(self._commands)
        os.close(self._answers)
        self._profile.cleanup()

    def call(self, method: str, **parameters: Any) -> Any:
        """The result of one method of the protocol; events are skipped."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._commands, data) :]
        end = time.monotonic() + SECONDS
        while True:
            answer = self._message(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise BrowserError("{0}: {1}".format(method, answer["error"]["message"]))
                return answer["result"]

    def _message(self, end: float) -> Any:
        while b"\0" not in self._read:
            ready, _write, _error = select.select([self._answers], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise BrowserError("the browser did not answer within {0:.0f} s".format(SECONDS))
            data = os.read(self._answers, 1 << 16)
            if not data:
                raise BrowserError("the browser exited")
            self._read += data
        text, _null, self._read = self._read.partition(b"\0")
        return json.loads(text)

    def open(self, path: Path) -> None:
        """Load a page of this machine and run its scripts."""
        self.call("Page.navigate", url=path.as_uri())
        while self.evaluate("document.readyState") != "complete":
            time.sleep(0.05)

    def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression, or what its promise resolves to."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in done:
            told = done["exceptionDetails"]
            raise BrowserError(told.get("exception", {}).get("description") or told["text"])
        return done["result"].get("value")

    def size(self, width: int, height: int) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def picture(self) -> bytes:
        """The window as PNG."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
