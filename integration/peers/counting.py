"""What a counter should stand; raises `Broken` or `DoesNotApply`."""

from __future__ import annotations

from integration.peers.stage import PATIENCE_S, Broken, DoesNotApply, Stage

__all__ = ["lost_reply_to_an_addition"]


def lost_reply_to_an_addition(stage: Stage) -> None:
    counter = stage.client(frail=True).counter("x")
    if counter is None:
        raise DoesNotApply("has no counter")
    counter.add()
    lost = stage.lose_reply(stage.writes)
    adding = stage.doing(counter.add)
    assert lost.wait(PATIENCE_S)
    if not adding.ends(PATIENCE_S):
        raise Broken("the addition hangs")
    if adding.error is not None:
        raise Broken("the addition raises")
    if counter.get() != 2:
        raise Broken("the addition counts twice")
