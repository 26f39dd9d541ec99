# SPDX-License-Identifier: Apache-2.0

"""A new operator's walk over the README and the installation pages.

Each page is read from its source and gone through from top to bottom, in a
cloud of three controllers with six amphorae, by one function that has a line
for each literal block:

run()
    The commands of the block are run as they stand there, with an octavia.conf
    where Octavia looks for it, and have to print what the page says.
    tests/cloud/pages.py tells what may differ: times, ids, the network.
lines(), sql()
    The block is written into every octavia.conf; is given to the database.
see()
    The block is none of these, for the reason beside it.

What stands between the blocks, "restart", is what the function does between
its lines. A block that it has no line for, or that stands elsewhere by now, is
a failure, which shows the block, and the end of the walk; outputs that differ
are all told at the end. Commands in the text are run when the plugin is on
everywhere, if they have not been before; those that are not, and pages that
are not walked, are listed here with the reason.
"""

import contextlib
import pathlib

import sqlalchemy as sa
from testtools import content

from octavia_hmsync.amphora import upload_result
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.db import house_keeper as house_keeper_repo
from tests.cloud import octavia_conf
from tests.cloud import pages
from tests.cloud import walk
from tests.fleet import cloud as fleet_cloud
from tests.functional import base

README = 'README.rst'
INSTALL = 'doc/source/install'
AMPHORAE = 6
CONTROLLERS = (1, 2, 3)

_OTHER_TOOL = 'for a tool that is not here; the rest is as in roll-out.rst'
NOT_WALKED = {
    'devstack.rst': 'tests/unit/devstack drives the plugin of devstack',
    'distributor-image.rst': 'for images; test_distributor_instance has one',
    'distributions.rst': 'for packages that are not here',
    'kolla-ansible.rst': _OTHER_TOOL,
    'kubernetes.rst': _OTHER_TOOL,
    'octavia-operator.rst': _OTHER_TOOL,
    'charm-octavia.rst': _OTHER_TOOL,
    'yaook.rst': _OTHER_TOOL,
    'roll-out-clusters.rst': 'test_walk_clusters does, soak.test_walk with '
                             'traffic',
    'roll-out-images.rst': 'test_walk_images does, soak.test_walk with '
                           'traffic',
    'roll-out-network.rst': 'test_walk_network does',
    'network-nodes.rst': 'for network nodes; test_distributor has one',
    'openstack-ansible.rst': _OTHER_TOOL,
    'openstack-helm.rst': _OTHER_TOOL,
}
NOT_RUN = {
    'tools/demo.sh': 'test_demo does',
    'tools/demo.sh --image-upgrade': 'soak.test_demo_image does',
    'tools/demo.sh --image-upgrade --without-hmsync': 'as the other one',
    'tools/demo.sh --cluster': 'soak.test_demo_cluster does',
    'tools/demo.sh --without-hmsync': 'as tools/demo.sh',
    'tools/test.sh': 'it is what runs this',
    'tox -e docs': 'test_docs does',
    'tox -e releasenotes': 'test_docs does',
    'octavia-hmsync health manager drain': 'test_operation does',
    'octavia-hmsync health manager drain HOST --wait': 'test_operation does',
    'octavia-hmsync network delete': 'needs Neutron; test_mgmt_network does',
    'octavia-hmsync network port plug': 'as network delete',
    'octavia-hmsync network show': 'as network delete',
    'octavia-hmsync is off in this process': 'a line of the log',
}


class WalkMixin:
    """The walk, without the cloud that it goes through.

    tests/unit/test_walk.py goes through none, to see whether there is a line
    for each block.
    """

    def walk_all(self):
        """Go through all pages; what differs is in .shell.differences."""
        self.start_cloud()
        self.walked = {}
        readme = walk.Walk(README, self.shell, NOT_RUN)
        readme.see('octavia-health-manager --> ')  # A picture.
        readme.see('step ')  # tools/demo.sh; test_demo runs it.
        readme.see('4 all replaced')
        # Likewise; of --image-upgrade.
        readme.see('load balancer ')
        readme.see('single ')
        # Likewise; of --cluster.
        readme.see('what happens ')
        with self.walk('index.rst'):
            pass
        with self.walk('requirements.rst') as page:
            # "tox -e functional-2025.1" installs with the same constraints.
            page.see('pip install -c')
        with self.walk('packages.rst') as page:
            self.packages(page)
        # test_packaging runs it.
        readme.pass_over('git clone', 'pip install ./octavia-hmsync')
        self.lines = readme.lines()
        with self.walk('roll-out.rst') as page:
            self.roll_out(page)
        readme.run('octavia-hmsync upgrade check')
        readme.run('octavia-hmsync health manager list')
        # Of the other parts; their own tests run them.
        readme.see('octavia-hmsync network ensure')
        readme.see('octavia-hmsync image list')
        readme.see('octavia-hmsync upgrade check')
        readme.end()
        with self.walk('upgrade.rst') as page:
            page.run('octavia-hmsync db upgrade')
        for page in (readme, *self.walked.values()):
            page.run_text()
        self.assert_nothing_failed_over()
        with self.walk('roll-back.rst') as page:
            self.roll_back(page)
        page.run_text()
        self.assert_nothing_failed_over()
        self.assertEqual(
            {path.name for path in (pages.TOP / INSTALL).glob('*.rst')},
            {*self.walked, *NOT_WALKED})

    @contextlib.contextmanager
    def walk(self, name):
        self.walked[name] = page = walk.Walk(
            f'{INSTALL}/{name}', self.shell, NOT_RUN)
        yield page
        page.end()

    @property
    def services(self):
        """In the order in which the pages restart them."""
        return [*self.managers, self.worker, self.keeper]

    def configure(self, lines):
        """Change every octavia.conf; what is None is taken out."""
        for service in self.services:
            service.options = octavia_conf.merge(service.options, lines)
        self.write_conf()

    # The pages

    def packages(self, page):
        page.pass_over('git clone', 'pip install ./octavia-hmsync')
        page.pass_over('pip wheel')
        page.see('could not load configuration')  # test_services has it.
        page.see('/etc/octavia/')
        page.run('octavia-hmsync db upgrade')

    def roll_out(self, page):
        self.assertEqual(self.lines, page.lines())
        self.configure(self.lines)
        page.run('octavia-hmsync upgrade check')

        self.restart(self.managers[0])
        page.run('octavia-hmsync health manager list')
        self.restart(*self.managers[1:])
        page.run('octavia-hmsync health manager list')
        self.restart(self.worker)
        self.restart(self.keeper)
        self.wait_until_uploaded(3)
        # A moment, which may be shorter than the command takes.
        self.keeper.pause()
        page.run('octavia-hmsync sync status')
        self.keeper.resume()
        self.wait_until_uploaded(AMPHORAE)
        page.run('octavia-hmsync sync status')
        page.run('octavia-hmsync amphora list')

        self.configure({'health_manager': {'controller_ip_port_list': None}})
        self.restart(*self.services)
        page.run('octavia-hmsync upgrade check')

    def roll_back(self, page):
        page.run('octavia-hmsync sync status')
        self.configure({
            'DEFAULT': {'config_source': None},
            'controller_worker': {'statistics_drivers': 'stats_db'},
            'hmsync': {'driver': None},
            'health_manager': {'controller_ip_port_list': [
                manager.address for manager in self.managers]}})
        self.restart(self.keeper)
        self.restart(self.worker, *self.managers)
        page.run('octavia-hmsync health manager list')
        self.assertEqual([], self.execute(page.sql()))
        page.run('octavia-hmsync db purge --dry-run')
        self.assertEqual([], self.find_tables())
        # On again, from the beginning.
        self.assertEqual(0, self.shell.run('octavia-hmsync db upgrade')[0])
        self.configure(self.lines)
        self.restart(self.keeper)
        self.wait_until_kept()
        page.run('octavia-hmsync sync run --all')


class TestWalk(WalkMixin, base.FunctionalTestCase):

    def test_walk(self):
        self.walk_all()
        self.assertEqual(0, len(self.shell.differences), 'See below.')

    def start_cloud(self):
        """Octavia as it runs without the plugin."""
        intervals = {**octavia_conf.HMSYNC['hmsync'], 'canary_size': 3,
                     'canary_wait': 10}
        intervals.pop('driver')
        self.cloud = self.useFixture(fleet_cloud.FleetCloud(
            AMPHORAE, listeners=True, upgrade=False, hmsync={
                'hmsync': intervals,
                'health_manager': {'heartbeat_timeout': 20}}))
        self.engine = self.cloud.database.engine
        pinned = [f'{self.cloud.address(n)}:5555' for n in CONTROLLERS]
        pin = {'health_manager': {'controller_ip_port_list': pinned}}
        self.managers = [
            self.cloud.add_health_manager(
                self.cloud.address(n), f'controller-{n}',
                controller_ip_port_list=pinned) for n in CONTROLLERS]
        self.cloud.start_fleet(pinned[:2], heartbeat_interval=1)
        self.worker = self.cloud.add_worker('controller-1', pin)
        self.keeper = self.cloud.add_housekeeping('controller-1', pin)
        self.write_conf()
        self.shell = walk.Shell(self.cloud.directory)
        self.addOnException(lambda _: self.addDetail(
            'differences so far', content.text_content(
                '\n'.join(self.shell.differences))))
        self.cloud.wait_until_ready()
        self.cloud.wait_until_recorded({m['id'] for m in self.cloud.members})

    def write_conf(self):
        """Write the octavia.conf of the first controller."""
        directory = pathlib.Path(self.cloud.directory, '.octavia')
        directory.mkdir(exist_ok=True)
        octavia_conf.write(directory / 'octavia.conf',
                           self.managers[0].options)

    def restart(self, *services):
        for service in services:
            self.assertTrue(service.stop(), service.name)
            service.start()
        self.cloud.wait_until_ready()

    def wait_until_uploaded(self, amphorae):
        """Wait until so many have the newest list."""
        self.wait_for(lambda: self.count_uploaded() == amphorae,
                      f'upload to {amphorae} amphorae')

    def wait_until_kept(self):
        """Wait until a housekeeper has given a sign of life."""
        self.wait_for(lambda: house_keeper_repo.get_up(self.engine, 60),
                      'keepalive of a housekeeper')

    def count_uploaded(self):
        newest = generation_repo.get_newest(self.engine)
        return len([row for row in amphora_repo.get_rows(self.engine)
                    if newest and row.generation == newest.number and
                    row.result == upload_result.APPLIED])

    def execute(self, statement):
        with self.engine.connect() as connection:
            return connection.execute(sa.text(statement)).fetchall()

    def find_tables(self):
        return [name for name in sa.inspect(self.engine).get_table_names()
                if name.startswith('hmsync')]
