"""Records compare, hash and show as the dataclasses do that they take the place of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from recipes._record import record


@record
class Seat:
    row: int
    name: str = ""
    note: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)


@record
class Bench:
    row: int
    name: str = ""


@record
class Nothing:
    pass


@dataclass(frozen=True)
class Plain:
    row: int
    name: str = ""
    note: str = field(default="", compare=False)
    secret: str = field(default="", repr=False)


def test_equal_fields_of_one_class_are_equal() -> None:
    assert Seat(1, "a") == Seat(1, "a", note="other")
    assert Seat(1, "a") != Seat(1, "a", secret="other")
    assert Seat(1, "a") != Seat(2, "a")
    assert Seat(1, "a") != Bench(1, "a")
    assert Seat(1, "a") != (1, "a")
    assert Nothing() == Nothing()
    assert Nothing() != Seat(1)


def test_equal_records_hash_alike() -> None:
    assert len({Seat(1, "a"), Seat(1, "a", note="other"), Seat(2, "a")}) == 2
    assert hash(Nothing()) == hash(Nothing())


def test_a_record_is_shown_as_a_dataclass() -> None:
    assert repr(Seat(1, "a", "b", "c")) == repr(Plain(1, "a", "b", "c")).replace("Plain", "Seat")
    assert repr(Nothing()) == "Nothing()"


def test_a_record_is_replaced_and_matched_and_has_slots() -> None:
    match replace(Seat(1, "a"), name="b"):
        case Seat(row, name):
            assert (row, name) == (1, "b")
    assert not hasattr(Seat(1), "__dict__")
