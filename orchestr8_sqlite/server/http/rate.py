"""Limits the requests per second of each HTTP client, with a token bucket per address.

Clients on this machine are not limited: they are its user, or a proxy that acts for many and has its own limits.
"""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

BURST_SECONDS = 5
"""A client that was quiet may send the requests of this many seconds at once."""

MOST_CLIENTS = 10_000
"""Most addresses to remember; above that, the one quiet for longest is forgotten."""

NETWORK_OF_A_CLIENT = 64
"""Leading bits of an IPv6 address that a client cannot choose."""


class Bucket(NamedTuple):
    """Requests that a client had left at a time, in seconds; below 0 after a batch of more than that."""

    left: float
    at: float


class Rate:
    """Counts the requests of clients, at most *per_second* each in the long run."""

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._most = max(1.0, per_second * BURST_SECONDS)
        self._clock = clock
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def wait(self, address: str) -> float:
        """Count a request from *address* and return 0, or return the seconds to wait until one is allowed."""
        client = client_of(address)
        if client is None:
            return 0.0
        now = self._clock()
        before = self._buckets.pop(client, Bucket(self._most, now))
        left = min(self._most, before.left + (now - before.at) * self._per_second)
        self._buckets[client] = Bucket(left - 1 if left >= 1 else left, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if left >= 1 else (1 - left) / self._per_second

    def add(self, address: str, requests: int) -> None:
        """Count *requests* more that came with an allowed one; later requests wait for them."""
        client = client_of(address)
        if client is not None and client in self._buckets:
            left, at = self._buckets[client]
            self._buckets[client] = Bucket(left - requests, at)


def client_of(address: str) -> str | None:
    """Return the client that *address* counts for, or None for this machine."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address  # not an IP address
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback:
        return None
    return str(ip) if ip.version == 4 else str(ipaddress.ip_network((ip, NETWORK_OF_A_CLIENT), strict=False))
