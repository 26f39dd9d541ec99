# SPDX-License-Identifier: Apache-2.0

"""The walk over the page of image upgrades' roll-out, without amphorae.

Commands, plans and rollouts are real; images, Neutron and Nova are fakes, and
what a replacement does is a change of rows. tests/soak/test_walk.py goes
through the same page with traffic.
"""

import re
import shlex

from octavia_hmsync.image.db import replacement as replace_repo
from octavia_hmsync.image.replace import attempt
from octavia_hmsync.image.replace import work as work_
from octavia_hmsync.image import replacer
from octavia_hmsync import periodic
from octavia_hmsync.sync.db import generation as generation_repo
from tests.cloud import walk
from tests.functional import walks
from tests.unit.image.cli import test_image
from tests.unit.services.cli import test_upgrade

PROJECT = 'shops'
_PAUSE = 0.1
_PATIENCE = 60


class ShellHere(walk.Shell):
    """Runs commands in this process, where the fakes are."""

    def __init__(self, directory, run_command):
        super().__init__(directory)
        self._run_command = run_command

    def run(self, command):
        self.done.add(command)
        for name, value in self.names.items():
            command = re.sub(rf'\b{name}\b', value, command)
        program, *arguments = shlex.split(command)
        if program != 'octavia-hmsync':
            raise AssertionError(f'This is not run here: {command}')
        code, out, err = self._run_command(*arguments)
        return code, out + err


class TestWalkImages(walks.ImagePages, test_image.ImageTestCase,
                     test_upgrade.CheckTestCase):

    def setUp(self):
        super().setUp()
        self.images.images = {'amphora': 'first'}
        self.load_balancers = {
            name: self.add('first', name=name, project_id=PROJECT)
            for name in ('shop', 'mail')}
        # As after the roll-out of the list.
        generation_repo.publish(self.engine, 1, {'192.0.2.1:5555': 0}, '',
                                'controller1')
        # As in the file, which commands read.
        for group, option, value in (
                ('controller_worker', 'amp_image_tag', 'amphora'),
                ('haproxy_amphora', 'client_cert', self.made.client_path),
                ('haproxy_amphora', 'server_ca',
                 self.made.server_authority.certificate_path)):
            self.conf.set_override(option, value, group)
        # Octavia's drivers are not needed to change rows.
        self.patch(work_, 'Work', _Work)
        self.shell = ShellHere(self.directory, self.run_command)
        # It is always Saturday night here.
        self.shell.names.update({'Sat 01:00-05:00': '00:00-24:00',
                                 'PROJECT': PROJECT})

    def stop_clock(self):
        """Rollouts wait."""

    def set_options(self):
        self.write(
            controller_worker={
                **test_upgrade.GOOD['controller_worker'],
                'amp_image_tag': 'amphora', 'amp_flavor_id': 'small',
                'amp_boot_network_list': 'lb-mgmt-net'},
            hmsync={**test_upgrade.GOOD['hmsync'], 'offline_after': 600},
            hmsync_image={'rollout_watch_time': 1})

    def test_walk(self):
        subject = replacer.Replacer(self.conf, self.engine, lambda: None,
                                    {'SINGLE': self.replace})
        thread = periodic.PeriodicThread('replacer', subject.run_once, _PAUSE,
                                         self.engine)
        thread.start()
        self.addCleanup(subject.stop, _PATIENCE)
        self.addCleanup(thread.stop, timeout=_PATIENCE)
        self.walk_images()

    def replace(self, work, _inventory):
        """Return what carries a replacement out: a change of rows."""
        return _Replacement(self.records, work.replacement)

    def add_image(self):
        self.images.images = {'amphora': 'second'}

    def take_image_back(self):
        self.images.images = {'amphora': 'first'}

    def expect_left_out(self, plan):
        self.expect(re.search(r'shop +\| excluded by project', plan), plan)

    def expect_images(self, **names):
        found = {
            name: {row['image_id'] for row in self.records.rows('amphora')
                   if row['load_balancer_id'] == self.load_balancers[name]}
            for name in names}
        self.expect(found == {name: {image} for name, image in names.items()},
                    found)


class _Work:
    """What the replacer knows of a replacement that it carries out."""

    is_idle = True

    def __init__(self, _conf, _engine, replacement, held):
        self.replacement = replacement
        self.phase = replacement.phase
        self.held = held


class _Replacement:
    """Carries one out at once."""

    def __init__(self, records, replacement):
        self._records = records
        self._replacement = replacement

    def run(self):
        for row in self._records.rows('amphora'):
            if row['load_balancer_id'] == self._replacement.load_balancer_id:
                self._records.change(
                    'amphora', row['id'],
                    image_id=self._replacement.target_image_id)
        return attempt.Outcome(replace_repo.DONE)
