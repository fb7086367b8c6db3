"""All planted bugs, and how one is put in place in a process that runs the default tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from unittest import mock

from recipes._contract.rule import Rule
from tests.mutants.in_behind import BEHIND
from tests.mutants.in_elections import IN_ELECTIONS
from tests.mutants.in_etcd_connections import CONNECTIONS
from tests.mutants.in_etcd_lists import LISTS
from tests.mutants.in_etcd_values import ETCD_VALUES
from tests.mutants.in_late_copies import LATE_COPIES
from tests.mutants.in_outside import OUTSIDE
from tests.mutants.in_partitions import IN_PARTITIONS
from tests.mutants.in_permits import IN_PERMITS
from tests.mutants.in_receipts import IN_RECEIPTS
from tests.mutants.in_redis import IN_REDIS
from tests.mutants.in_runtime import RUNTIME
from tests.mutants.in_signals import SIGNALS
from tests.mutants.in_sqlite import SQLITE
from tests.mutants.in_taken import TAKEN
from tests.mutants.in_wires import IN_WIRES
from tests.mutants.in_zookeeper import IN_ZOOKEEPER
from tests.mutants.transports import TRANSPORTS, TransportMutant
from tests.simulation import exhaustive, users
from tests.simulation.mutants import MUTANTS, Mutant

__all__ = ["CASES", "VARIABLE", "Case", "case_named", "in_the_package", "plant_for_good"]

VARIABLE = "RECIPES_TEST_MUTANT"
"""Where a process finds the id of the bug that it is to have."""


@dataclass(frozen=True, slots=True)
class Case:
    """One bug on one store; transports have none."""

    id: str
    mutant: Mutant | TransportMutant
    store: str = ""


CASES = [
    *(
        Case(f"{number}-{store}", mutant, store)
        for number, mutant in enumerate(MUTANTS)
        for store in mutant.stores
    ),
    *(Case(f"transport-{number}", mutant) for number, mutant in enumerate(TRANSPORTS)),
    *(Case(f"sqlite-{number}", mutant) for number, mutant in enumerate(SQLITE)),
    *(Case(f"zookeeper-{number}", mutant) for number, mutant in enumerate(IN_ZOOKEEPER)),
    *(Case(f"etcd-connection-{number}", mutant) for number, mutant in enumerate(CONNECTIONS)),
    *(Case(f"etcd-lists-{number}", mutant) for number, mutant in enumerate(LISTS)),
    *(Case(f"etcd-values-{number}", mutant) for number, mutant in enumerate(ETCD_VALUES)),
    *(Case(f"wires-{number}", mutant) for number, mutant in enumerate(IN_WIRES)),
    *(Case(f"outside-{number}", mutant) for number, mutant in enumerate(OUTSIDE)),
    *(Case(f"signals-{number}", mutant) for number, mutant in enumerate(SIGNALS)),
    *(Case(f"runtime-{number}", mutant) for number, mutant in enumerate(RUNTIME)),
    *(Case(f"permits-{number}", mutant) for number, mutant in enumerate(IN_PERMITS)),
    *(Case(f"elections-{number}", mutant) for number, mutant in enumerate(IN_ELECTIONS)),
    *(Case(f"partitions-{number}", mutant) for number, mutant in enumerate(IN_PARTITIONS)),
    *(Case(f"redis-{number}", mutant) for number, mutant in enumerate(IN_REDIS)),
    *(Case(f"receipts-{number}", mutant) for number, mutant in enumerate(IN_RECEIPTS)),
    *(Case(f"late-copies-{number}", mutant) for number, mutant in enumerate(LATE_COPIES)),
    *(Case(f"taken-{number}", mutant) for number, mutant in enumerate(TAKEN)),
    *(Case(f"behind-{number}", mutant) for number, mutant in enumerate(BEHIND)),
]


def case_named(name: str) -> Case:
    """Return the case with this id."""
    return next(case for case in CASES if case.id == name)


@contextmanager
def in_the_package(case: Case) -> Iterator[None]:
    """Have a bug in place wherever the package's own recipe would be used."""
    with ExitStack() as stack:
        for patch in case.mutant.plant():
            stack.enter_context(patch)
        if isinstance(case.mutant, Mutant):
            for patch in _wrong_rules(case.mutant):
                stack.enter_context(patch)
        yield


def _wrong_rules(mutant: Mutant) -> Iterator[mock._patch[object]]:
    """Have a wrong recipe stand for the true one of its kind, in schedules of every kind."""
    wrong = [*mutant.rules, *filter(None, [mutant.rule])]

    def instead(rule: Rule) -> Rule:
        return next((one for one in wrong if one.kind == rule.kind), rule)

    yield mock.patch.object(users, "EXCLUSIVE", instead(users.EXCLUSIVE))
    yield mock.patch.object(users, "MIXED", tuple(map(instead, users.MIXED)))
    yield mock.patch.object(
        exhaustive, "ROLES", {role: instead(rule) for role, rule in exhaustive.ROLES.items()}
    )


def plant_for_good() -> None:
    """Put the bug in place that the environment names, for the rest of this process."""
    name = os.environ.get(VARIABLE)
    if name:
        for patch in case_named(name).mutant.plant():
            patch.start()
