# SPDX-License-Identifier: Apache-2.0

"""octavia-hmsync upgrade check."""

import textwrap

from cliff import lister
import prettytable

from octavia_hmsync.cli import base
from octavia_hmsync.cli import finding
from octavia_hmsync.db import api

# The same as oslo.upgradecheck's.
_TITLE = 'Upgrade Check Results'
_WIDTH = 60


class Check(base.Checks, lister.Lister):
    """Check what keeps the plugin from working properly.

    Looks at this host's octavia.conf, its certificates and the database, and
    tries agents of amphorae and distributors. Run it on each controller
    before and after an installation or an upgrade. The exit code
    is 0 if all is well, 1 if an operator should look at something, and 2 if
    the plugin cannot work. Checks that could not be made are shown with the
    reason.
    """

    def get_parser(self, prog_name):
        parser = super().get_parser(prog_name)
        parser.add_argument('--timeout', type=base.positive_seconds,
                            default=10, metavar='<seconds>',
                            help='longest time for one check (default: 10)')
        return parser

    def take_action(self, parsed_args):
        conf = self.load_configuration(with_octavia=True)
        # What is missing has been told of by now.
        from octavia_hmsync.services.checks import run

        results = run.run_all(
            conf, api.create_engine(conf), parsed_args.timeout,
            self._say)
        self._code = finding.worst(results.values())
        return (('check', 'result', 'details'),
                [(name, found.name, found.details)
                 for name, found in results.items()])

    def _say(self, line):
        # For people: a script gets the results alone.
        if self.app.stderr.isatty():
            self.app.stderr.write(f'{line}\n')

    def produce_output(self, parsed_args, column_names, data):
        """Write the table like other services of OpenStack."""
        if parsed_args.formatter != 'table':
            return super().produce_output(parsed_args, column_names, data)
        names, _ = self._generate_columns_and_selector(parsed_args,
                                                       column_names)
        table = prettytable.PrettyTable([_TITLE], align='l',
                                        hrules=prettytable.HRuleStyle.ALL)
        for row in data:
            table.add_row(['\n'.join(
                f'{name.capitalize()}: {_wrap(value)}'
                for name, value in zip(column_names, row, strict=True)
                if name in names)])
        self.app.stdout.write(f'{table}\n')
        return 0


def _wrap(value):
    return '\n'.join(textwrap.wrap(str(value), _WIDTH,
                                   subsequent_indent='  '))
