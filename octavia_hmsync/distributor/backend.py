# SPDX-License-Identifier: Apache-2.0

"""What forwards packets, as the rest of the distributor uses it.

``[hmsync_distributor] backend`` names one; Open vSwitch is in the folder ovs.
"""

from collections import abc
import typing

from octavia_hmsync.distributor import document as doc


class Heard(typing.Protocol):
    """What came by a Line.

    :ivar frames: from members.
    :ivar marks: of send() that have come back.
    :ivar is_more: whether there may be more.
    """

    frames: list[bytes]
    marks: list[bytes]
    is_more: bool


class Line(typing.Protocol):
    """Frames in and out of a VIP's network, never waiting.

    Each method may raise VswitchUnavailable; then it is of no use any more.
    """

    def fileno(self) -> int:
        """Return its descriptor."""

    def send(self, frames: abc.Iterable[bytes],
             mark: bytes | None = None) -> None:
        """Send frames, and hear of a mark once they were sent."""

    def receive(self) -> Heard:
        """Return what came."""

    def close(self) -> None:
        """Close it."""


class Backend(typing.Protocol):
    """The data plane; each method may raise VswitchUnavailable.

    A transition is what it wants to have remembered of a VIP: a dict of JSON.
    """

    def start(self) -> None:
        """Begin what is done all the time, as in threads."""

    def stop(self) -> None:
        """End it."""

    def advance(self, document: doc.Document,
                previous: dict[str, typing.Any] | None,
                now: float) -> dict[str, typing.Any]:
        """Return the transition that follows."""

    def is_due(self, document: doc.Document,
               state: dict[str, typing.Any], now: float) -> bool:
        """Tell whether a transition ends now, by time alone."""

    def share(self, state: dict[str, typing.Any],
              now: float) -> dict[str, typing.Any]:
        """Return of a transition what another distributor adopts; pure."""

    def adopt(self, document: doc.Document, state: dict[str, typing.Any],
              shared: dict[str, typing.Any],
              now: float) -> dict[str, typing.Any]:
        """Return the transition to go on with, by another's; pure."""

    def apply(self, vip_id: str, document: doc.Document,
              previous: dict[str, typing.Any] | None, now: float,
              keep: abc.Callable[[dict[str, typing.Any]], None] | None = None,
              down: abc.Collection[str] = ()) -> dict[str, typing.Any]:
        """Put it in force.

        Another transition than advance() returned is kept before it is.

        :param down: MAC addresses of members whose front ends are seen DOWN.
        """

    def describe(self, state: dict[str, typing.Any]
                 ) -> dict[str, typing.Any] | None:
        """Return what is to be shown of a transition; None if it is over.

        A dict with mappings, how many there are, and pinned, MAC addresses.
        """

    def read_pins(self, vip_id: str) -> list[typing.Any]:
        """Return connections that are remembered one by one."""

    def take_pins(self, vip_id: str, document: doc.Document,
                  pins: list[typing.Any]) -> None:
        """Remember those of another distributor, in place of earlier ones."""

    def remove(self, vip_id: str) -> bool:
        """Remove all there is of a VIP."""

    def list_vips(self) -> abc.Iterable[str]:
        """Return the ids of VIPs that the data plane has a part of."""

    def read_traffic(self, vip_id: str, macs: list[str],
                     ) -> dict[str, dict[str, int]]:
        """Return packets and bytes that were sent to each member."""

    def read_counters(self, vip_id: str, macs: list[str],
                      ) -> dict[str, typing.Any]:
        """Return what went through, and what is remembered."""

    def has_lost_flows(self) -> abc.Iterable[str]:
        """Return the ids of VIPs whose apply() is undone."""

    def measure_load(self) -> dict[str, typing.Any]:
        """Keep within its bounds; return what /v1/status has of them.

        Called again and again.
        """

    def check(self) -> object:
        """Return the version of what forwards packets."""

    def dial(self, vip_id: str) -> Line:
        """Connect to what forwards the packets of a VIP."""

    def announce(self, vip_id: str) -> None:
        """Say anew whose the addresses of a VIP are, if they are its own."""

    def count_lost(self) -> int | None:
        """Return how many packets it has lost so far; None if unknown."""
