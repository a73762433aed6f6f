"""A headless Chromium driven over its DevTools protocol, through a pipe: no driver, no package, no port.

https://chromedevtools.github.io/devtools-protocol/ ; messages are JSON, each ended by a zero byte, read by Chromium
from file descriptor 3 and written to 4.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import signal
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
WAIT_S = 60.0


def find_chromium() -> str | None:
    """``$WARPWISE_CHROMIUM``, or a Chromium on the path, or None."""
    named = os.environ.get("WARPWISE_CHROMIUM")
    return named or next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One page of a headless Chromium. ``problems`` are uncaught exceptions, console errors and network requests."""

    def __init__(self, profile: Path, executable: str) -> None:
        to_child, own_out = os.pipe()
        own_in, from_child = os.pipe()
        # Well above 3 and 4, which the child gets them as: none must be in another's way.
        reading, writing = (fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 32) for each in (to_child, from_child))
        arguments = [
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-gpu",
            "--hide-scrollbars",
            "--disable-dev-shm-usage",
            f"--user-data-dir={profile}",
        ]
        arguments.append(
            "--no-sandbox"
        )  # it refuses root, and needs what a container may lack; only our own files are opened
        null = os.open(os.devnull, os.O_RDWR)
        self._pid = os.posix_spawn(
            executable,
            [executable, *arguments, "about:blank"],
            os.environ,
            setpgroup=0,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, old, new)
                for old, new in ((reading, 3), (writing, 4), (null, 0), (null, 1), (null, 2))
            ],
        )
        for each in (to_child, from_child, reading, writing, null):
            os.close(each)
        self._out, self._in = os.fdopen(own_out, "wb", buffering=0), os.fdopen(own_in, "rb", buffering=0)
        self._rest, self._number, self._session = b"", 0, ""
        self.problems: list[str] = []
        self._loaded = False
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)  # else no page has the focus before a first input

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._out.close()
        self._in.close()
        end = time.monotonic() + 10  # Chromium exits when the pipe is closed
        while os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.killpg(self._pid, signal.SIGKILL)
                os.waitpid(self._pid, 0)
                return
            time.sleep(0.02)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command and its answer; what happens meanwhile is noted."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._out.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            if not select.select([self._in], [], [], WAIT_S)[0]:
                raise TimeoutError(f"Chromium said nothing for {WAIT_S:.0f} s")
            part = self._in.read(1 << 20)
            if not part:
                raise RuntimeError("Chromium ended before it answered")
            self._rest += part
        text, _, self._rest = self._rest.partition(b"\0")
        message = dict(json.loads(text))
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, method: str, told: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Runtime.exceptionThrown":
            self.problems.append(str(told["exceptionDetails"].get("exception", {}).get("description", told)))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.problems.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.problems.append(str(told["entry"]))
        elif method == "Network.requestWillBeSent" and not told["request"]["url"].startswith(
            ("file:", "data:", "about:")
        ):
            self.problems.append(f"asked for {told['request']['url']}")

    def open(
        self, path: Path, fragment: str = "", width: int = 1280, height: int = 900, dark: bool = False, media: str = ""
    ) -> None:
        """Show a file at this width, light or dark, on the screen or (``media="print"``) on paper."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        self.call("Emulation.setTouchEmulationEnabled", enabled=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        for url in ("about:blank", path.resolve().as_uri() + fragment):  # another fragment alone would load nothing
            self._loaded = False
            self.call("Page.navigate", url=url)
            end = time.monotonic() + WAIT_S
            while not self._loaded:
                if time.monotonic() > end:
                    raise TimeoutError(f"{url}: not loaded after {WAIT_S:.0f} s")
                self._next()

    def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page. Raises ``RuntimeError`` where it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def mouse(self, x: float, y: float) -> None:
        """Move the mouse there."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, pointerType="mouse")

    def tap(self, x: float, y: float) -> None:
        """Touch there and let go."""
        self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def picture(self, whole: bool = False) -> bytes:
        """A PNG of what is in the window, or of the ``whole`` page."""
        more: dict[str, Any] = {}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            more = {
                "captureBeyondViewport": True,
                "clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1},
            }
        return base64.b64decode(self.call("Page.captureScreenshot", format="png", **more)["data"])

    def pdf(self) -> bytes:
        """The page as it prints."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"])
