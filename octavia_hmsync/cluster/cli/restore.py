# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync cluster restore."""

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cluster import claims
from octavia_hmsync.cluster.cli import common
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import restore as restore_repo
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import restore as snapshot_repo
from octavia_hmsync.image.preflight import finding
from octavia_hmsync.image.recovery import restorable

_OLDER_THAN = 3600
_CLAIM_EXPIRY = 60


class RestoreCluster(base.DatabaseMixin, command.Command):
    """Bring back a load balancer whose change ended half-way.

    For one that is PENDING_UPDATE because an octavia-worker died with a
    change of it, or in ERROR because too few members took one. It is ACTIVE
    again, or in ERROR if too few members serve; what was to be made or
    deleted is in ERROR, and can be deleted. Housekeeping tells each member
    all that Octavia has of it; nothing is built or deleted.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('cluster', metavar='<cluster>',
                            help='its id or name, or those of its load '
                                 'balancer')
        parser.add_argument(
            '--older-than', type=base.positive_seconds, metavar='<seconds>',
            default=_OLDER_THAN,
            help='refuse one that is PENDING_UPDATE and was changed within '
                 'these, by the clocks of the controllers: somebody may still '
                 f'work on it (default: {_OLDER_THAN})')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database()
        cluster = common.find_cluster(engine, parsed_args.cluster)
        common.check_that_it_stays(engine, cluster)
        held = claims.Claims(engine, conf.host, _CLAIM_EXPIRY)
        owner = held.claim(cluster.id)
        if owner is None:
            raise exceptions.NotPossible(
                f'Somebody works on cluster {cluster.id} (claimed by '
                f'{cluster.claimed_by}): try again when that is done.')
        try:
            snapshot = snapshot_repo.get(engine, cluster.load_balancer_id)
            self._check(conf, cluster, snapshot, parsed_args.older_than)
            status = self._choose_status(engine, cluster, snapshot)
            statuses = {each: restorable.get_status(each)
                        for each in snapshot.objects}
            if not restore_repo.restore(engine, cluster.id, owner,
                                        _CLAIM_EXPIRY, snapshot, status,
                                        statuses):
                raise exceptions.NotPossible(
                    f'Load balancer {snapshot.id} was changed by somebody '
                    f'else at this moment: run the command again.')
        finally:
            held.end()
            held.release(cluster.id, owner)
        self._tell(snapshot, status, statuses)

    def _check(self, conf, cluster, snapshot, older_than):
        """Refuse what is not to be restored.

        :raises NotPossible: with the reason.
        """
        if snapshot is None:
            raise exceptions.NotPossible(
                f'Load balancer {cluster.load_balancer_id} is gone.')
        lock = restorable.check_lock(snapshot, older_than,
                                     conf.task_flow.jobboard_enabled)
        problem = None
        if snapshot.status not in (compat.ERROR, compat.PENDING_UPDATE):
            problem = (f'It is {snapshot.status}, and only one that is ERROR '
                       f'or PENDING_UPDATE is restored.')
        elif cluster.provisioning_status in lock_repo.PENDING:
            problem = (f'Its cluster is {cluster.provisioning_status}: '
                       f'housekeeping brings that to its end by itself.')
        elif lock.severity is finding.Severity.FAILURE:
            problem = lock.details
        if problem:
            raise exceptions.NotPossible(
                f'Load balancer {snapshot.id} is left as it is. {problem}')
        if lock.details:
            self.app.stderr.write(f'{lock.details}\n')

    def _choose_status(self, engine, cluster, snapshot):
        """Return ACTIVE, or ERROR for one that would be of no use.

        :raises NotPossible: if it is in ERROR already.
        """
        active = sum(
            member.slot is not None and member.state == member_repo.ACTIVE
            for member in member_repo.get_of_cluster(engine, cluster.id))
        if active >= max(1, cluster.min_size):
            return compat.ACTIVE
        problem = (f'{active} of its members serve, and {cluster.min_size} '
                   f'have to: have them built anew by "openstack loadbalancer '
                   f'failover {snapshot.id}".')
        if snapshot.status == compat.ERROR:
            raise exceptions.NotPossible(
                f'Load balancer {snapshot.id} is left as it is. {problem}')
        self.app.stderr.write(f'It is in ERROR from now on: {problem}\n')
        return compat.ERROR

    def _tell(self, snapshot, status, statuses):
        for found, new in statuses.items():
            self.app.stdout.write(
                f'{found.kind} {found.id}: {found.status} -> {new}\n')
        self.app.stdout.write(
            f'Load balancer {snapshot.id}: {snapshot.status} -> {status}.\n')
        if status == compat.ACTIVE:
            self.app.stdout.write('Housekeeping tells its members what '
                                  'Octavia has of it.\n')
