"""The parts of a store's URL: its servers, and its path."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urlsplit

__all__ = ["hosts_of", "root_of"]


def hosts_of(parts: SplitResult, default_port: int) -> list[tuple[str, int]]:
    """Return the hosts and ports of a URL like ``scheme://a:1,b,[::1]:2/root``."""
    example = f"write for example {parts.scheme}://host1:{default_port},host2:{default_port}/app"
    if not parts.netloc:
        raise ValueError(f"{parts.scheme}:// names no server; {example}")
    hosts = [_host(text, default_port, example) for text in parts.netloc.split(",")]
    if len(set(hosts)) != len(hosts):
        raise ValueError(f"{parts.scheme}:// names the same server twice")
    return hosts


def _host(text: str, default_port: int, example: str) -> tuple[str, int]:
    one = urlsplit(f"//{text}")
    try:
        host, port = one.hostname, one.port
    except ValueError:
        raise ValueError(f"{text!r} is no host:port; the port is a number up to 65535") from None
    if not host or port == 0:
        raise ValueError(f"{text!r} is no host:port; {example}")
    return host, port or default_port


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
