# SPDX-License-Identifier: Apache-2.0

"""The names of the metrics, wherever they are written."""

import pathlib
import re

from prometheus_client import parser

TOP = pathlib.Path(__file__).resolve().parents[1]
DOCUMENT = TOP / 'doc/source/admin/metrics.rst'
RULES = TOP / 'etc/prometheus/octavia-hmsync.rules.yml'
RULES_TESTS = TOP / 'etc/prometheus/octavia-hmsync.test.yml'
DASHBOARD = TOP / 'etc/grafana/octavia-hmsync.json'


def exposed(text):
    """The names in what a service serves.

    ..._created, which prometheus_client adds to each counter, is left out.
    """
    return {family.name + ('_total' if family.type == 'counter' else '')
            for family in parser.text_string_to_metric_families(text)
            if not family.name.endswith('_created')}


def documented():
    """The names in the tables of the Administrator Guide."""
    return set(re.findall(r'^   \* - ``(octavia_hmsync_\w+)', re.sub(
        r'``(\w+)\{\w+\}``', r'``\1``', DOCUMENT.read_text()), re.M))


def used(text):
    """The names in queries."""
    return {re.sub('_seconds_(bucket|count|sum)$', '_seconds', name)
            for name in re.findall(r'\boctavia_hmsync_\w+', text)}
