# SPDX-License-Identifier: Apache-2.0

"""What holds for each command, whatever it does."""

import argparse
import io
import re

from cliff import lister
from oslotest import base

from octavia_hmsync.cli import formatters
from octavia_hmsync.cmd import hmsync
from tests.unit import test_demo

# Changes that are complete when the command returns, and so have no --wait.
COMPLETE = {
    'db purge', 'db upgrade', 'distributor resume', 'host hold',
    'host release', 'image exclusion add',
    'image exclusion remove', 'image restore',
    # These wait in any case: for what is built, for connections, or until
    # Neutron's agent has wired a port.
    'image clone back', 'image clone create', 'image clone retire',
    'image clone switch', 'network delete', 'network ensure',
    'network port delete', 'network port ensure', 'network port plug',
    'network port unplug',
    # Housekeeping does the rest, for hours.
    'zone release'}
# Lists of a few rows, by their nature, and so without pages.
SHORT = {
    'image clone check': 'checks of one load balancer',
    'image restore': 'checks of one load balancer',
    'network delete': 'parts of the network',
    'upgrade check': 'checks'}
# Of usual values in the columns of lists.
WIDTHS = {
    'active': 2, 'address': 15, 'adoption': 11, 'amphora_id': 36,
    'amphorae': 5, 'only_here': 4, 'left_out': 4,
    'behind': 2, 'bytes': 13, 'check': 14, 'clone_id': 36,
    'cluster_name': 12, 'completed_at': 19, 'created_at': 19,
    'done': 4, 'drained': 5, 'failed': 4, 'health_manager': 8, 'host': 12,
    'id': 36, 'ip_address': 15, 'key': 7, 'kind': 13, 'loadbalancer_id': 36,
    'loadbalancers': 12, 'name': 9, 'number': 6, 'operating_status': 8,
    'outcome': 11, 'outdated': 7, 'packets': 9, 'part': 30, 'phase': 9,
    'port': 5, 'published_at': 19, 'result': 11, 'revision': 4,
    'running': 4, 'slot': 3, 'state': 8, 'status': 9, 'user': 8,
    'value': 36, 'vips': 4, 'wave': 3, 'zone': 5,
    ('image restore', 'check'): 8, ('image restore', 'result'): 7}
# Texts; as last columns they are wrapped.
TEXTS = {'blocked_by', 'command', 'description', 'detail', 'details',
         'floating_ips', 'left_out_by', 'reason', 'users'}
# The narrowest that one becomes.
NARROWEST = 14


class TestEachCommand(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        app = hmsync.HMSyncApp()
        self.commands = {name: point.load() for name, point in
                         app.command_manager.commands.items()
                         if name not in ('help', 'complete')}
        self.options = {
            name: set(kind(app, None, cmd_name=name).get_parser(
                name)._option_string_actions)
            for name, kind in self.commands.items()}
        self.lists = {name: kind for name, kind in self.commands.items()
                      if issubclass(kind, lister.Lister)}

    def test_changes_are_waited_for(self):
        self.assertEqual(COMPLETE, {
            name for name, options in self.options.items()
            if '--dry-run' in options and '--wait' not in options})

    def test_lists_have_pages(self):
        self.assertEqual(set(SHORT), {
            name for name in self.lists
            if not {'--limit', '--marker'} <= self.options[name]})

    def test_lists_fit_80_columns(self):
        """By default, with what is usual in them."""
        wide = {}
        for name, kind in self.lists.items():
            # This one has a form of its own.
            if name == 'upgrade check':
                continue
            for columns in (kind.COLUMNS,
                            getattr(kind, 'TRAFFIC_COLUMNS', ())):
                width = 1 + sum(
                    3 + (NARROWEST if each in TEXTS and each == columns[-1]
                         else max(len(each), WIDTHS.get((name, each)) or
                                  WIDTHS[each]))
                    for each in columns)
                if width > 80:
                    wide[name] = width
        self.assertEqual({}, wide)


class TestComplete(base.BaseTestCase):

    def test_each_option(self):
        """Else run "python tools/write_completion.py"."""
        tool = test_demo.load('write_completion')
        written, asked = (self.read(text) for text in (
            tool.FILE.read_text(), tool.generate()))
        # Other releases of cliff have other options of their own.
        cliff = set().union(*(words[name] for words in (written, asked)
                              for name in ('cmds_db_current',
                                           'cmds_db_history')))
        self.assertEqual({name: words - cliff for name, words in
                          asked.items()},
                         {name: words - cliff for name, words in
                          written.items()})
        self.assertIn('--reason', written['cmds_sync_pause'])

    @staticmethod
    def read(text):
        return {name: set(words.split()) for name, words in
                re.findall(r"^  (cmds\w*)='(.*)'$", text, re.MULTILINE)}


class TestTable(base.BaseTestCase):

    def write(self, names, *rows):
        formatter, out = formatters.TableFormatter(), io.StringIO()
        parser = argparse.ArgumentParser()
        formatter.add_argument_group(parser)
        formatter.emit_list(names, rows, out, parser.parse_args([]))
        return out.getvalue().splitlines()

    def test_the_last_column_is_wrapped(self):
        reason = 'No host of the cell has the image by now. ' * 3
        lines = self.write(('id', 'reason'), ('x' * 36, reason), ('y', 'z'))
        self.assertEqual({80}, set(map(len, lines)))
        self.assertEqual(reason.split(), [
            word for line in lines[3:-2]
            for word in line.split('|')[2].split()])

    def test_not_beyond_reading(self):
        lines = self.write(('id', 'reason'), ('x' * 90, 'word ' * 20))
        self.assertEqual({90 + NARROWEST + 7}, set(map(len, lines)))

    def test_addresses_stay_whole(self):
        lines = self.write(('id', 'address'), ('x' * 70, '127.114.127.3:5555'))
        self.assertEqual({70 + 18 + 7}, set(map(len, lines)))

    def test_what_fits_stays(self):
        self.assertEqual(['+----+', '| id |', '+----+', '| 1  |', '+----+'],
                         self.write(('id',), ('1',)))
        self.assertEqual([''], self.write(('id',)))

    def test_one_object(self):
        formatter, out = formatters.TableFormatter(), io.StringIO()
        parser = argparse.ArgumentParser()
        formatter.add_argument_group(parser)
        formatter.emit_one(('id', 'reason'), ('x', 'word ' * 40), out,
                           parser.parse_args([]))
        self.assertEqual({80}, set(map(len, out.getvalue().splitlines())))
