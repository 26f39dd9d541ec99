# SPDX-License-Identifier: Apache-2.0

import ast
import pathlib

import fixtures
from oslo_config import cfg

from octavia_hmsync.conf import opts
from octavia_hmsync.conf import sync as hmsync_conf
from octavia_hmsync import exceptions
from tests.unit import base
from tests.unit import octavia_opts

WRONG = {
    'hmsync': (
        'poll_interval = soon', 'poll_interval = 0', 'static_address = hm1',
        'allow_loopback = perhaps', 'settle_time = -1', 'batch_size = 100000'),
    'hmsync_network': (
        'reconcile_interval = soon', 'reconcile_interval = -1',
        'api_timeout = 0', 'supply_options = perhaps', 'network_name = a,b',
        'network_name = a/b', f'network_name = {"x" * 141}'),
    'hmsync_image': ('replacements_at_once = many',),
    'hmsync_cluster': ('desired_size = many',)}


class TestGroups(base.TestCase):

    def test_each_option_has_a_help_text(self):
        for module in opts.ALL:
            for opt in module.OPTS:
                self.assertGreater(len(opt.help or ''), 40, opt.name)

    def test_registered_twice(self):
        opts.register(self.make_conf())

    def test_listed_for_the_sample_file(self):
        listed = {}
        for group, options in opts.list_opts():
            listed.setdefault(group, set()).update(o.name for o in options)
        expected = {module.GROUP: {o.name for o in module.OPTS}
                    for module in opts.ALL}
        expected['hmsync'].add('driver')
        self.assertEqual({'DEFAULT': {'config_source'}, **expected}, listed)

    def test_defaults_are_right(self):
        opts.check(self.make_conf())

    def test_only_some_are_checked(self):
        conf = self.make_conf(hmsync_image={'rollout_windows': 'at night'})
        opts.check(conf, hmsync_conf)
        self.assertRaises(exceptions.InvalidConfiguration, opts.check, conf)

    def read(self, group, line):
        """Parse a file with one option of the group."""
        path = self.useFixture(fixtures.TempDir()).join('octavia.conf')
        with open(path, 'w') as octavia_conf:
            octavia_conf.write(f'[{group}]\n{line}\n')
        conf = cfg.ConfigOpts()
        octavia_opts.register(conf)
        opts.register(conf)
        conf([], default_config_files=[path], default_config_dirs=[])
        return conf, path

    def test_values_that_a_file_has_wrong(self):
        for group, lines in WRONG.items():
            for line in lines:
                name = line.partition(' ')[0]
                conf, path = self.read(group, line)
                e = self.assertRaises(exceptions.InvalidConfiguration,
                                      opts.check, conf)
                self.assertIn(f'[{group}] {name}', str(e))
                self.assertIn(f' from {path} is not valid', str(e))
                self.assertNotIn('LocationInfo', str(e))
                self.assertNotIn('\n', str(e))
                # From now on it can be read, as Octavia does when it logs it.
                self.assertEqual([], opts.neutralize_all(conf))

    def test_places_of_values(self):
        """oslo.config names them as Python prints an object."""
        for place, expected in (
                (cfg.LocationInfo(cfg.Locations.user, "/it's.conf"),
                 "/it's.conf"),
                (cfg.LocationInfo(cfg.Locations.environment, 'OS_A__B'),
                 'OS_A__B'),
                (cfg.LocationInfo(cfg.Locations.command_line, ''),
                 'the command line')):
            self.assertEqual(
                f'Value for option b from {expected} is not valid: (x)',
                opts.describe_error(cfg.ConfigSourceValueError(
                    f'Value for option b from {place} is not valid: (x)')))


class TestMarks(base.TestCase):
    """What is mutable takes effect at SIGHUP; what is advanced is internal."""

    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).join('octavia.conf')
        self.opts = {opt.dest: (module.GROUP, opt) for module in opts.ALL
                     for opt in module.OPTS}

    def write(self, values):
        with open(self.path, 'w') as octavia_conf:
            for dest, value in values.items():
                group, _opt = self.opts[dest]
                octavia_conf.write(f'[{group}]\n{dest} = {value}\n')

    def test_sighup(self):
        before = {dest: opt.default for dest, (_group, opt)
                  in self.opts.items() if opt.mutable}
        self.assertIn('upload_rate', before)
        after = {dest: not value if isinstance(value, bool) else value + 1
                 for dest, value in before.items()}
        self.write(before)
        conf = cfg.ConfigOpts()
        opts.register(conf)
        conf([], default_config_files=[self.path], default_config_dirs=[])
        self.write({**after, 'poll_interval': 7})
        conf.mutate_config_files()
        self.assertEqual(after, {dest: conf[self.opts[dest][0]][dest]
                                 for dest in after})
        self.assertEqual(2, conf.hmsync.poll_interval)

    def test_no_copy_is_kept_of_what_is_mutable(self):
        """Whoever keeps one at the start does not see SIGHUP."""
        mutable = {dest for dest, (_group, opt) in self.opts.items()
                   if opt.mutable}
        package = pathlib.Path(opts.__file__).parents[1]
        kept = set()
        for path in package.rglob('*.py'):
            for node in ast.walk(ast.parse(path.read_text())):
                if (isinstance(node, ast.FunctionDef) and
                        node.name == '__init__'):
                    for statement in node.body:
                        kept |= {(path.name, name) for name in
                                 _read_at_once(statement) & mutable}
        # A command lives no longer than its work.
        self.assertEqual(set(), kept)

    def test_internals(self):
        """An operator who sets none of these has all four parts."""
        for dest in ('poll_interval', 'batch_size', 'claim_expiry',
                     'proof_timeout', 'keeper_interval', 'api_timeout'):
            self.assertTrue(self.opts[dest][1].advanced, dest)
        for dest in ('allowed_networks', 'upload_rate', 'canary_size', 'zone',
                     'distributors', 'rollout_windows', 'supply_options'):
            self.assertFalse(self.opts[dest][1].advanced, dest)


def _read_at_once(node):
    """Names of options that a statement reads, but in functions in it."""
    if isinstance(node, ast.Lambda | ast.FunctionDef):
        return set()
    found = {node.attr} if (
        isinstance(node, ast.Attribute) and
        ast.unparse(node.value).endswith(('conf.hmsync', 'options', 'opts',
                                          'GROUP]'))) else set()
    return found.union(*map(_read_at_once, ast.iter_child_nodes(node)))
