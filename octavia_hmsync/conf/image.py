# SPDX-License-Identifier: Apache-2.0

"""The options of image upgrades, all in ``[hmsync_image]``."""

from oslo_config import cfg

from octavia_hmsync.conf import windows
from octavia_hmsync import exceptions

GROUP = 'hmsync_image'

_service_opts = [
    cfg.IntOpt('image_timeout', default=30, min=1, max=600,
               advanced=True, mutable=True,
               help='Seconds to wait for the answer of the image service '
                    'when it is asked which image a tag has. A larger value '
                    'tolerates a slow service, but lets a command hang for '
                    'longer if the service is down.'),
]

_rollout_opts = [
    cfg.IntOpt('rollout_canaries', default=1, min=0,
               help='How many load balancers of each topology, flavor, '
                    'availability zone and image come first in a rollout; '
                    'the others wait until they are done. More find a '
                    'rarer fault; 0 has no canaries.'),
    cfg.IntOpt('rollout_parallel', default=1, min=1,
               help='How many load balancers of a rollout have an amphora '
                    'replaced at once. A larger value is faster and takes '
                    'more of the compute service; while many are PENDING, '
                    'Octavia notices dead amphorae of others later.'),
    cfg.IntOpt('rollout_parallel_per_az', default=0, min=0,
               help='The same for each availability zone. 0 has no limit of '
                    'its own.'),
    cfg.IntOpt('rollout_rate_per_hour', default=0, min=0,
               help='How many load balancers may begin within an hour. A '
                    'smaller value leaves more time to notice what no check '
                    'does. 0 has no limit.'),
    cfg.IntOpt('rollout_max_failures', default=1, min=1,
               help='With so many failed load balancers a rollout is HALTED. '
                    'A larger value tolerates more faults of single load '
                    'balancers.'),
    cfg.IntOpt('rollout_watch_time', default=300, min=0,
               help='Seconds for which the new amphorae of a load balancer '
                    'are watched when it is done, before that makes room for '
                    'the next one, canaries before all others. What falls '
                    'silent, is in ERROR or is failed over again in this '
                    'time has failed. A larger value finds what fails late, '
                    'and a rollout takes longer by so much for each load '
                    'balancer, divided by rollout_parallel. 0 does not '
                    'watch.'),
    cfg.StrOpt('rollout_windows', default='',
               help='When a rollout may begin something, in UTC: days and a '
                    'time of day, "Sat,Sun 01:00-05:00", several separated '
                    'by semicolons. Without days it is each day, and '
                    'without windows always. What has begun comes to its '
                    'end later, too.'),
]

_replace_opts = [
    cfg.IntOpt('replacements_at_once', default=4, min=1, max=64,
               help='How many load balancers one octavia-housekeeping '
                    'replaces the amphorae of at once. A larger value is '
                    'faster when an operator asks for many; each has a '
                    'thread, and builds an instance.'),
    cfg.IntOpt('proof_timeout', default=120, min=10,
               advanced=True, mutable=True,
               help='Seconds in which a new amphora must be shown to '
                    'serve, in addition to two of heartbeat_interval and the '
                    'time in which its health monitors find a member that is '
                    'down. Of the latter, which tenants set, no more than '
                    'proof_timeout counts: a load balancer is locked '
                    'for twice proof_timeout at most while its new amphora '
                    'is proven. After that the old state is restored.'),
    cfg.IntOpt('failover_timeout', default=1800, min=60,
               advanced=True, mutable=True,
               help='Seconds in which an octavia-worker must fail over '
                    'an amphora in mode failover. '
                    'After them the replacement has failed, and the load '
                    'balancer is left to that worker. A smaller value shows '
                    'sooner that no worker runs; a worker that waits for a '
                    'slow compute service needs as long as that takes.'),
]

_history_opts = [
    cfg.IntOpt('history_days', default=90, min=0,
               mutable=True,
               help='Days after which rollouts and replacements that ended '
                    'are deleted from the database; a rollout goes with all '
                    'of its replacements, and so are orders of operators '
                    '("order list") of that age. A larger value shows more '
                    'of what happened, and takes a row for each replacement '
                    'and order. 0 keeps them for ever.'),
]

OPTS = _service_opts + _replace_opts + _rollout_opts + _history_opts


def check(conf):
    """Check the options, without a request, or raise InvalidConfiguration."""
    try:
        windows.parse(conf[GROUP].rollout_windows)
    except exceptions.NotPossible as e:
        raise exceptions.InvalidConfiguration(
            f'[{GROUP}] rollout_windows cannot be used: {e}') from None
