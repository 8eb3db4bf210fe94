"""A network in memory that delays, cuts, holds up and breaks, from a seed.

    protocol ◂──▸ End ───── bytes, in order, in pieces, later ─────▸ End ◂──▸ protocol
                   └──────────────────── one link ───────────────────┘

Like TCP it never reorders or changes bytes: it stops at some point, and each end learns of that
in its own time, or not at all.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from flo.client.session.transport import Connect

Accept: TypeAlias = Callable[[], asyncio.Protocol]

PIECES_MAX = 4


class LinkQuality(NamedTuple):
    """How bad a network is. Chances are of a write, or of an attempt to connect."""

    delay_ms_max: float = 5.0
    cut_chance: float = 0.0
    """Bytes written at once arrive in pieces."""
    break_chance: float = 0.0
    """Some of the bytes arrive, and then the link is gone."""
    refuse_chance: float = 0.0
    silence_ms_max: float = 0.0
    """How long an end may be left in the dark about a link that is gone."""
    buffer_length_max: int = 65_536
    """With more than this under way, a writer is asked to pause."""


PERFECT = LinkQuality()


class Network:
    """Joins clients at named places to the one server that listens."""

    def __init__(self, rng: random.Random, quality: LinkQuality = PERFECT) -> None:
        self.rng = rng
        self.quality = quality
        self._accept: Accept | None = None
        self._links: dict[Link, None] = {}
        self._cut_off: dict[str, asyncio.Event] = {}

    def listen(self, accept: Accept) -> None:
        self._accept = accept

    def connect_from(self, place: str) -> Connect:
        """The way from this place to whoever listens."""

        async def connect(factory: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
            await asyncio.sleep(self.delay_s())
            while place in self._cut_off:
                await self._cut_off[place].wait()
            if self._accept is None or self.happens(self.quality.refuse_chance):
                raise ConnectionRefusedError(f"nobody listens to {place}")
            link = Link(self, place, factory(), self._accept())
            self._links[link] = None
            link.open()
            return link.client

        return connect

    def stop_listening(self) -> None:
        """Nobody is let in any more, and whoever is in will be shown out."""
        self._accept = None
        for link in self._links:
            link.has_had_trouble = True

    def lose_server(self, *, silently: bool) -> None:
        """The server's process is gone: its ends hear no more, and the others hear of it."""
        self.stop_listening()
        for link in tuple(self._links):
            link.lose_server(silently=silently)

    def cut_off(self, place: str) -> None:
        """Hold up all that goes to this place or comes from it."""
        if place not in self._cut_off:
            self._cut_off[place] = asyncio.Event()
            for link in self.links_of(place):
                link.has_had_trouble = True

    def part(self, place: str) -> None:
        """Cut it off, and let the server see its links break; the place hears when it is healed."""
        self.cut_off(place)
        for link in self.links_of(place):
            link.lose_client()

    def heal(self, place: str) -> None:
        """Let it pass again. Some links have not survived."""
        cut_off = self._cut_off.pop(place, None)
        if cut_off is None:
            return
        cut_off.set()
        for link in self.links_of(place):
            link.heal()

    def heal_all(self) -> None:
        for place in tuple(self._cut_off):
            self.heal(place)

    def break_one(self) -> None:
        """Break some link, if there is any."""
        if self._links:
            self.rng.choice(tuple(self._links)).break_off()

    def good_link(self, place: str) -> "Link | None":
        """The link from this place, if it has one that never had any trouble."""
        for link in self.links_of(place):
            if not link.has_had_trouble and not link.client.is_closing():
                return link
        return None

    def links_of(self, place: str) -> "list[Link]":
        return [link for link in self._links if link.place == place]

    def is_cut_off(self, place: str) -> bool:
        return place in self._cut_off

    def forget(self, link: "Link") -> None:
        self._links.pop(link, None)

    def happens(self, chance: float) -> bool:
        return chance > 0.0 and self.rng.random() < chance

    def delay_s(self) -> float:
        return self.rng.random() * self.quality.delay_ms_max / 1_000

    def silence_s(self) -> float:
        return self.rng.random() * self.quality.silence_ms_max / 1_000


class Link:
    """One connection: two ends, and what is under way between them."""

    def __init__(
        self, network: Network, place: str, client: asyncio.Protocol, server: asyncio.Protocol
    ) -> None:
        self.network = network
        self.place = place
        self.has_had_trouble = False
        self.client = End(self, client)
        self.server = End(self, server)
        self.client.peer, self.server.peer = self.server, self.client

    @property
    def is_held_up(self) -> bool:
        return self.network.is_cut_off(self.place)

    def open(self) -> None:
        self.server.protocol.connection_made(self.server)
        self.client.protocol.connection_made(self.client)

    def break_off(self) -> None:
        """Each direction loses what is under way, from some point on."""
        self.has_had_trouble = True
        for end in (self.client, self.server):
            end.lose_some()
            end.expect(_Lost(ConnectionResetError("the link is gone")), self.network.silence_s())

    def heal(self) -> None:
        if self.network.happens(self.network.quality.break_chance * 10):
            self.break_off()
        self.client.deliver()
        self.server.deliver()

    def lose_server(self, *, silently: bool) -> None:
        self.has_had_trouble = True
        self.server.vanish()
        delay_s = self.network.silence_s() if silently else self.network.delay_s()
        self.client.expect(_Lost(ConnectionResetError("the server is gone")), delay_s)

    def lose_client(self) -> None:
        self.has_had_trouble = True
        error = ConnectionResetError("the link is gone")
        self.client.expect(_Lost(error), self.network.delay_s())
        self.server.lose(error)

    def forget_if_over(self) -> None:
        if self.client.is_gone and self.server.is_gone:
            self.network.forget(self)


class _Lost(NamedTuple):
    """Comes after the last bytes of a link; without an error it was closed in order."""

    error: Exception | None


class End(asyncio.Transport):
    """One end of a link: a Transport to its protocol."""

    peer: "End"

    def __init__(self, link: Link, protocol: asyncio.Protocol) -> None:
        super().__init__()
        self.protocol = protocol
        self.is_gone = False
        self.gone_at_s = 0.0
        self._link = link
        self._network = link.network
        self._loop = asyncio.get_running_loop()
        self._closing = False
        self._paused = False
        self._arriving: deque[bytes | _Lost] = deque()
        self._arrived = 0
        """How many of those that are arriving have come; the rest are still under way."""
        self._last_at_s = 0.0
        self._unread_length = 0
        """How much of what was written here the peer has not read yet."""
        self._is_full = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._closing or not data:
            return
        data = bytes(data)
        network, quality = self._network, self._network.quality
        if network.happens(quality.break_chance):
            self.peer.expect(data[: network.rng.randrange(len(data) + 1)], network.delay_s())
            self._link.break_off()
            return
        self._unread_length += len(data)
        for piece in self._pieces(data) if network.happens(quality.cut_chance) else (data,):
            self.peer.expect(piece, network.delay_s())
        if self._unread_length > quality.buffer_length_max and not self._is_full:
            self._is_full = True
            self.protocol.pause_writing()

    def close(self) -> None:
        """The peer gets all that was written, and then the end."""
        self._hang_up(None)

    def abort(self) -> None:
        """What is under way may be lost; that it is over is heard in any case."""
        if self._loop.is_closed():  # the simulation is over
            return
        error = ConnectionResetError("the link was given up")
        self.peer.lose_some()
        if self._closing:
            self.peer.expect(_Lost(error), self._network.delay_s())
        self._hang_up(error)

    def is_closing(self) -> bool:
        return self._closing

    def get_write_buffer_size(self) -> int:
        return self._unread_length

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._loop.call_soon(self.deliver)

    def expect(self, arrival: bytes | _Lost, delay_s: float) -> None:
        """This will arrive, after all that is under way already."""
        if self.is_gone:
            return
        self._last_at_s = max(self._last_at_s, self._loop.time() + delay_s)
        self._arriving.append(arrival)
        self._loop.call_at(self._last_at_s, self._arrive)

    def lose_some(self) -> None:
        """Of what is under way, only the beginning arrives."""
        kept = self._network.rng.randrange(self._arrived, len(self._arriving) + 1)
        while len(self._arriving) > kept:
            self._arriving.pop()

    def deliver(self) -> None:
        while self._arrived and not self._paused and not self._link.is_held_up:
            self._arrived -= 1
            match self._arriving.popleft():
                case _Lost(error):
                    self.lose(error)
                    return
                case data:
                    self.peer.read(len(data))
                    if not self._closing:
                        self.protocol.data_received(data)

    def read(self, length: int) -> None:
        """The peer has read so much of what was written here."""
        self._unread_length -= length
        if self._is_full and self._unread_length <= self._network.quality.buffer_length_max // 2:
            self._is_full = False
            if not self._closing:
                self.protocol.resume_writing()

    def vanish(self) -> None:
        """The process at this end is no more; nobody is notified."""
        if not self.is_gone:
            self.gone_at_s = self._loop.time()
        self._closing = self.is_gone = True
        self._arriving.clear()
        self._arrived = 0
        self._link.forget_if_over()

    def _pieces(self, data: bytes) -> list[bytes]:
        count = self._network.rng.randrange(1, PIECES_MAX)
        cuts = sorted(self._network.rng.randrange(len(data) + 1) for _ in range(count))
        pieces = [
            data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)
        ]
        return [piece for piece in pieces if piece]

    def _hang_up(self, error: Exception | None) -> None:
        if self._closing:
            return
        self._closing = True
        self.peer.expect(_Lost(error), self._network.delay_s())
        self._loop.call_soon(self.lose, error)

    def _arrive(self) -> None:
        if self._arrived < len(self._arriving):
            self._arrived += 1
            self.deliver()

    def lose(self, error: Exception | None) -> None:
        """The protocol at this end hears that the link is gone."""
        if self.is_gone:
            return
        self.vanish()
        self.protocol.connection_lost(error)
