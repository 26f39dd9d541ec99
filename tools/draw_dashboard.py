#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Draw the dashboard of the documentation, from what really happened.

Runs the stories of demo.py, one for each row of the dashboard, has a
Prometheus of its own scrape the services meanwhile, runs the queries of each
panel against it, and draws what comes. Needs root, as the demo does, what its
stories need, the Debian package prometheus, and matplotlib.
"""

import argparse
import dataclasses
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
from tests.cloud import clusters  # noqa: E402
from tests.cloud import controllers  # noqa: E402
from tests.cloud import network  # noqa: E402
from tests.cloud import octavia  # noqa: E402
from tests.cloud import process  # noqa: E402
from tests.cloud import waiting  # noqa: E402
from tools import demo  # noqa: E402
from tools import demo_cluster  # noqa: E402
from tools import demo_image  # noqa: E402

DASHBOARD = TOP / 'etc/grafana/octavia-hmsync.json'
PICTURE = TOP / 'doc/source/_static/dashboard.svg'

LIST, IMAGES, CLUSTERS, NETWORK = (
    'The list of health managers', 'Image upgrades', 'Clusters',
    'The management network')

PORT = 9180
KEEPER = 90
# Of a whole Octavia, whose controllers share a network namespace.
LOCAL, KEEPER_PORT = '127.0.0.1', 9181
PROMETHEUS = 91
# Seconds: how often Prometheus scrapes, and over what a rate is taken.
SCRAPE_INTERVAL = 1
RATE_INTERVAL = 10
COLUMNS = 3
# Seconds between two readings of the database by a service, and some more.
READ_INTERVAL = 12
# Characters of a label: ids are long.
SHOWN = 12


class Prometheus(controllers.InNamespace, process.ChildProcess):
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
        return self.running and self._call(
            network.tcp_port_is_open, self._address, 9090)

    def _call(self, function, *args):
        return (self.namespace.call(function, *args) if self.namespace
                else function(*args))

    def query(self, expression, begin, end):
        """Return what a query gives between two times.

        :returns: a list of (labels, [(time, value)]).
        """
        return self._call(self._query, expression, begin, end)

    def _query(self, expression, begin, end):
        arguments = urllib.parse.urlencode({
            'query': expression, 'start': begin, 'end': end,
            'step': SCRAPE_INTERVAL})
        url = f'http://{self._address}:9090/api/v1/query_range?{arguments}'
        with urllib.request.urlopen(url, timeout=30) as answer:
            found = json.load(answer)
        return [(series['metric'],
                 [(at, float(value)) for at, value in series['values']])
                for series in found['data']['result']]


class ListStory(demo.Demo):
    """The demo, with health managers that serve metrics.

    .marks tells when any were killed.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self.marks = []

    def _kill(self, health_managers):
        self.marks.append(time.time())
        super()._kill(health_managers)

    def _add(self, address, static):
        return self.cloud.add_health_manager(address, options={'hmsync': {
            'health_manager_metrics_address': f'{address}:{PORT}'}})


class ImageStory(demo_image.ImageDemo):
    """A rollout to a newer image; .marks tells when it was ordered."""

    def __init__(self, *args):
        super().__init__(*args)
        self.marks = []

    def run(self):
        self._make_load_balancers()
        self.cloud.add_image('newer')
        time.sleep(2 * demo_image.PAUSE + READ_INTERVAL)
        self.marks.append(time.time())
        self._run('image', 'rollout', 'start', '--watch-time', '10', '--wait')
        time.sleep(2 * READ_INTERVAL)


class NetworkStory(ImageStory):
    """A network is made; Neutron is away; .marks tells from when to when."""

    def run(self):
        self._run('network', 'ensure')
        time.sleep(2 * READ_INTERVAL)
        for change in (self.cloud.neutron.stop, self.cloud.neutron.start):
            self.marks.append(time.time())
            change()
            time.sleep(3 * READ_INTERVAL)


class ClusterStory(demo_cluster.ClusterDemo):
    """The demo of clusters; .marks tells when each thing happened."""

    def __init__(self, *args):
        super().__init__(*args)
        self.marks = []

    def _observe(self, name, happen):
        def happen_and_note():
            self.marks.append(time.time())
            return happen()

        super()._observe(name, happen_and_note)


@dataclasses.dataclass(frozen=True)
class Recording:
    """What the panels of a row show; times are seconds since its begin.

    :ivar row: its title.
    :ivar length: until it ends.
    :ivar marks: when what the story is about happened.
    :ivar panels: (panel, [(legend, [(time, value)])]) of each panel.
    """

    row: str
    length: float
    marks: list[float]
    panels: list[tuple]


def take(row, prometheus, begin, marks):
    """Return the Recording of a story that has just ended."""
    end = time.time()
    return Recording(row, end - begin, [at - begin for at in marks], [
        (panel, [(legend, [(at - begin, value) for at, value in points])
                 for legend, points in ask(prometheus, panel, begin, end)])
        for panel in get_panels(row)])


def record_list(amphorae):
    """Run the story of the list.

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
        story = ListStory(cloud, demo.Terminal())
        story.run()
        print(story.table())
        return take(LIST, prometheus, find_begin(prometheus), story.marks)


def record_images():
    """Run the story of images; returns a Recording."""
    with octavia.Octavia(workers=1, options=make_options()) as cloud:
        return record_whole(IMAGES, cloud, ImageStory)


def record_clusters():
    """Run the story of clusters; returns a Recording."""
    with clusters.ClusterOctavia(workers=1, options=make_options(
            demo_cluster.DRAINING)) as cloud:
        return record_whole(CLUSTERS, cloud, ClusterStory)


def record_network():
    """Run the story of the management network; returns a Recording."""
    with octavia.Octavia(workers=1, options=make_options({
            'hmsync_network': {
                'management_subnet_cidr': '172.30.0.0/24',
                'network_name': 'hmsync-mgmt-net',
                'amphora_security_group': 'hmsync-mgmt-sec-grp',
                'health_manager_security_group': 'hmsync-health-mgr-sec-grp',
                'reconcile_interval': 3}})) as cloud:
        return record_whole(NETWORK, cloud, NetworkStory)


def make_options(others=None):
    return {**(others or {}), 'hmsync': {
        'health_manager_metrics_address': f'{LOCAL}:{PORT}',
        'house_keeping_metrics_address': f'{LOCAL}:{KEEPER_PORT}'}}


def record_whole(row, cloud, kind):
    cloud.wait_until_ready()
    prometheus = Prometheus(LOCAL, {
        'octavia-health-manager': [f'{LOCAL}:{PORT}'],
        'octavia-housekeeping': [f'{LOCAL}:{KEEPER_PORT}']}, cloud.directory)
    cloud.useFixture(prometheus.enter(cloud.namespace))
    prometheus.wait_until_ready()
    begin = time.time()
    story = kind(cloud, demo.Terminal())
    story.run()
    return take(row, prometheus, begin, story.marks)


def find_begin(prometheus):
    """Return the time a little before any health manager was ONLINE."""
    end = time.time()
    found = prometheus.query(
        'octavia_hmsync_health_managers{status="ONLINE"} > 0', end - 600, end)
    if not found:
        raise waiting.WaitTimeout('Prometheus has scraped nothing')
    return found[0][1][0][0] - 5


def get_panels(row):
    """Return the panels of a row: those up to the next one."""
    panels = iter(json.loads(DASHBOARD.read_text())['panels'])
    next(panel for panel in panels
         if (panel['type'], panel['title']) == ('row', row))
    return list(itertools.takewhile(
        lambda panel: panel['type'] != 'row', panels))


def ask(prometheus, panel, begin, end):
    """Yield (legend, [(time, value)]) for each line of a panel."""
    for target in panel['targets']:
        expression = target['expr'].replace('$job', '.+').replace(
            '$__rate_interval', f'{RATE_INTERVAL}s')
        for labels, points in prometheus.query(expression, begin, end):
            yield re.sub(r'{{(\w+)}}', lambda match, labels=labels:
                         labels[match.group(1)][:SHOWN],
                         target['legendFormat']), points


def draw(recordings, path):
    """Draw all panels, in the rows of the dashboard.

    :param path: the file to write.
    """
    matplotlib.rcParams.update({
        'svg.fonttype': 'none', 'svg.hashsalt': 'octavia-hmsync',
        'font.size': 8, 'axes.spines.top': False,
        'axes.spines.right': False})
    heights = [math.ceil(len(recording.panels) / COLUMNS)
               for recording in recordings]
    figure = pyplot.figure(figsize=(12, 2.4 * sum(heights)),
                           layout='constrained')
    parts = figure.subfigures(len(recordings), 1, height_ratios=heights)
    for part, rows, recording in zip(parts, heights, recordings):
        draw_row(part, rows, recording)
    figure.savefig(path, metadata={'Date': None})


def draw_row(part, rows, recording):
    part.suptitle(recording.row, x=0.01, ha='left', fontsize=11,
                  fontweight='bold')
    cells = part.subplots(rows, COLUMNS)
    for cell, item in itertools.zip_longest(cells.flat, recording.panels):
        if item is None:
            cell.set_axis_off()
            continue
        draw_panel(cell, *item)
        cell.set_xlim(0, recording.length)
        for at in recording.marks:
            cell.axvline(at, color='grey', linestyle=':', linewidth=1)
    part.supxlabel('seconds', fontsize=8)


def draw_panel(cell, panel, lines):
    unit = {'s': ' (s)', 'ops': ' (per s)'}.get(
        panel['fieldConfig']['defaults']['unit'], '')
    cell.set_title(panel['title'] + unit, loc='left', fontweight='bold')
    for legend, points in lines:
        times, values = zip(*simplify(points))
        cell.plot(times, values, label=legend, linewidth=1.2,
                  drawstyle='steps-post')
    # Room for the legend.
    highest = max([1.0 if not unit else 0.0, *(
        value for _legend, points in lines for _at, value in points
        if not math.isnan(value))])
    cell.set_ylim(0, (highest or 1.0) * 1.45)
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
    recordings = [record_list(arguments.amphorae), record_images(),
                  record_clusters(), record_network()]
    arguments.output.parent.mkdir(exist_ok=True)
    draw(recordings, arguments.output)


if __name__ == '__main__':
    main()
