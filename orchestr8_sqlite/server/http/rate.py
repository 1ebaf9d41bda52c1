"""How many requests a second each client may send over HTTP: a bucket of tokens for every address.

Whoever is on this machine is not limited: it is its user, or a proxy that speaks for everybody and has limits itself.
"""

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

BURST_SECONDS = 5
"""For how long a client that was quiet may send at once what it may send in that time."""

MOST_CLIENTS = 10_000
"""Addresses that are remembered; beyond them the one that was quiet for longest is forgotten."""

NETWORK_OF_A_CLIENT = 64
"""Bits of an IPv6 address that a client cannot choose at will."""


class Bucket(NamedTuple):
    """What was left for a client, in requests, at a time; below 0 where a batch had more than that."""

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
        """Return 0 and count a request from *address*, or the seconds after which there is room for it."""
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
        """Count *requests* more that came with one for which there was room; the next ones wait for them."""
        client = client_of(address)
        if client is not None and client in self._buckets:
            left, at = self._buckets[client]
            self._buckets[client] = Bucket(left - requests, at)


def client_of(address: str) -> str | None:
    """Return whom requests and connections from *address* count for, None for this machine."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address  # no address of the Internet
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback:
        return None
    return str(ip) if ip.version == 4 else str(ipaddress.ip_network((ip, NETWORK_OF_A_CLIENT), strict=False))
