"""A kazoo of which a private method has one parameter more, as a later version may have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.protocol.connection import ConnectionHandler

from recipes.stores.zookeeper.kazoo_client_fit import fits

__all__ = ["another_kazoo"]

_submit = ConnectionHandler._submit


def _submit_of_another(self: Any, request: Any, timeout: Any, xid: Any = None, urgent: bool = False) -> None:
    _submit(self, request, timeout, xid)


@pytest.fixture
def another_kazoo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have it in place of the installed one."""
    monkeypatch.setattr(ConnectionHandler, "_submit", _submit_of_another)
    fits.cache_clear()
    yield
    fits.cache_clear()
