# SPDX-License-Identifier: Apache-2.0

"""How the pages of the other parts' roll-outs are walked.

tests/functional/test_walk.py tells what a walk is. The clouds that these need
are elsewhere: test_walk_network.py, test_walk_images.py and
test_walk_clusters.py beside this, and, with traffic, tests/soak/test_walk.py.
"""

import contextlib
import re

from tests.cloud import walk

INSTALL = 'doc/source/install'
# Of other projects, whose commands are not here: what they do is done by
# openstacksdk in their place.
_OPENSTACK = 'openstack'
# Commands in the text of these pages.
NOT_RUN = {
    'octavia-hmsync distributor instance list': 'soak.test_distributor_boot',
    'octavia-hmsync image rollout pause': 'no rollout is left to be paused',
}


class _Pages:
    """Needs .shell, .configure(lines) and .restart()."""

    @contextlib.contextmanager
    def walk(self, name):
        page = walk.Walk(f'{INSTALL}/{name}', self.shell, NOT_RUN)
        yield page
        page.end()
        self.assertEqual([], self.shell.differences)

    def expect(self, found, what):
        """Note a difference, if it is not found, and go on."""
        if not found:
            self.shell.differences.append(what)

    def expect_checked(self, output, *checks):
        """See that checks of "upgrade check" are a Success."""
        # Nothing is printed where there is no cloud.
        for check in checks if output else ():
            self.expect(re.search(rf'Check: {check} +\|\n\| Result: Success',
                                  output), f'{check} is no Success: {output}')


class NetworkPages(_Pages):
    """The management network."""

    def walk_network(self):
        with self.walk('roll-out-network.rst') as page:
            self.configure(page.lines())
            page.run('octavia-hmsync network ensure --dry-run')
            differences, = page.run('octavia-hmsync network show')
            self.expect(not differences.strip(), differences)
            self.configure(page.lines())
            self.expect_supplied()
            self.configure(page.lines())
            page.run('octavia-hmsync network port plug')
            page.run('octavia-hmsync network port list')
            # What the unit runs each minute.
            code, output = self.shell.run('octavia-hmsync network port plug')
            self.expect(code == 0, output)
            page.pass_over('systemctl')
            self.restart()
            self.expect_at_its_port()
            page.run_text()
            self.delete_ports()
            page.run('octavia-hmsync network delete --dry-run')


class ImagePages(_Pages):
    """Image upgrades, of the load balancers shop and mail."""

    def walk_images(self):
        with self.walk('roll-out-images.rst') as page:
            output, = page.run('octavia-hmsync upgrade check')
            self.expect_checked(output, 'Replacements')
            self.add_image()
            page.pass_over(_OPENSTACK)
            page.run('octavia-hmsync image list --outdated YES')
            page.run('octavia-hmsync image check')
            self.shell.names['LOAD_BALANCER'] = 'mail'
            page.run('octavia-hmsync image replace LOAD_BALANCER --dry-run')
            page.run('octavia-hmsync image list --outdated NO')
            *_, plan = page.run('octavia-hmsync image exclusion add project')
            self.expect_left_out(plan)
            page.run('octavia-hmsync image exclusion remove project')
            page.run('octavia-hmsync image rollout start')
            self.expect_images(shop='second', mail='second')
            self.take_image_back()
            page.pass_over(_OPENSTACK)
            # What was replaced on its own is not undone with the rollout.
            self.expect_images(shop='first', mail='second')
            page.run_text()


class ClusterPages(_Pages):
    """Clusters, by distributors on network nodes."""

    def walk_clusters(self):
        with self.walk('roll-out-clusters.rst') as page:
            self.configure(page.lines())
            # With OVN in place of distributors.
            page.lines()
            output, = page.run('octavia-hmsync upgrade check')
            self.expect_checked(output, 'Clusters', 'Distributors')
            self.restart()
            page.run('octavia-hmsync distributor list')
            self.add_cluster()
            page.pass_over(_OPENSTACK)
            page.run('octavia-hmsync cluster list')
            page.run('octavia-hmsync cluster member list')
            self.let_a_member_die()
            self.delete_cluster()
            page.run_text()
            self.switch_off()
            code, output = self.shell.run('octavia-hmsync upgrade check')
            self.expect(code == 0, output)
