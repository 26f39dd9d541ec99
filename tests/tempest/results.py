# SPDX-License-Identifier: Apache-2.0

"""What came out of the suite, as text; what fails, and why."""

import collections

from tests.tempest import suite

# What the suite expects of every provider with amphorae, and a cluster does
# otherwise on purpose. May fail: {name of a test: reason}.
EXPECTED = {
    'amphora_cluster': {
        'test_amphora_list_and_show':
        'expects one amphora, or two with roles MASTER and BACKUP',
        **dict.fromkeys(
            ('test_amphora_failover', 'test_load_balancer_failover'),
            'expects that no old amphora is listed at ACTIVE; here it drains'),
        'test_http_RR_listener_with_allowed_cidrs': 'even',
        'test_basic_http_traffic': 'even',
        'test_basic_tcp_traffic': 'even',
        'test_least_connections_http_traffic': 'even',
        'test_least_connections_tcp_traffic': 'even',
    }}
_EVEN = ('expects that 20 connections are spread evenly over servers; each '
         'amphora chooses for itself')


def get_reason(provider, result):
    """Return why a failure is expected; None if it is not."""
    reason = EXPECTED.get(provider, {}).get(result.name.rpartition('.')[2])
    return _EVEN if reason == 'even' else reason


def find_unexpected(provider, found):
    """Return the failures that are not expected."""
    return [each for each in found if each.outcome == suite.FAILED and
            get_reason(provider, each) is None]


def _count(found):
    counted = collections.Counter(each.outcome for each in found)
    return [counted[outcome]
            for outcome in (suite.PASSED, suite.FAILED, suite.SKIPPED)]


def describe(name, found):
    """Return a line about a run."""
    return '{}: {} passed, {} failed, {} skipped'.format(name, *_count(found))


def _get_part(result):
    """Return which part of the suite a test is of: its module."""
    module, _, _ = result.name.rpartition('.')
    return module.rpartition('.')[0].replace('v2.test_', '')


def make_table(found, providers):
    """Return a table of counts, and after it what did not pass, and why.

    :param found: {name of a run: its results}.
    :param providers: {name of a run: provider}.
    """
    lines = ['.. list-table::', '   :header-rows: 1', '']
    for row in (('Run', 'Part', 'Passed', 'Failed', 'Skipped'),
                *_rows(found)):
        lines += [f'   {" " if number else "*"} - {cell}'
                  for number, cell in enumerate(row)]
    for name, each in found.items():
        lines += ['', f'{name}:', '', *_explain(each, providers[name])]
    return '\n'.join(lines) + '\n'


def _rows(found):
    for name, each in found.items():
        parts = collections.defaultdict(list)
        for result in each:
            parts[_get_part(result)].append(result)
        for part, those in sorted(parts.items()):
            yield (name, part, *_count(those))
        yield (name, 'sum', *_count(each))


def _explain(found, provider):
    for result in found:
        if result.outcome == suite.FAILED:
            reason = get_reason(provider, result) or result.reason
            yield f'* ``{result.name.rpartition(".")[2]}`` failed: {reason}'
    skipped = collections.Counter(result.reason for result in found
                                  if result.outcome == suite.SKIPPED)
    for reason, count in sorted(skipped.items()):
        yield f'* {count} skipped: {reason}'
