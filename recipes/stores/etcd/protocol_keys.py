"""What a contender's key says in a reply, and how to ask the same as a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from recipes._contract.contenders import Contender
from recipes._contract.operations import Place
from recipes.stores.etcd import codec
from recipes.stores.etcd.layout import DOWNGRADED, is_downgraded

__all__ = ["as_seen", "compare_seen", "compare_stands", "key_of", "ref_key", "stands"]

Json = Mapping[str, Any]


def key_of(place: Place) -> bytes:
    """Return the key that a place is."""
    return ref_key(place.ref)


def ref_key(ref: str) -> bytes:
    """Return the key that a reference names (see ``layout.ref_of``)."""
    return ref.encode("utf-8", "surrogateescape")


def compare_stands(place: Place) -> Json:
    """Return the comparison that says what `stands` does."""
    return codec.compare_created(key_of(place), place.token)


def compare_seen(target: Contender, mine: Place) -> list[Json]:
    """Return the comparisons that say what `as_seen` does."""
    key = ref_key(target.ref)
    there = codec.compare_present(key, before=mine.token)
    if not mine.spot.shared:
        return there
    return [*there, codec.compare_value(key, DOWNGRADED if target.downgraded else b"")]


def stands(response: Json, place: Place) -> bool:
    """Whether the own key is there, among others or alone, as it was created."""
    key = key_of(place)
    return any(kv.key == key and kv.created == place.token for kv in codec.keys(response))


def as_seen(response: Json, target: Contender, mine: Place) -> bool:
    """Whether another's key is there as it was seen; one made again behind mine blocks nobody."""
    ours = bool(target.id)  # the values of others mean nothing
    return any(
        kv.created < mine.token
        and (not mine.spot.shared or (ours and is_downgraded(kv.value)) == target.downgraded)
        for kv in codec.keys(response)
    )
