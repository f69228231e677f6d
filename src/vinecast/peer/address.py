"""Where a node listens: a host and a port, written the way people write it."""

import ipaddress
from dataclasses import dataclass

from vinecast.core.errors import InputError

HOST_CHARACTERS_MAX = 253
"""The longest name that the domain name system allows."""


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """A host (name or IP) and a port. ``str`` and ``parse`` are each other's inverse."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read ``host:port`` or ``[::1]:port``; anything else is an InputError."""
        host, colon, port = text.strip().rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
            good = _is_ip(host, 6)
        else:
            good = ":" not in host
        good = good and bool(colon) and 0 < len(host) <= HOST_CHARACTERS_MAX
        good = good and host.isascii() and host.isprintable() and not any(c in host for c in " []/@")
        good = good and port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= 65535
        if not good:
            raise InputError(f"not an address: {text[:80]!r}; write host:port, or [::1]:port for IPv6")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def reachable(announced: Address, seen_host: str) -> Address:
    """Where others can reach a peer that announces one address and is seen to come from some host.

    A node that listens on every interface does not know its own address, and one that says "localhost"
    from afar means its own: both are reachable where they were seen.
    """
    if _is_unspecified(announced.host) or (is_loopback(announced.host) and not is_loopback(seen_host)):
        return Address(seen_host, announced.port)
    return announced


def _is_ip(host: str, version: int) -> bool:
    try:
        return ipaddress.ip_address(host).version == version
    except ValueError:
        return False


def _is_unspecified(host: str) -> bool:
    return host in ("", "0.0.0.0", "::")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, as it calls itself."""
    return host in ("localhost", "::1") or (host.startswith("127.") and _is_ip(host, 4))
