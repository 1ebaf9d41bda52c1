"""Who may reach the server over HTTP: where it listens, and which names, origins and token it accepts."""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestr8_sqlite.errors import ServeError, SettingsError
from orchestr8_sqlite.system import is_posix

ADDRESS = re.compile(r"(?:\[(?P<literal>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
"""HOST:PORT; an IPv6 address stands in brackets. Source: RFC 3986, section 3.2."""

PORT = re.compile(r":[0-9]{1,5}\Z")
NAME = re.compile(r"[A-Za-z0-9.\[\]:_-]+")
ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
BACKLOG = 1024
"""Connections that may wait for a worker to accept them."""

RATE = 20.0
"""Requests a second: several assistants behind one address send fewer, a processor answers a few times as many."""


@dataclass(frozen=True, slots=True)
class Access:
    """Validated access; `hosts` and `origins` are accepted besides those of the address itself.

    `rate` is how many requests a second one client of another machine may send in the long run, 0 for any number.
    """

    host: str
    port: int
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    token: str | None = field(default=None, repr=False)
    rate: float = RATE


def read_access(
    address: str,
    *,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    token: str | None = None,
    rate: float = RATE,
) -> Access:
    """Return the access that the values of a command line ask for.

    Args:
        address: HOST:PORT; with port 0 the system chooses a free one.
        hosts: Further names by which clients may call the server, each for any port.
        origins: Origins of web pages that may call it, such as `https://tools.example.org`.
        rate: Requests a second of one client, 0 for any number.

    Raises:
        SettingsError: One of them cannot be used.
    """
    parts = ADDRESS.fullmatch(address)
    if parts is None or int(parts["port"]) > 65_535:
        raise SettingsError(f"{address!r} is no HOST:PORT; give one such as 127.0.0.1:8765 or [::1]:8765.")
    for host in hosts:
        if not NAME.fullmatch(host):
            raise SettingsError(f"{host!r} is no name of a host; give one such as library.example.org.")
    for origin in origins:
        if not ORIGIN.fullmatch(origin):
            raise SettingsError(f"{origin!r} is no origin; give one such as https://tools.example.org.")
    return Access(parts["literal"] or parts["host"], int(parts["port"]), tuple(hosts), tuple(origins), token, rate)


def bind(access: Access) -> socket.socket:
    """Return a socket that is bound to the address, and does not listen yet.

    It is made for TCP by name: asyncio looks at that before it turns off the delay of small answers.

    Raises:
        SettingsError: Other machines can reach the address, and there is no token.
        ServeError: The address cannot be had.
    """
    at = f"{access.host}:{access.port}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(access.host, access.port, type=socket.SOCK_STREAM)[0]
        if access.token is None and not ipaddress.ip_address(str(address[0])).is_loopback:
            raise SettingsError(
                f"Other machines can reach {at}: set ORCHESTR8_HTTP_TOKEN or ORCHESTR8_HTTP_TOKEN_FILE, or listen on "
                "127.0.0.1."
            )
        listener = socket.socket(family, kind, socket.IPPROTO_TCP)
        try:
            if is_posix():  # elsewhere it would let two servers share the port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as problem:
        raise ServeError(f"{at} cannot be listened on: {problem.strerror}; choose another address.") from None
    return listener


def own_names(access: Access, listener: socket.socket) -> tuple[str, ...]:
    """Return the names with port by which clients on the network of *listener* know it, without further ones."""
    address, port = listener.getsockname()[:2]
    ip = ipaddress.ip_address(address)
    named = f"[{access.host}]" if ":" in access.host else access.host
    names = [] if ip.is_unspecified else [named]
    if ip.is_loopback or ip.is_unspecified:
        names += LOOPBACK_NAMES
    return tuple(f"{name}:{port}" for name in dict.fromkeys(names))


class Names:
    """By which names requests may call the server, and from which web pages they may come.

    All of them lead to this server for sure; a web page could let a name of its own lead here (DNS rebinding).
    """

    def __init__(self, own: Sequence[str], access: Access) -> None:
        """Take the server's *own* names with port, and the further ones of *access*."""
        self._own = frozenset(own)
        self._further = frozenset(access.hosts)
        self._origins = frozenset((*(f"http://{name}" for name in own), *access.origins))

    def knows_host(self, host: str, local: tuple[str, int] | None) -> bool:
        """Tell whether the header Host may say *host*, by a connection whose end is *local* here: that address, too."""
        is_local = local is not None and host == _with_port(*local)
        return is_local or host in self._own or PORT.sub("", host) in self._further

    def knows_origin(self, origin: str) -> bool:
        """Tell whether a request may come from a web page of *origin*."""
        return origin in self._origins


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
