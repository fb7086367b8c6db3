"""Options that a database's driver takes, or does not."""

from __future__ import annotations

import ssl
from typing import Any

import pytest

import recipes
from recipes.stores.credentials import Credentials


@pytest.mark.parametrize("connect", [recipes.connect, recipes.connect_async])
def test_psycopg_is_given_files_and_no_context(connect: Any) -> None:
    with pytest.raises(ValueError, match=r"ssl_context= is nothing to psycopg.*tls_ca=.*postgresql\+asyncpg"):
        connect("postgresql://host/app", ssl_context=ssl.create_default_context())


@pytest.mark.parametrize(
    ("connect", "scheme"),
    [
        (recipes.connect_async, "postgresql+asyncpg"),
        (recipes.connect_async, "mysql"),
        (recipes.connect, "mysql"),
    ],
)
def test_other_drivers_are_given_a_context(connect: Any, scheme: str) -> None:
    connect(f"{scheme}://host/app", ssl_context=ssl.create_default_context())


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_a_user_needs_no_password(scheme: str) -> None:
    recipes.connect(f"{scheme}://app@host/app")
    known = Credentials.given(scheme, {"username": "app"}, passwordless=True)
    assert known is not None
    assert (known.username, bool(known.source)) == ("app", False)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"password": "x"}, "username= is missing"),
        ({"username": "app", "password": ""}, "password= is empty"),
        ({"username": ""}, "username= is empty"),
    ],
)
def test_a_password_needs_a_user_and_an_empty_one_is_none(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Credentials.given("postgresql", options, passwordless=True)
