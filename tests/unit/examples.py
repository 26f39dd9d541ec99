# SPDX-License-Identifier: Apache-2.0

"""Checks of parts of octavia.conf and of commands, wherever they stand."""

import configparser
import contextlib
import io
import pathlib
import re

from oslo_config import cfg

from octavia_hmsync.cmd import hmsync
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.conf import sync as hmsync_conf
from tests.unit import base

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = TOP / 'etc/examples'
# oslo.config itself registers it.
DRIVER_OPTION = 'driver'
# What a later step of the roll-out wants: pinned addresses are let go of.
PINNED = re.compile(r'^( *)# (\[health_manager\]|health_manager:|'
                    r' *controller_ip_port_list ?[=:].*)$', re.MULTILINE)


class ExamplesTestCase(base.TestCase):

    def check(self, text):
        """Check lines of octavia.conf that switch the plugin on.

        :param text: the lines.
        :returns: a ConfigParser with them.
        """
        parser = configparser.ConfigParser()
        parser.read_string(text)
        self.assertEqual('hmsync', parser['DEFAULT']['config_source'])
        self.assertEqual('octavia_hmsync',
                         parser[hmsync_conf.GROUP][DRIVER_OPTION])
        conf = self.make_conf()
        for group in parser.sections():
            for option in set(parser[group]) - set(parser.defaults()):
                if (group, option) != (hmsync_conf.GROUP, DRIVER_OPTION):
                    conf.set_override(option, parser[group][option], group)
        groups.check(conf, hmsync_conf)
        self.assertEqual(['stats_db', 'hmsync'],
                         conf.controller_worker.statistics_drivers)
        return parser

    def let_go(self, text):
        """Return an example with the lines that are a comment at first.

        :param text: the example.
        """
        text, found = PINNED.subn(r'\1\2', text)
        self.assertTrue(found)
        return text

    def check_command(self, words):
        """Check that octavia-hmsync takes such a command.

        :param words: a list; the program and what stands before it count.
        """
        names = [word.rpartition('/')[2] for word in words]
        app = hmsync.HMSyncApp()
        # --config-file and --config-dir are the application's.
        _options, words = app.parser.parse_known_args(
            words[names.index('octavia-hmsync') + 1:])
        factory, name, rest = app.command_manager.find_command(words)
        parser = factory(app, None, cmd_name=name).get_parser(name)
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            try:
                return parser.parse_args(rest)
            except SystemExit:
                self.fail(f'{words}: {said.getvalue()}')

    def read_conf(self, directory, *arguments):
        """Return what oslo.config makes of files, of two options.

        :param directory: where they are.
        :param arguments: --config-file and so on, relative to it.
        """
        conf = cfg.ConfigOpts()
        conf.register_opts([cfg.StrOpt('bind_ip'),
                            cfg.ListOpt('controller_ip_port_list')],
                           'health_manager')
        conf([str(pathlib.Path(directory, a)) if not a.startswith('-') else a
              for a in arguments],
             default_config_files=[], default_config_dirs=[])
        return conf.health_manager
