"""Drives Chromium without a window, by the DevTools protocol over pipes: no port, no library."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

# Chromium on a machine with few cores takes seconds to start.
LIMIT_S = 60.0


def program():
    """Chromium's path; None where it is not installed."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page. Use it with `with`."""

    def __init__(self, width=1280, height=900, dark=False):
        self.size, self.dark = (width, height), dark
        self.number, self.events = 0, []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="headwater-browser-", ignore_cleanup_errors=True)
        to_child, self.out = os.pipe()
        self.into, from_child = os.pipe()

        def pipes():
            # Where Chromium looks for them. Copies first: the numbers may be in use.
            ours, theirs = os.dup(to_child), os.dup(from_child)
            os.dup2(ours, 3)
            os.dup2(theirs, 4)

        self.child = subprocess.Popen(
            [
                program(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                "--disable-background-networking", "--no-first-run", "--hide-scrollbars",
                "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}", "about:blank",
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            close_fds=False, preexec_fn=pipes,
        )
        os.close(to_child)
        os.close(from_child)
        self.rest, self.session = b"", None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.look(*self.size, dark=self.dark)
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        os.close(self.out)
        os.close(self.into)
        self.folder.cleanup()

    def call(self, method, **parameters):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            asked["sessionId"] = self.session
        os.write(self.out, json.dumps(asked).encode() + b"\0")
        end = time.monotonic() + LIMIT_S
        while True:
            said = self._next(end)
            if said.get("id") != self.number:
                self.events.append(said)
            elif "error" in said:
                raise RuntimeError(f"{method}: {said['error']}")
            else:
                return said["result"]

    def _next(self, end):
        while b"\0" not in self.rest:
            if time.monotonic() > end:
                raise TimeoutError("Chromium does not answer")
            read = os.read(self.into, 1 << 20)
            if not read:
                raise EOFError("Chromium has ended")
            self.rest += read
        said, self.rest = self.rest.split(b"\0", 1)
        return json.loads(said)

    def look(self, width, height, dark=False):
        """The size of the window, and the theme that the system asks for."""
        self.size = (width, height)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, url):
        self.call("Page.navigate", url=url)

    def run(self, script):
        """The value of an expression in the page; promises are awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{script}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait(self, script, limit_s=LIMIT_S):
        """Waits until an expression is true; its value."""
        end = time.monotonic() + limit_s
        while True:
            # A page that is being loaded lacks what is looked for.
            found = self.run(f"(() => {{ try {{ return ({script}) }} catch {{ return null }} }})()")
            if found:
                return found
            if time.monotonic() > end:
                raise TimeoutError(f"not true within {limit_s} s: {script}\n{self.text()}")
            time.sleep(0.1)

    def text(self):
        return self.run("document.body.innerText")

    def point(self, selector, across=0.5, down=0.5):
        """Moves the mouse over an element."""
        box = self.run(f"(({{x, y, width, height}}) => [x, y, width, height])"
                       f"(document.querySelector({selector!r}).getBoundingClientRect())")
        x, y = box[0] + across * box[2], box[1] + down * box[3]
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path, whole=True):
        """A PNG file of the window, or of the whole page."""
        width, height = self.size
        if whole:
            height = max(height, int(self.run("document.documentElement.scrollHeight")))
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        png = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        Path(path).write_bytes(base64.b64decode(png["data"]))

    def problems(self):
        """What the page's scripts and its policy complained of."""
        self.run("0")
        found = []
        for event in self.events:
            method, about = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(about["exceptionDetails"].get("text", "") + str(about["exceptionDetails"].get("exception", {}).get("description", "")))
            elif method == "Log.entryAdded" and about["entry"]["level"] == "error":
                found.append(about["entry"]["text"] + " " + about["entry"].get("url", ""))
        return found

    def requested(self):
        """Every address that the page has asked for."""
        events = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in events]
