# SPDX-License-Identifier: Apache-2.0

"""The tables on the pages of the roll-outs have the columns of the commands.

Where nothing is listed, CSV has its header all the same.
"""

import re

from tests.cloud import pages
from tests.unit.cli import base

# That need no other service, and nothing to be there.
COMMANDS = re.compile(r'octavia-hmsync (cluster list|distributor list|'
                      r'image list|health manager list|amphora list) ')


class TestPages(base.CommandTestCase):

    def test_columns(self):
        found = 0
        for name in ('roll-out', 'roll-out-images', 'roll-out-clusters'):
            for block in pages.Page(f'doc/source/install/{name}.rst').blocks:
                if block.language != 'console':
                    continue
                for command, output in block.commands:
                    if COMMANDS.match(command) and output:
                        self.check(command, output)
                        found += 1
        self.assertEqual(5, found)

    def check(self, command, output):
        header = [cell.strip() for cell in
                  output.splitlines()[1].strip('|').split('|')]
        said = self.run_ok(*command.split()[1:], '-f', 'csv')
        self.assertEqual(header, said.strip().replace('"', '').split(','),
                         command)
