# SPDX-License-Identifier: Apache-2.0

"""The names of the metrics, wherever they are written."""

import importlib.util
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


def reference():
    """The module of the documentation that makes its tables of the code."""
    path = TOP / 'doc/source/_ext/reference.py'
    spec = importlib.util.spec_from_file_location('reference', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documented():
    """The names in the Administrator Guide.

    Those that the page has in its own words, and of those that are found in
    the code the ones that a directive of the page shows.
    """
    text = DOCUMENT.read_text()
    shown = re.compile('|'.join(
        f'(?:{pattern})' for pattern in
        re.findall(r'^\.\. metrics:: (.*)$', text, re.M)))
    module = reference()
    return set(re.findall(r'^``(octavia_hmsync_\w+)', text, re.M)) | {
        name for name in module.find_metrics()
        if shown.match(name.removeprefix(module.PREFIX))}


def used(text):
    """The names in queries."""
    return {re.sub('_seconds_(bucket|count|sum)$', '_seconds', name)
            for name in re.findall(r'\boctavia_hmsync_\w+', text)}
