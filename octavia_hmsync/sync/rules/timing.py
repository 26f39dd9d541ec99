# SPDX-License-Identifier: Apache-2.0

"""The options that the rules of membership need."""

import dataclasses
import typing

from octavia_hmsync.sync.rules import subset


@dataclasses.dataclass(frozen=True)
class Settings:
    """The options that the rules depend on; all in seconds."""

    heartbeat_interval: float
    heartbeat_timeout: float
    offline_after: float
    settle_time: float
    removal_delay: float
    restart_grace: float = 0

    @classmethod
    def from_conf(cls, conf: typing.Any) -> typing.Self:
        """Take them from a parsed oslo.config object."""
        health_manager, hmsync = conf.health_manager, conf.hmsync
        return cls(heartbeat_interval=health_manager.heartbeat_interval,
                   heartbeat_timeout=health_manager.heartbeat_timeout,
                   offline_after=hmsync.offline_after,
                   settle_time=hmsync.settle_time,
                   removal_delay=hmsync.removal_delay,
                   restart_grace=hmsync.restart_grace)

    @property
    def clock_tolerance(self) -> float:
        """Seconds by which the database's clock may drift between looks."""
        # Within this no service that writes a keepalive each
        # keepalive_interval, at most half of offline_after, looks dead.
        return self.offline_after / 3

    @property
    def lapses_after(self) -> float:
        """Seconds from its housekeeper's last keepalive until a pin lapses."""
        return self.offline_after + self.removal_delay

    @property
    def max_list_length(self) -> int:
        return subset.max_list_length(self.heartbeat_timeout,
                                      self.heartbeat_interval)
