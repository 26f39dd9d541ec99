# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync distributor instance list, delete."""

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cluster.db import instance as booted_repo
from octavia_hmsync import exceptions

_ORDERED = 'an operator has ordered it'


class ListInstances(base.ListCommand):
    """List the distributors that housekeeping has booted in instances.

    state is BUILDING, READY, or LEAVING, with the reason.
    """

    COLUMNS = ('id', 'state', 'address')
    LONG_COLUMNS = ('compute_id', 'reason', 'expires_at', 'claimed_by',
                    'created_at')

    METAVAR = '<instance-id>'

    def read(self, _conf, engine, parsed_args):
        return [
            (each.id, each.state, each.address, each.compute_id, each.reason,
             base.format_time(each.expires_at),
             None if each.is_free else each.claimed_by,
             base.format_time(each.created_at))
            for each in booted_repo.get_all(engine)]


class DeleteInstance(base.Change, command.Command):
    """Delete the instance of a distributor, without loss for its clusters.

    Where clusters would have fewer than two distributors and [hmsync_cluster]
    distributor_instances allows, housekeeping boots another instance of the
    newest image first. Then the clusters move, with their connections, and
    the instance is deleted.
    """

    ARGUMENT = ('instance',
                'its id, or its id in the compute service, which is the name '
                'of the distributor')
    WAIT = 'it is deleted'

    def take_action(self, parsed_args):
        _conf, engine = self.open_database()
        name = parsed_args.instance
        found = [one for one in booted_repo.get_all(engine)
                 if name in (one.id, one.compute_id)]
        if not found:
            raise exceptions.NotPossible(
                f'There is no instance {name} of a distributor: see '
                f'"octavia-hmsync distributor instance list".')
        one = found[0]
        if one.reason is not None and one.state != booted_repo.BUILDING:
            self.say(f'The instance {one.id} of a distributor is already '
                     f'being deleted: {one.reason}.')
        elif one.state != booted_repo.READY or not (
                parsed_args.dry_run or
                booted_repo.order(engine, one.id, _ORDERED)):
            raise exceptions.NotPossible(
                f'The instance {one.id} of a distributor is {one.state}, and '
                f'only a READY one is deleted by an order: see '
                f'"octavia-hmsync distributor instance list".')
        else:
            self.say(f'The instance {one.id} '
                     f'{"would be" if parsed_args.dry_run else "is"} deleted '
                     f'as soon as its clusters are elsewhere.')
        self.wait(parsed_args, lambda: _look(engine, one.id),
                  'Housekeeping goes on: see "octavia-hmsync distributor '
                  'instance list".')


def _look(engine, instance_id):
    """Return whether an instance is gone, and its state."""
    found = booted_repo.get(engine, instance_id)
    if found is None:
        return True, {}
    return False, {f'Instance {found.id}': f'{found.state}, {found.reason}'}
