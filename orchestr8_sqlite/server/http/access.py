"""Who may reach the server over HTTP: where it listens, and which names, origins and token it accepts."""

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field

from orchestr8_sqlite.errors import ServeError, SettingsError
from orchestr8_sqlite.system import is_posix

ADDRESS = re.compile(r"(?:\[(?P<literal>[^\]]+)\]|(?P<host>[^:\[\]]+)):(?P<port>[0-9]{1,5})")
"""HOST:PORT, with an IPv6 address in brackets. Source: RFC 3986, section 3.2."""

PORT = re.compile(r":[0-9]{1,5}\Z")
NAME = re.compile(r"[A-Za-z0-9.\[\]:_-]+")
ORIGIN = re.compile(r"https?://[A-Za-z0-9.\[\]:_-]+")
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
BACKLOG = 1024
"""Most connections that wait for a worker to accept them."""

RATE = 20.0
"""Requests per second: several assistants behind one address send fewer; a processor answers several times more."""


@dataclass(frozen=True, slots=True)
class Access:
    """Validated access; `hosts` and `origins` are accepted in addition to those of the address.

    `rate` limits each client on another machine to that many requests per second in the long run; 0 means no limit.
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
    """Return the access for the values of a command line.

    Args:
        address: HOST:PORT; with port 0 the system chooses a free one.
        hosts: Additional names for the server, each valid for any port.
        origins: Origins of web pages that may call the server, such as `https://tools.example.org`.
        rate: Requests per second of one client, 0 for no limit.

    Raises:
        SettingsError: One of the values is invalid.
    """
    parts = ADDRESS.fullmatch(address)
    if parts is None or int(parts["port"]) > 65_535:
        raise SettingsError(f"{address!r} is not HOST:PORT; use one such as 127.0.0.1:8765 or [::1]:8765.")
    for host in hosts:
        if not NAME.fullmatch(host):
            raise SettingsError(f"{host!r} is not a host name; use one such as library.example.org.")
    for origin in origins:
        if not ORIGIN.fullmatch(origin):
            raise SettingsError(f"{origin!r} is not an origin; use one such as https://tools.example.org.")
    return Access(parts["literal"] or parts["host"], int(parts["port"]), tuple(hosts), tuple(origins), token, rate)


def bind(access: Access) -> socket.socket:
    """Return a socket that is bound to the address but does not listen yet.

    Its protocol is set to TCP explicitly: asyncio checks that before it turns off the delay of small answers.

    Raises:
        SettingsError: Other machines can reach the address, but there is no token.
        ServeError: The server cannot listen on the address.
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
            if is_posix():  # on Windows it would let two servers share the port
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as problem:
        raise ServeError(f"The server cannot listen on {at}: {problem.strerror}; choose another address.") from None
    return listener


def own_names(access: Access, listener: socket.socket) -> tuple[str, ...]:
    """Return the names with port for clients on the network of *listener*, without the additional ones."""
    address, port = listener.getsockname()[:2]
    ip = ipaddress.ip_address(address)
    named = f"[{access.host}]" if ":" in access.host else access.host
    names = [] if ip.is_unspecified else [named]
    if ip.is_loopback or ip.is_unspecified:
        names += LOOPBACK_NAMES
    return tuple(f"{name}:{port}" for name in dict.fromkeys(names))


class Names:
    """The names that requests may use for the server, and the web pages that may send them.

    Other names are refused, because a web page can point a name of its own at this server (DNS rebinding).
    """

    def __init__(self, own: Sequence[str], access: Access) -> None:
        """Take the server's *own* names with port, and the additional names and origins of *access*."""
        self._own = frozenset(own)
        self._further = frozenset(access.hosts)
        self._origins = frozenset((*(f"http://{name}" for name in own), *access.origins))

    def knows_host(self, host: str, local: tuple[str, int] | None) -> bool:
        """Tell whether the header Host may be *host*; *local*, this end of the connection, is accepted too."""
        is_local = local is not None and host == _with_port(*local)
        return is_local or host in self._own or PORT.sub("", host) in self._further

    def knows_origin(self, origin: str) -> bool:
        """Tell whether a web page of *origin* may send requests."""
        return origin in self._origins


def _with_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
