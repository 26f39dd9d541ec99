# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync cluster restore."""

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import finding
from octavia_hmsync.cluster.cli import common
from octavia_hmsync.cluster.db import lock as lock_repo
from octavia_hmsync.cluster.db import member as member_repo
from octavia_hmsync.cluster.db import restore as restore_repo
from octavia_hmsync import compat
from octavia_hmsync import exceptions
from octavia_hmsync.image.db import restore as snapshot_repo
from octavia_hmsync.image.recovery import restorable

_OLDER_THAN = 3600


class RestoreCluster(base.Change, command.Command):
    """Restore a load balancer whose change ended half-way.

    For a load balancer in PENDING_UPDATE because an octavia-worker died while
    it changed it, or in ERROR because too few members took a change. It gets
    ACTIVE, or ERROR if too few members serve; objects that were being created
    or deleted get ERROR, and can be deleted. Housekeeping then sends each
    member all that Octavia has of the load balancer. Nothing is built or
    deleted.
    """

    ARGUMENT = ('cluster', common.CLUSTER_HELP)
    DRY_RUN = 'what would change'
    WAIT = 'its members have all that Octavia has of it'

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--older-than', type=base.positive_seconds, metavar='<seconds>',
            default=_OLDER_THAN,
            help='reject a load balancer in PENDING_UPDATE that was changed '
                 'within this time, by the clocks of the controllers: a '
                 f'worker may still change it (default: {_OLDER_THAN})')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database(with_octavia=True)
        cluster = common.find_cluster(engine, parsed_args.cluster)
        common.check_that_it_stays(engine, cluster)
        if (lock_repo.get_status(engine, cluster.id) == compat.ACTIVE and
                cluster.provisioning_status not in lock_repo.PENDING):
            self.say(f'Load balancer {cluster.load_balancer_id} is ACTIVE '
                     f'already.')
        elif parsed_args.dry_run:
            if cluster.claimed_by and cluster.claim_expires_at > cluster.now:
                raise _claimed(cluster)
            snapshot, status, statuses = self._look(conf, engine, cluster,
                                                    parsed_args)
            self._tell(snapshot, status, statuses, True)
        else:
            self._restore(conf, engine, cluster, parsed_args)
        self.wait(parsed_args, lambda: _look_at_members(engine, cluster),
                  f'Housekeeping goes on: see "octavia-hmsync cluster '
                  f'show {cluster.id}".')

    def _restore(self, conf, engine, cluster, parsed_args):
        # Imported late: other commands start sooner.
        from octavia_hmsync.cluster import work

        held = work.make_claims(engine, conf.host).claim(cluster.id)
        if held is None:
            raise _claimed(cluster)
        try:
            snapshot, status, statuses = self._look(conf, engine, cluster,
                                                    parsed_args)
            if not restore_repo.restore(engine, cluster.id, held.owner,
                                        work.CLAIM_EXPIRY, snapshot, status,
                                        statuses):
                raise exceptions.NotPossible(
                    f'Load balancer {snapshot.id} was changed by another '
                    f'process at this moment: run the command again.')
        finally:
            held.release()
        self._tell(snapshot, status, statuses, False)

    def _look(self, conf, engine, cluster, parsed_args):
        """Return a Snapshot, the new status, and those of its objects.

        :raises NotPossible: if the load balancer cannot be restored.
        """
        snapshot = snapshot_repo.get(engine, cluster.load_balancer_id)
        self._check(conf, cluster, snapshot, parsed_args.older_than)
        return (snapshot, self._choose_status(engine, cluster, snapshot),
                {each: restorable.get_status(each)
                 for each in snapshot.objects})

    def _check(self, conf, cluster, snapshot, older_than):
        """Reject a load balancer that cannot be restored.

        :raises NotPossible: with the reason.
        """
        if snapshot is None:
            raise exceptions.NotPossible(
                f'Load balancer {cluster.load_balancer_id} is gone.')
        lock = restorable.check_lock(snapshot, older_than,
                                     conf.task_flow.jobboard_enabled)
        problem = None
        if snapshot.status not in (compat.ERROR, compat.PENDING_UPDATE):
            problem = (f'It is {snapshot.status}, and only a load balancer '
                       f'in ERROR or PENDING_UPDATE is restored.')
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
        """Return ACTIVE, or ERROR if too few members serve.

        :raises NotPossible: if it would stay in ERROR.
        """
        active = sum(
            member.slot is not None and member.state == member_repo.ACTIVE
            for member in member_repo.get_of_cluster(engine, cluster.id))
        if active >= max(1, cluster.min_size):
            return compat.ACTIVE
        problem = (f'{active} of its members serve, and {cluster.min_size} '
                   f'must: build them again with "openstack loadbalancer '
                   f'failover {snapshot.id}".')
        if snapshot.status == compat.ERROR:
            raise exceptions.NotPossible(
                f'Load balancer {snapshot.id} is left as it is. {problem}')
        self.app.stderr.write(f'It gets ERROR: {problem}\n')
        return compat.ERROR

    def _tell(self, snapshot, status, statuses, dry_run):
        would = 'would be ' if dry_run else ''
        for found, new in statuses.items():
            self.say(f'{found.kind} {found.id}: {would}{found.status} -> '
                     f'{new}')
        self.say(f'Load balancer {snapshot.id}: {would}{snapshot.status} -> '
                 f'{status}.')
        if status == compat.ACTIVE and not dry_run:
            self.say('Housekeeping sends its members all that Octavia has of '
                     'it.')


def _claimed(cluster):
    return exceptions.NotPossible(
        f'Cluster {cluster.id} is being worked on (claimed by '
        f'{cluster.claimed_by}): try again when that is done.')


def _look_at_members(engine, cluster):
    """Return whether all members are configured, and how many are not."""
    left = sum(member.slot is not None and not member.is_configured
               for member in member_repo.get_of_cluster(engine, cluster.id))
    return not left, {
        f'Cluster {cluster.id}': f'members without the configuration: '
                                 f'{left}'}
