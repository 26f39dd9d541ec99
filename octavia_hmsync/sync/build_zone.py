# SPDX-License-Identifier: Apache-2.0

"""The zone of what Octavia itself builds, while a compute zone is drained."""

from octavia_hmsync import live_options
from octavia_hmsync.sync.db import zone_drain as drain_repo

GROUP = 'nova'
OPTION = 'availability_zone'


class LiveBuildZone(live_options.LiveOptions):
    """Keeps the option at the zone that drains name, or as octavia.conf.

    :param engine: as that of LiveOptions.
    """

    def __init__(self, conf, engine):
        super().__init__(conf, 'build zone', GROUP, (OPTION,), engine)
        # Before any override.
        self._default = conf[GROUP][OPTION]

    def _read(self):
        zone = drain_repo.get_build_zone(self.engine, self._default)
        # What is as octavia.conf has it needs no override.
        return {OPTION: None if zone == self._default else zone}, ''
