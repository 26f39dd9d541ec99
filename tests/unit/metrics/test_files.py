# SPDX-License-Identifier: Apache-2.0

"""The alert rules, the dashboard and the document that go with the metrics."""

import json
import re
import subprocess

from oslotest import base
import yaml

from tests import metrics
from tests.unit import base as unit_base


class TestRules(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.rules = [rule for group in yaml.safe_load(
            metrics.RULES.read_text())['groups'] for rule in group['rules']]

    def promtool(self, *arguments):
        done = subprocess.run(
            [unit_base.need_program('promtool'), *arguments],
            capture_output=True, text=True, cwd=metrics.RULES.parent)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout

    def test_check(self):
        self.assertIn(f'SUCCESS: {len(self.rules)} rules found',
                      self.promtool('check', 'rules', metrics.RULES.name))

    def test_each_fires_and_does_not(self):
        self.assertIn('SUCCESS', self.promtool('test', 'rules',
                                               metrics.RULES_TESTS.name))
        fires, is_quiet = set(), set()
        for test in yaml.safe_load(
                metrics.RULES_TESTS.read_text())['tests']:
            for case in test['promql_expr_test']:
                (fires if case['exp_samples'] else is_quiet).update(
                    re.findall('alertname="(\\w+)"', case['expr']))
        names = {rule['alert'] for rule in self.rules}
        self.assertEqual((names, names), (fires, is_quiet))

    def test_names(self):
        self.assertEqual(set(), metrics.used(' '.join(
            rule['expr'] for rule in self.rules)) - metrics.documented())

    def test_each_is_in_the_document(self):
        """At the heading that the runbook points to, made of the rule."""
        self.assertIn('\n.. alerts::\n', metrics.DOCUMENT.read_text())
        self.assertEqual(self.rules, metrics.reference().read_alerts())
        for rule in self.rules:
            self.assertLess(40, len(rule['annotations']['description']))
            self.assertEqual(
                '{{ $externalLabels.octavia_hmsync_docs }}/'
                f'admin/metrics.html#{rule["alert"].lower()}',
                rule['annotations']['runbook_url'])
            self.assertIn(rule['labels']['severity'],
                          ('warning', 'critical'))

    def test_one_variable_is_where_the_documentation_is(self):
        for text in (metrics.RULES.read_text(), metrics.DOCUMENT.read_text()):
            self.assertIn('octavia_hmsync_docs', text)
        test = yaml.safe_load(metrics.RULES_TESTS.read_text())['tests'][0]
        alert, = test['alert_rule_test'][0]['exp_alerts']
        self.assertEqual(
            test['external_labels']['octavia_hmsync_docs'] +
            '/admin/metrics.html#octaviahmsyncnohealthmanager',
            alert['exp_annotations']['runbook_url'])


class TestDashboard(base.BaseTestCase):

    def setUp(self):
        super().setUp()
        self.dashboard = json.loads(metrics.DASHBOARD.read_text())
        self.panels = [panel for panel in self.dashboard['panels']
                       if panel['type'] != 'row']

    def test_names(self):
        queries = ' '.join(target['expr'] for panel in self.panels
                           for target in panel['targets'])
        self.assertNotEqual(set(), metrics.used(queries))
        self.assertEqual(set(), metrics.used(queries) - metrics.documented())

    def test_datasource_is_a_variable(self):
        variables = {v['name']: v
                     for v in self.dashboard['templating']['list']}
        self.assertEqual('datasource', variables['datasource']['type'])
        for panel in self.panels:
            for item in (panel, *panel['targets']):
                self.assertEqual('${datasource}', item['datasource']['uid'])
        # An id of one Grafana would overwrite a dashboard of another.
        self.assertIsNone(self.dashboard['id'])

    def test_what_is_wrong_is_seen_first(self):
        """Numbers with thresholds, then the alerts, then each part."""
        kinds = [panel['type'] for panel in self.dashboard['panels']]
        first = kinds.index('row')
        self.assertEqual({'stat', 'alertlist'}, set(kinds[:first]))
        for panel in self.dashboard['panels'][:first]:
            if panel['type'] == 'stat':
                self.assertLess(1, len(panel['fieldConfig']['defaults'][
                    'thresholds']['steps']))
        self.assertEqual(
            ['The list of health managers', 'Image upgrades', 'Clusters',
             'The management network'],
            [panel['title'] for panel in self.dashboard['panels']
             if panel['type'] == 'row'])

    def test_network(self):
        """What the alert of the management network is about is shown."""
        alert, = (rule['expr'] for group in yaml.safe_load(
            metrics.RULES.read_text())['groups'] for rule in group['rules']
            if rule['alert'] == 'OctaviaHMSyncNetworkNotChecked')
        threads, = re.findall('thread=~"[^"]+"', alert)
        titles = [panel['title'] for panel in self.dashboard['panels']]
        first = titles.index('The management network') + 1
        shown = [target['expr'] for panel in self.dashboard['panels'][first:]
                 for target in panel['targets']]
        self.assertEqual([True, True], [threads in each for each in shown])
        # The alert comes from this number on.
        self.assertEqual(int(alert.split()[-1]), self.dashboard['panels'][-1][
            'fieldConfig']['defaults']['thresholds']['steps'][-1]['value'])

    def test_panels_do_not_overlap(self):
        cells = [(panel['gridPos']['x'] + x, panel['gridPos']['y'] + y)
                 for panel in self.dashboard['panels']
                 for x in range(panel['gridPos']['w'])
                 for y in range(panel['gridPos']['h'])]
        self.assertEqual(len(cells), len(set(cells)))
        self.assertLess(max(x for x, _y in cells), 24)
        ids = [panel['id'] for panel in self.dashboard['panels']]
        self.assertEqual(len(ids), len(set(ids)))
