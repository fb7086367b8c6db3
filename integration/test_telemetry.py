"""Metrics and spans on every server, in both APIs: what ``tests/telemetry`` has without one."""

from __future__ import annotations

from typing import Any

import pytest

from tests.telemetry.looking import seen_by_otel, seen_by_prometheus, spans_of
from tests.telemetry.scenes import APIS


@pytest.mark.parametrize("scene", list(APIS.values()), ids=list(APIS))
def test_what_happened_is_measured_and_traced(url: str, scene: Any, nothing_left: None) -> None:
    queued: list[int] = []

    def traced(_tracer: Any) -> None:
        queued.append(seen_by_prometheus(lambda: seen_by_otel(lambda: scene(url))))

    spans = spans_of(traced)
    waits = [span for span in spans if span.name == "lock.acquire"]
    assert sum(len(span.links) for span in waits) == queued[0]
    assert len([span for span in spans if span.name == "lock.hold"]) == 3
