"""The timeline's page in a browser: it draws, zooms, moves and tells, and asks the network for nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from integration.cli.picture import draw, logged
from integration.harness.finding import may_install

TTL_S = 8
"""Of workers that lose nothing on a busy machine, but for the one that is stopped."""

PROBE = """
<script>
{
const found = {ready: document.body.dataset.ready, requests: performance.getEntriesByType("resource").length};
const bars = [...document.querySelectorAll(".panel")[0].querySelectorAll(".bar")];
const widths = () => bars.map(bar => +bar.getAttribute("width"));
const labels = () => document.querySelectorAll(".label[visibility=visible]").length;
const first = widths(), firstLabels = labels();
document.getElementById("in").click();
document.getElementById("in").click();
found.zoomed = widths().reduce((a, b) => a + b) / first.reduce((a, b) => a + b);
found.ticks = [...document.querySelectorAll(".tick text")].slice(0, 3).map(text => text.textContent);
const svg = document.querySelector("#picture svg"), bar = bars[0].getBoundingClientRect();
const at = x => ({bubbles: true, clientX: x, clientY: bar.top + 2, movementX: 60});
const before = bars[0].getAttribute("x");
svg.dispatchEvent(new PointerEvent("pointerdown", at(500)));
svg.dispatchEvent(new PointerEvent("pointermove", at(560)));
dispatchEvent(new PointerEvent("pointerup"));
found.moved = bars[0].getAttribute("x") - before;
svg.dispatchEvent(new WheelEvent("wheel", {...at(500), deltaY: -1, cancelable: true}));
found.wheeled = widths().reduce((a, b) => a + b) / first.reduce((a, b) => a + b);
document.getElementById("all").click();
found.restored = JSON.stringify(widths()) === JSON.stringify(first) && labels() === firstLabels;
bars[0].dispatchEvent(new PointerEvent("pointerover", {bubbles: true}));
found.said = document.getElementById("said").textContent;
found.labels = firstLabels;
const result = document.createElement("pre");
result.id = "found";
result.textContent = JSON.stringify(found);
document.body.append(result);
}
</script>
"""


@pytest.fixture(scope="session")
def chromium() -> str:
    """Return a Chromium: one that is there, or, as root, one that is installed now."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    if not may_install():
        pytest.skip("NOT TESTED: there is no chromium, and none may be installed")
    for words in (["update"], ["install", "-y", "--no-install-recommends", "chromium", "fonts-dejavu-core"]):
        subprocess.run(
            ["apt-get", "-qq", *words], check=True, env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        )
    found = shutil.which("chromium")
    assert found is not None, "apt has installed it"
    return found


@pytest.mark.long
def test_the_page_works_in_a_browser(chromium: str, tmp_path: Path) -> None:
    log, path = tmp_path / "demo.jsonl", tmp_path / "timeline.html"
    logged(f"sqlite://{tmp_path}/locks.db", log, ttl_s=TTL_S)
    draw(log, path)
    path.write_text(path.read_text().replace("</body>", PROBE + "</body>"))
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1300,900"]
    profile = f"--user-data-dir={tmp_path}/profile"
    done = subprocess.run(
        [*command, profile, "--virtual-time-budget=5000", "--dump-dom", path.as_uri()],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    result = re.search(r'<pre id="found">(.*?)</pre>', done.stdout)
    assert result is not None, done.stderr[-2000:]
    found = json.loads(result[1].replace("&quot;", '"').replace("&amp;", "&"))
    assert (found["ready"], found["requests"]) == ("2", 0)
    assert 2 < found["zoomed"] <= 4.01
    assert found["wheeled"] > found["zoomed"] * 1.1
    assert found["moved"] == pytest.approx(60, abs=5)
    assert found["restored"]
    assert found["labels"] > 10
    assert "worker" in found["said"]
    assert all(re.fullmatch(r"[\d.]+ s", text) for text in found["ticks"])


@pytest.mark.long
def test_the_picture_shows_the_loss(tmp_path: Path) -> None:
    log, path = tmp_path / "demo.jsonl", tmp_path / "timeline.svg"
    lines = logged(f"sqlite://{tmp_path}/locks.db", log, ttl_s=TTL_S)
    draw(log, path)
    assert [line["event"] for line in lines if line.get("event") == "lock.lost"] == ["lock.lost"]
    assert lines[-1]["ok"]
    text = path.read_text()
    assert text.count('class="bar over"') == 1
    assert "Out of the ordinary: 1 lost" in text
