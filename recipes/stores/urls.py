"""The parts of a store's URL: its scheme, its servers, and its path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

__all__ = ["encrypted", "encrypts", "hosts_of", "layout_of", "root_of", "written"]

_ENCRYPTED = ("zookeepers", "etcds", "rediss")


def encrypts(scheme: str) -> bool:
    """Whether the stores with this scheme are spoken to by TLS."""
    return scheme.partition("+")[0] in _ENCRYPTED


def encrypted(scheme: str) -> str:
    """Return the scheme for the same store by TLS."""
    store, plus, kind = scheme.partition("+")
    return f"{store}s{plus}{kind}"


def hosts_of(parts: SplitResult, default_port: int, example: str = "") -> list[tuple[str, int]]:
    """Return the hosts and ports of a URL like ``scheme://a:1,b,[::1]:2/root``."""
    example = f"write for example {example or _example(parts.scheme, default_port)}"
    if not parts.netloc:
        raise ValueError(f"{parts.scheme}:// names no server; {example}")
    hosts = [_host(text, default_port, example) for text in parts.netloc.split(",")]
    if len(set(hosts)) != len(hosts):
        raise ValueError(f"{parts.scheme}:// names the same server twice")
    return hosts


def written(host: str, port: int) -> str:
    """Return a server as a URL names it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _example(scheme: str, port: int) -> str:
    return f"{scheme}://host1:{port},host2:{port}/app"


def _host(text: str, default_port: int, example: str) -> tuple[str, int]:
    if any(map(str.isspace, text)):
        raise ValueError(f"{text!r} is no host:port, for there is white space in it; {example}")
    one = urlsplit(f"//{text}")
    try:
        host, port = one.hostname, one.port
    except ValueError:
        raise ValueError(f"{text!r} is no host:port; the port is a number up to 65535") from None
    if not host or port == 0:
        raise ValueError(f"{text!r} is no host:port; {example}")
    return _ascii(host, example), port or default_port


def _ascii(host: str, example: str) -> str:
    """Return a host name as resolvers and HTTP have it."""
    if host.isascii():
        return host
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        raise ValueError(f"{host!r} is no name of a host; {example}") from None


def root_of(parts: SplitResult) -> str:
    """Return the path of a URL without slashes around it, checked.

    Raises:
        ValueError: It has an empty or dotted component, or a character that is not plain.
    """
    root = unquote(parts.path).strip("/")
    if not root:
        return ""
    for component in root.split("/"):
        plain = component.replace("-", "").replace("_", "").replace(".", "")
        if not (plain.isascii() and plain.isalnum()):
            raise ValueError(
                f"the path of a store's URL is made of A-Z a-z 0-9 _ . - between single slashes, not {root!r}"
            )
    return root


def layout_of(options: Mapping[str, Any], other: str) -> str | None:
    """Return what ``layout=`` says, which is None or the one ``other`` layout that a store has.

    Raises:
        ValueError: It is another.
        TypeError: It is no text.
    """
    layout = options.get("layout")
    if layout is not None and not isinstance(layout, str):
        raise TypeError(f"layout= is text, not {type(layout).__name__}")
    if layout not in (None, other):
        raise ValueError(f"layout={layout!r}: use {other!r}, or leave it out")
    return layout
