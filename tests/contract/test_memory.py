from __future__ import annotations

from tests.contract.exclusion import Exclusion
from tests.contract.interrupts import Interrupts
from tests.contract.manners import Manners
from tests.contract.naming import Naming
from tests.contract.sessions import Sessions
from tests.contract.strangers import Strangers
from tests.contract.timing import Timing


class TestExclusion(Exclusion):
    pass


class TestInterrupts(Interrupts):
    pass


class TestManners(Manners):
    pass


class TestNaming(Naming):
    pass


class TestSessions(Sessions):
    pass


class TestStrangers(Strangers):
    pass


class TestTiming(Timing):
    pass
