# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync image replace."""

import typing
import uuid

from cliff import command

from octavia_hmsync.cli import base
from octavia_hmsync.cli import finding
from octavia_hmsync.cli import progress
from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import replacement as replacement_commands
from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image import outdated
from octavia_hmsync.image.preflight import database
from octavia_hmsync.image.preflight import facts
from octavia_hmsync.image import target
from octavia_hmsync.sync.cli import load_balancers
from octavia_hmsync.sync.db import house_keeper as keeper_repo

# The checks of the database; the image service and Neutron are asked only if
# these succeed.
_FIRST = (('Provider', database.check_provider),
          ('State', database.check_state),
          ('Topology', database.check_topology),
          ('Amphorae', database.check_amphorae))


class Replace(base.DatabaseMixin, command.Command):
    """Bring the amphorae of a load balancer to its newest image.

    The command checks what it can, and then housekeeping replaces them.
    Exclusions and maintenance windows apply to rollouts, and not here. With
    --wait the command shows a line for each change, returns when it is done,
    and fails if that failed. One that is being replaced already is only
    waited for.
    """

    ARGUMENT = ('loadbalancer', 'its name or id')
    FORCE = 'replace amphorae that have the newest image, too, or of an ' \
            'unknown one'
    # Amphorae of a load balancer that are built before an old one goes.
    _built_first = 1
    # Reports errors in the combination of arguments like argparse.
    parser: typing.Any

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            '--mode', choices=(rollout_repo.REPLACE, rollout_repo.FAILOVER),
            default=rollout_repo.REPLACE,
            help='make before break, or Octavia\'s own failover, standby '
                 'first (default: replace)')
        parser.add_argument(
            '--force', action='store_true',
            help=self.FORCE)
        parser.add_argument('--wait', action='store_true',
                            help='return when it is done')
        progress.add_arguments(
            parser, timeout_help='with --wait: give up after so long; it '
                                 'goes on')
        base.add_dry_run(parser, 'what would be replaced')
        self.parser = parser
        return parser

    def take_action(self, parsed_args):
        if parsed_args.timeout and not parsed_args.wait:
            self.parser.error('argument --timeout: needs --wait')
        conf, engine = self.open_database(with_octavia=True)
        load_balancer = self._find(conf, engine, parsed_args.loadbalancer)
        max_age = conf.hmsync.offline_after
        found = _find_open(engine, load_balancer.id)
        load_balancer = self._plan(conf, engine, load_balancer, found,
                                   parsed_args)
        if found is not None:
            whose = (f' by rollout {found.rollout_id}' if found.rollout_id
                     else '')
            stage = replacement_commands.describe(found)
            self._say(f'Load balancer {load_balancer.id} is being replaced '
                      f'already{whose}, and is at {stage}: replacement '
                      f'{found.id}.')
            if parsed_args.wait and not parsed_args.dry_run:
                self._wait(engine, found.id, parsed_args, max_age)
            return
        _check_rows(load_balancer)
        targets = target.Targets(conf)
        image_id = _get_target(targets, load_balancer)
        old = (outdated.get_allocated(load_balancer) if parsed_args.force
               else self._find_old(conf, engine, load_balancer, image_id))
        if not old:
            self._end(engine, load_balancer, image_id, parsed_args)
            return
        for warning in _check_preflight(
                conf, engine, load_balancer, targets, parsed_args.mode,
                self._built_first):
            self.app.stderr.write(f'{warning}\n')
        replacement_commands.check_that_somebody_is_up(engine, max_age)
        if parsed_args.dry_run:
            self._say(
                f'Of load balancer {load_balancer.id} would be replaced, by '
                f'mode {parsed_args.mode} with image {image_id}'
                f'{self._describe_more()}: {", ".join(a.id for a in old)}.')
            return
        replacement_id = self._add(engine, load_balancer, image_id,
                                   parsed_args)
        if parsed_args.wait:
            self._wait(engine, replacement_id, parsed_args, max_age)

    @staticmethod
    def _find(conf, engine, name):
        lb_id = load_balancers.find(engine, name)
        load_balancer = inventory.Inventory(conf, engine).get(lb_id)
        if load_balancer is None:
            # It was deleted between the two looks.
            raise exceptions.NotPossible(
                f'There is no load balancer {name}: see "openstack '
                f'loadbalancer list".')
        return load_balancer

    def _say(self, text):
        self.app.stdout.write(f'{text}\n')

    def _describe_more(self):
        """Return in words what else would change."""
        return ''

    def _plan(self, _conf, _engine, load_balancer, _found, _parsed_args):
        """Return it as it is to be, or raise NotPossible.

        :param found: the replacement that is open, or None.
        """
        return load_balancer

    def _find_old(self, _conf, _engine, load_balancer, image_id):
        """Return the amphorae that are to be replaced."""
        _check_known(load_balancer, image_id)
        return outdated.get_outdated(load_balancer, image_id)

    def _end(self, _engine, load_balancer, image_id, _parsed_args):
        """Say that no amphora is to be replaced."""
        self._say(f'All amphorae of load balancer {load_balancer.id} '
                  f'have image {image_id}: there is nothing to do.')

    def _order(self, engine, new):
        """Write a New; returns whether nothing was in the way."""
        return replace_repo.add(engine, new)

    def _add(self, engine, load_balancer, image_id, parsed_args):
        new = replace_repo.New(
            str(uuid.uuid4()), load_balancer.id, parsed_args.mode, image_id,
            load_balancer.topology, load_balancer.flavor_id,
            load_balancer.availability_zone, forced=parsed_args.force)
        if not self._order(engine, new):
            # Another command was faster.
            raise exceptions.NotPossible(
                f'Load balancer {load_balancer.id} was replaced by another '
                f'command at this moment: run the command again.')
        self._say(f'Replacement {new.id} of load balancer '
                  f'{load_balancer.id} waits for housekeeping.')
        return new.id

    def _wait(self, engine, replacement_id, parsed_args, max_age):
        def look():
            return (replace_repo.get(engine, replacement_id),
                    keeper_repo.get_up(engine, max_age))

        with progress.Watch(
                self.app, parsed_args.interval, parsed_args.timeout,
                f'Replacement {replacement_id} goes on: see "octavia-hmsync '
                f'image replacement list".', base.explain_passing) as watch:
            watch.follow(
                look, lambda found: self._show(watch, found, max_age),
                f'After {parsed_args.timeout or 0:g} s replacement '
                f'{replacement_id} has not ended. It goes on: see '
                f'"octavia-hmsync image replacement list".')

    @staticmethod
    def _show(watch, found, max_age):
        """Write what has changed; returns whether it is done."""
        replacement, keepers = found
        if replacement is None:
            raise exceptions.NotPossible(
                'The replacement is not in the database any more: see '
                '"octavia-hmsync image list".')
        known = {f'Load balancer {replacement.load_balancer_id}':
                 replacement_commands.describe(replacement)}
        if not keepers and replacement.state in replace_repo.OPEN_STATES:
            known[replacement_commands.describe_nobody(max_age)] = ''
        watch.show([], known)
        if replacement.state in replace_repo.OPEN_STATES:
            return False
        if replacement.state == replace_repo.DONE:
            return True
        state = replacement_commands.join(replacement.state,
                                          replacement.reason)
        raise exceptions.NotPossible(
            f'Replacement {replacement.id} of load balancer '
            f'{replacement.load_balancer_id} is {state}: see the '
            f'log of octavia-housekeeping, and "octavia-hmsync image '
            f'check {replacement.load_balancer_id}".')


def _find_open(engine, load_balancer_id):
    """Return what waits or runs for a load balancer, or None."""
    return next((each for each in replace_repo.get_of_load_balancer(
        engine, load_balancer_id) if each.state in replace_repo.OPEN_STATES),
        None)


def _check_rows(load_balancer):
    """Raise NotPossible if the load balancer's state does not permit it."""
    for name, check in _FIRST:
        found = check(facts.Facts(load_balancer))
        if found.severity is finding.Severity.FAILURE:
            # The other checks report the same state in another way.
            raise _refuse(load_balancer, [(name, found)])


def _get_target(targets, load_balancer):
    """Return the target image, or raise NotPossible or CloudUnavailable."""
    found = targets.get(load_balancer.tag)
    if found.image_id is None:
        raise _refuse(load_balancer, [('Image', finding.failure(
            found.problem))])
    return found.image_id


def _check_known(load_balancer, image_id):
    """Raise NotPossible if it is not known whether it is outdated."""
    if (outdated.judge(load_balancer, image_id) is
            outdated.Outdated.UNKNOWN):
        unknown = ', '.join(a.id for a in
                            outdated.get_allocated(load_balancer)
                            if a.image_id is None)
        raise exceptions.NotPossible(
            f'It is not known whether load balancer {load_balancer.id} is '
            f'outdated, because Octavia has no image_id of {unknown}. With '
            f'--force it is replaced all the same.')


def _check_preflight(conf, engine, load_balancer, targets, mode, more):
    """Return warnings, or raise NotPossible with a line for each failure."""
    from octavia_hmsync.image.preflight import run

    found = run.judge(conf, engine, load_balancer, targets, mode, more=more)
    if found.failures:
        raise exceptions.NotPossible('\n'.join(found.failures))
    return list(found.warnings)


def _refuse(load_balancer, failures):
    return exceptions.NotPossible('\n'.join(
        f'Load balancer {load_balancer.id} cannot be replaced: {name}: '
        f'{found.details}' for name, found in failures))
