#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Draw the dashboard of the documentation, from what really happened.

Runs the story of demo.py, has a Prometheus of its own scrape the services
meanwhile, runs the queries of each panel of the dashboard against it, and
draws what comes. Needs root, as the demo does, the Debian package prometheus,
and matplotlib.
"""

import argparse
import itertools
import json
import math
import os
import pathlib
import re
import sys
import time
import urllib.parse
import urllib.request

import matplotlib
from matplotlib import pyplot

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP)]

from tests.cloud import cloud as cloud_fixture  # noqa: E402
from tests.cloud import network  # noqa: E402
from tests.cloud import process  # noqa: E402
from tests.cloud import waiting  # noqa: E402
from tools import demo  # noqa: E402

DASHBOARD = TOP / 'etc/grafana/octavia-hmsync.json'
PICTURE = TOP / 'doc/source/_static/dashboard.svg'

PORT = 9180
KEEPER = 90
PROMETHEUS = 91
# Seconds: how often Prometheus scrapes, and over what a rate is taken.
SCRAPE_INTERVAL = 1
RATE_INTERVAL = 10
COLUMNS = 3


class Prometheus(process.ChildProcess):
    """A Prometheus that scrapes a cloud.

    :param address: where it listens.
    :param jobs: addresses to scrape, by job.
    :param directory: for its data.
    """

    def __init__(self, address, jobs, directory):
        self._address = address
        directory = os.path.join(directory, 'prometheus')
        os.makedirs(directory)
        path = os.path.join(directory, 'prometheus.yml')
        with open(path, 'w') as file:
            # JSON is YAML.
            json.dump({
                'global': {'scrape_interval': f'{SCRAPE_INTERVAL}s'},
                'scrape_configs': [
                    {'job_name': job, 'static_configs': [
                        {'targets': addresses}]}
                    for job, addresses in jobs.items()]}, file)
        super().__init__(
            'prometheus', [
                process.system_program('prometheus'),
                f'--config.file={path}', f'--storage.tsdb.path={directory}',
                f'--web.listen-address={address}:9090'],
            directory, env=process.environment(directory), cwd=directory)

    def is_ready(self):
        return self.running and network.tcp_port_is_open(self._address, 9090)

    def query(self, expression, begin, end):
        """Return what a query gives between two times.

        :returns: a list of (labels, [(time, value)]).
        """
        arguments = urllib.parse.urlencode({
            'query': expression, 'start': begin, 'end': end,
            'step': SCRAPE_INTERVAL})
        url = f'http://{self._address}:9090/api/v1/query_range?{arguments}'
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = json.load(answer)
        return [(series['metric'],
                 [(at, float(value)) for at, value in series['values']])
                for series in found['data']['result']]


class ScrapedDemo(demo.Demo):
    """The demo, with health managers that serve metrics.

    .kills tells when any were killed.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self.kills = []

    def _kill(self, health_managers):
        self.kills.append(time.time())
        super()._kill(health_managers)

    def _add(self, address, static):
        return self.cloud.add_health_manager(address, options={'hmsync': {
            'health_manager_metrics_address': f'{address}:{PORT}'}})


class Recording:
    """What the panels show of a story; times are seconds since its begin.

    :param prometheus: a Prometheus that has scraped it.
    :param begin: when it began.
    :param kills: when health managers were killed.
    """

    def __init__(self, prometheus, begin, kills):
        end = time.time()
        self.length = end - begin
        self.kills = [at - begin for at in kills]
        # (panel, [(legend, [(time, value)])]) of each panel.
        self.panels = [
            (panel, [(legend, [(at - begin, value) for at, value in points])
                     for legend, points in ask(prometheus, panel, begin, end)])
            for panel in get_panels()]


def record(amphorae):
    """Run the story.

    :param amphorae: how many.
    :returns: a Recording.
    """
    def boot_list(cloud):
        return [f'{cloud.address(n)}:{demo.PORT}' for n in (1, 2, 3)]

    with cloud_fixture.Cloud(
            amphorae=amphorae, listeners=True,
            controller_ip_port_list=boot_list) as cloud:
        keeper = f'{cloud.address(KEEPER)}:{PORT}'
        cloud.options['hmsync'] = {'house_keeping_metrics_address': keeper}
        cloud.upgrade_hmsync()
        prometheus = cloud.useFixture(Prometheus(
            cloud.address(PROMETHEUS), {
                'octavia-health-manager': [f'{cloud.address(n)}:{PORT}'
                                           for n in range(1, 8)],
                'octavia-housekeeping': [keeper]}, cloud.directory))
        prometheus.wait_until_ready()
        story = ScrapedDemo(cloud, demo.Terminal())
        story.run()
        print(story.table())
        return Recording(prometheus, find_begin(prometheus), story.kills)


def find_begin(prometheus):
    """Return the time a little before any health manager was ONLINE."""
    end = time.time()
    found = prometheus.query(
        'octavia_hmsync_health_managers{status="ONLINE"} > 0', end - 600, end)
    if not found:
        raise waiting.WaitTimeout('Prometheus has scraped nothing')
    return found[0][1][0][0] - 5


def get_panels():
    """Return those that show something of the demo's story.

    That is of the list: the first row, to the next one.
    """
    panels = iter(json.loads(DASHBOARD.read_text())['panels'])
    next(panel for panel in panels if panel['type'] == 'row')
    return list(itertools.takewhile(
        lambda panel: panel['type'] != 'row', panels))


def ask(prometheus, panel, begin, end):
    """Yield (legend, [(time, value)]) for each line of a panel."""
    for target in panel['targets']:
        expression = target['expr'].replace('$job', '.+').replace(
            '$__rate_interval', f'{RATE_INTERVAL}s')
        for labels, points in prometheus.query(expression, begin, end):
            yield re.sub(r'{{(\w+)}}', lambda match, labels=labels:
                         labels[match.group(1)],
                         target['legendFormat']), points


def draw(recording, path):
    """Draw all panels.

    :param recording: a Recording.
    :param path: the file to write.
    """
    matplotlib.rcParams.update({
        'svg.fonttype': 'none', 'svg.hashsalt': 'octavia-hmsync',
        'font.size': 8, 'axes.spines.top': False,
        'axes.spines.right': False})
    rows = math.ceil(len(recording.panels) / COLUMNS)
    figure, cells = pyplot.subplots(rows, COLUMNS, figsize=(12, 2.3 * rows),
                                    layout='constrained')
    for cell, item in itertools.zip_longest(cells.flat, recording.panels):
        if item is None:
            cell.set_axis_off()
            continue
        draw_panel(cell, *item)
        cell.set_xlim(0, recording.length)
        for at in recording.kills:
            cell.axvline(at, color='grey', linestyle=':', linewidth=1)
    figure.supxlabel('seconds', fontsize=8)
    figure.savefig(path, metadata={'Date': None})


def draw_panel(cell, panel, lines):
    unit = {'s': ' (s)', 'ops': ' (per s)'}.get(
        panel['fieldConfig']['defaults']['unit'], '')
    cell.set_title(panel['title'] + unit, loc='left', fontweight='bold')
    for legend, points in lines:
        times, values = zip(*simplify(points))
        cell.plot(times, values, label=legend, linewidth=1.2,
                  drawstyle='steps-post')
    # Room for the legend.
    cell.set_ylim(0, max([1.0 if not unit else 0.0, *(
        value for _legend, points in lines for _at, value in points
        if not math.isnan(value))]) * 1.45)
    cell.locator_params(nbins=5)
    cell.grid(alpha=0.3)
    if lines:
        cell.legend(fontsize=7, frameon=False, ncols=3, loc='upper left')


def simplify(points):
    """Yield the points at which a line changes, and gaps as NaN."""
    before, drawn = None, None
    for at, value in points:
        if before and at - before[0] > 2 * SCRAPE_INTERVAL:
            yield before
            yield before[0] + SCRAPE_INTERVAL, math.nan
            drawn = None
        if value != drawn:
            yield at, value
            drawn = value
        before = at, value
    yield before


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--amphorae', type=int, default=6, metavar='N',
                        help='number of amphora agents (default: 6)')
    parser.add_argument('--output', type=pathlib.Path, default=PICTURE,
                        metavar='FILE', help='default: the one of the '
                        'documentation')
    arguments = parser.parse_args()
    if os.geteuid():
        sys.exit('This needs root, as the demo does.')
    shown = record(arguments.amphorae)
    arguments.output.parent.mkdir(exist_ok=True)
    draw(shown, arguments.output)


if __name__ == '__main__':
    main()
