"""The transport of live nodes: TCP and TLS 1.3, on asyncio protocols (streams cost ten times as much).

Connections are accepted by hand, one at a time, so that one too many is turned away before TLS spends a
millisecond on it.
"""

import asyncio
import functools
import socket
import ssl
from typing import Unpack

from vinecast.core.errors import InputError, RemoteError
from vinecast.node.transport.connection import Connection
from vinecast.node.transport.connection_transport import ConnectionTransport
from vinecast.node.transport.interface import SessionDraws, TransportConfig
from vinecast.node.transport.sessions import SessionOptions
from vinecast.node.transport.tls import contexts, public_key_of
from vinecast.peer.address import Address
from vinecast.peer.identity import Identity

_BREATH_S = 0.1
"""How long to wait when the system has no more sockets to give. Ours."""


class TlsTransport(ConnectionTransport):
    """See the module's text and ``Transport``."""

    def __init__(
        self,
        identity: Identity,
        listen: Address,
        network: str,
        draws: SessionDraws,
        config: TransportConfig | None = None,
        **options: Unpack[SessionOptions],
    ) -> None:
        super().__init__(identity, listen, network, draws, config, **options)
        self._server_context, self._client_context = contexts(identity)
        self._socket: socket.socket | None = None
        self._doorman: asyncio.Task[None] | None = None
        self._handshakes: set[asyncio.Task[None]] = set()

    async def _listen(self, listen: Address) -> Address:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(
                listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, _, _, _, place = found[0]
            self._socket = socket.create_server(place[:2], family=family, backlog=self.config.handshakes_max)
        except OSError as error:
            raise InputError(f"cannot listen on {listen}: {error.strerror or error}") from None
        self._socket.setblocking(False)
        self._doorman = loop.create_task(self._accept_all(self._socket))
        return Address(listen.host, self._socket.getsockname()[1])

    async def _unlisten(self) -> None:
        tasks = list(self._handshakes)
        if self._doorman is not None:
            tasks.append(self._doorman)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._socket is not None:
            self._socket.close()

    async def _accept_all(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                incoming, place = await loop.sock_accept(listener)
            except OSError:  # it left before it came in, or there are no more descriptors
                self.refused("accept failed")
                await asyncio.sleep(_BREATH_S)
                continue
            connection = self._accept(str(place[0]).partition("%")[0])
            if connection is None:
                incoming.close()
                continue
            task = loop.create_task(self._shake_hands(incoming, connection))
            self._handshakes.add(task)
            task.add_done_callback(functools.partial(self._shaken, incoming, connection))

    async def _shake_hands(self, incoming: socket.socket, connection: Connection) -> None:
        try:
            async with asyncio.timeout(self.config.unauthenticated_s):
                await asyncio.get_running_loop().connect_accepted_socket(
                    lambda: connection,
                    incoming,
                    ssl=self._server_context,
                    ssl_handshake_timeout=self.config.unauthenticated_s + 1,
                    ssl_shutdown_timeout=self.config.close_s,
                )
        except TimeoutError:
            connection.drop("no handshake in time")
        except ssl.SSLError:
            connection.drop("TLS handshake failed")
        except OSError:
            connection.drop("connection lost in the handshake")

    def _shaken(self, incoming: socket.socket, connection: Connection, task: asyncio.Task[None]) -> None:
        """A handshake is over, one way or the other; perhaps it was called off before it began."""
        self._handshakes.discard(task)
        if not connection.connected:
            connection.drop("connection lost in the handshake")
            self.gone(connection)
            incoming.close()

    async def _open(self, address: Address, connection: Connection) -> None:
        try:
            await asyncio.get_running_loop().create_connection(
                lambda: connection,
                address.host,
                address.port,
                ssl=self._client_context,
                server_hostname="",
                ssl_handshake_timeout=self.config.dial_s + 1,
                ssl_shutdown_timeout=self.config.close_s,
            )
        except ssl.SSLError:
            raise RemoteError("TLS handshake failed") from None
        except TimeoutError:
            raise
        except socket.gaierror:
            raise RemoteError("unknown host") from None
        except ConnectionRefusedError:
            raise RemoteError("nobody listens there") from None
        except (OSError, ValueError, OverflowError):  # whatever a stranger's address makes of a socket
            raise RemoteError("could not connect") from None

    def _public_key(self, stream: asyncio.Transport) -> bytes:
        tls = stream.get_extra_info("ssl_object")
        return public_key_of(tls.getpeercert(binary_form=True) if tls is not None else None)
