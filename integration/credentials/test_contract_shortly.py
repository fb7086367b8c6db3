"""A part of the contract with TLS, user and password on; ``test_contract_secured.py`` is the whole of it."""

from __future__ import annotations

from tests.contract.exclusion import Exclusion
from tests.contract.reading import Reading
from tests.contract.sessions import Sessions


class TestShortly:
    """Waiting, in order; a session that is cut off; readers and writers."""

    test_who_comes_second = Exclusion.test_who_comes_second_waits_for_the_first
    test_order_of_arrival = Exclusion.test_waiters_are_served_in_order_of_arrival
    test_a_connection_that_is_cut = Sessions.test_a_waiter_whose_connection_is_cut_keeps_its_place
    test_downgrade = Reading.test_downgrade_lets_the_next_readers_in_and_no_writer
