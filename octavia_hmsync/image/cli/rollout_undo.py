# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync rollout undo."""

import dataclasses

from octavia_hmsync import exceptions
from octavia_hmsync.image.cli import rollout_start
from octavia_hmsync.image.cli import rollout_watch
from octavia_hmsync.image.db import aftermath as aftermath_repo
from octavia_hmsync.image.db import rollout as rollout_repo
from octavia_hmsync.image import inventory
from octavia_hmsync.image.rollout import rules
from octavia_hmsync.image import target


class UndoRollout(rollout_start.Starter):
    """Undo a rollout: to the image that the tag has now.

    Take the tag off the image first, or deactivate it. This is another
    rollout, only of load balancers that still have what the first one has
    brought. Settings that are not given are those of the first one, except
    for its windows: it may begin at any time.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument(
            'rollout', metavar='<rollout>', nargs='?',
            help='its id (default: the last rollout that is no undo itself)')
        return parser

    def take_action(self, parsed_args):
        conf, engine = self.open_database(with_octavia=True)
        first = _find(engine, parsed_args.rollout)
        settings = rollout_start.get_settings(
            parsed_args, dataclasses.replace(
                first.settings, windows='', cause='IMAGE', cause_value=None,
                only=''))
        active = self.find_same(engine, settings, first.id)
        if active is not None:
            return self.go_on(conf, engine, active, parsed_args)
        brought = aftermath_repo.get_brought(engine, first.id)
        concerned = [
            each for each in inventory.Inventory(conf, engine).get_page()
            if rules.is_on_image(each, brought)]
        if not concerned:
            self._say(f'No load balancer has an amphora of an image that '
                      f'rollout {first.id} has brought: there is nothing to '
                      f'take back.')
            return self.COLUMNS, []
        targets = target.Targets(conf)
        _check_tags(targets, first, brought, concerned)
        return self.start(conf, engine, settings, parsed_args, targets,
                          first.id)


def _find(engine, rollout_id):
    if rollout_id is not None:
        return rollout_watch.get_rollout(engine, rollout_id)
    first = next((rollout for rollout in rollout_repo.get_all(engine)
                  if rollout.undo_of is None), None)
    # Without any, this reports that there was none.
    return first or rollout_watch.get_rollout(engine)


def _check_tags(targets, first, brought, concerned):
    same = rules.find_tags_to_change(concerned, brought, {
        tag: targets.get(tag).image_id
        for tag in {each.tag for each in concerned}})
    if same:
        named = ', '.join(f'{image} by tag {tag}'
                          for tag, image in sorted(same.items()))
        raise exceptions.NotPossible(
            f'What rollout {first.id} has brought is still the newest image: '
            f'{named}. Take the tag off it ("openstack image unset --tag"), '
            f'or deactivate it, and run the command again.')
