"""The rule of each kind of contender: the one place that knows them all."""

from __future__ import annotations

from recipes._contract.rule import Rule
from recipes._rules.barrier import PARTY
from recipes._rules.exclusive import EXCLUSIVE, WRITER
from recipes._rules.members import member_of
from recipes._rules.permits import permits_of
from recipes._rules.readwrite import SHARED

__all__ = ["rule_of"]

_RULES = {rule.kind: rule for rule in (EXCLUSIVE, WRITER, SHARED, PARTY)}


def rule_of(kind: str) -> Rule:
    """Return the rule of a kind; an unknown one, of another version or another client, is exclusive."""
    return _RULES.get(kind) or permits_of(kind) or member_of(kind) or WRITER
