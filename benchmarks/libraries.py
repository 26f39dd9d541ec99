# SPDX-License-Identifier: Apache-2.0

"""What the plugin does itself, beside the library that does the like.

::

    python -m benchmarks.libraries [exporter] [periodic] [lock] [vswitch]

lock needs tooz and a Galera cluster (galera-4); vswitch needs ovsdbapp, root
and Open vSwitch. Neither library is a requirement of the plugin.
"""

import argparse
import contextlib
import importlib
import logging
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

from futurist import periodics
import prometheus_client
import sqlalchemy as sa

from benchmarks import plug
from benchmarks import report
from octavia_hmsync.db import schema
from octavia_hmsync.metrics import export
from octavia_hmsync.metrics import probes
from octavia_hmsync.network.db import network as network_repo
from octavia_hmsync import periodic
from tests.cloud import database
from tests.cloud import galera
from tests.cloud import network
from tests.cloud import openvswitch
from tests.cloud import process


# Exporter: some connect and never ask.

EXPORTER_COLUMNS = ['server', 'silent', 'threads', 'after_12_s']


def run_exporter(silent=200, wait=export.PATIENCE + 2):
    """Count the threads that clients cost who never ask.

    :returns: a list of dicts with the EXPORTER_COLUMNS.
    """
    return [_count_threads(name, serve, silent, wait) for name, serve in
            (('hmsync', _serve), ('prometheus_client', _serve_by_library))]


@contextlib.contextmanager
def _serve(port):
    server = export.Exporter(
        'benchmark', f'127.0.0.1:{port}', probes.Probes(list, list),
        prometheus_client.CollectorRegistry())
    server.start()
    yield
    server.stop(5)


@contextlib.contextmanager
def _serve_by_library(port):
    server, _thread = prometheus_client.start_http_server(
        port, '127.0.0.1', prometheus_client.CollectorRegistry())
    yield
    server.shutdown()


def _count_threads(name, serve, silent, wait):
    port, before = network.free_port(), threading.active_count()
    with serve(port), contextlib.ExitStack() as clients:
        _wait_for_answer(f'http://127.0.0.1:{port}/metrics')
        for _ in range(silent):
            clients.enter_context(
                socket.create_connection(('127.0.0.1', port), 20))
        time.sleep(1)
        threads = threading.active_count() - before
        time.sleep(wait)
        return {'server': name, 'silent': silent, 'threads': threads,
                'after_12_s': threading.active_count() - before}


def _wait_for_answer(url):
    for _ in range(100):
        try:
            with urllib.request.urlopen(url, timeout=20):  # nosec B310
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError(f'nobody serves {url}')


# Periodic threads: one whose calls fail, and one whose calls are work.

PERIODIC_COLUMNS = ['thread', 'failed_calls', 'log_lines', 'busy_percent']
_INTERVAL = 0.05


class _Lines(logging.Handler):
    """Counts lines, those of tracebacks included."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def emit(self, record):
        self.count += len(self.format(record).splitlines())


def run_periodic(seconds=5):
    """Look at what is logged, and how much of a processor is used.

    :returns: a list of dicts with the PERIODIC_COLUMNS.
    """
    return [{'thread': name, **_count_lines(run), 'busy_percent':
             _measure_share(run, seconds)} for name, run in
            (('hmsync', _run_thread), ('futurist', _run_by_library))]


@contextlib.contextmanager
def _run_thread(function):
    engine = sa.create_engine('sqlite://')
    thread = periodic.PeriodicThread('benchmark', function, _INTERVAL, engine)
    # It has no tables here, and nobody asks for them.
    thread._schema_checked = True
    thread.start()
    yield
    thread.stop(10)


@contextlib.contextmanager
def _run_by_library(function):
    worker = periodics.PeriodicWorker(
        [(periodics.periodic(_INTERVAL, run_immediately=True)(function),
          None, None)], schedule_strategy='last_finished')
    thread = threading.Thread(target=worker.start, daemon=True)
    thread.start()
    yield
    worker.stop()
    thread.join(10)


def _count_lines(run, number=20):
    calls, done = iter(range(1, number)), threading.Event()
    failed = 0

    def fail():
        nonlocal failed
        failed += 1
        if next(calls, None) is None:
            done.set()
        raise ConnectionError('the database is down')

    lines = _Lines()
    logging.getLogger().addHandler(lines)
    try:
        with run(fail):
            done.wait(60)
    finally:
        logging.getLogger().removeHandler(lines)
    return {'failed_calls': failed, 'log_lines': lines.count}


def _measure_share(run, seconds):
    def work():
        end = time.thread_time() + _INTERVAL
        while time.thread_time() < end:
            pass

    with run(work):
        cpu, began = time.process_time(), time.monotonic()
        time.sleep(seconds)
        cpu, wall = time.process_time() - cpu, time.monotonic() - began
    return 100 * cpu / wall


# Lock: who asks at another node of the same cluster.

LOCK_COLUMNS = ['lock', 'holders_at_once']


def run_lock():
    """Have somebody at each of two nodes of a cluster take one lock.

    :returns: a list of dicts with the LOCK_COLUMNS.
    """
    nodes = galera.shared_cluster().nodes[:2]
    with database.MariaDBDatabase(server=nodes[0]) as made:
        urls = [node.url(made.name) for node in nodes]
        return [{'lock': 'hmsync', 'holders_at_once': _hold_rows(urls)},
                {'lock': 'tooz', 'holders_at_once': _hold_by_library(urls)}]


def _hold_rows(urls):
    engines = [sa.create_engine(url) for url in urls]
    schema.upgrade(engines[0])
    held = [network_repo.claim(engine, 'lb-mgmt', f'owner {number}', 60)
            for number, engine in enumerate(engines)]
    for engine in engines:
        engine.dispose()
    return held.count(None)


def _hold_by_library(urls):
    coordination = importlib.import_module('tooz.coordination')
    with contextlib.ExitStack() as stack:
        held = 0
        for number, url in enumerate(urls):
            coordinator = coordination.get_coordinator(
                url.replace('mysql+pymysql', 'mysql').partition('?')[0],
                f'owner {number}'.encode())
            coordinator.start()
            stack.callback(coordinator.stop)
            lock = coordinator.get_lock(b'lb-mgmt')
            if lock.acquire(blocking=False):
                stack.callback(lock.release)
                held += 1
        return held


# Open vSwitch: the interface of a port.

VSWITCH_COLUMNS = ['way', 'plug_cpu_ms', 'plug_wall_ms', 'hangs_for_s']


def run_vswitch(rounds=5, limit=60):
    """Plug a port, in a process of its own each time, as a node does.

    CPU is that of the process and of what it runs; ovsdb-server hangs in the
    end.

    :returns: a list of dicts with the VSWITCH_COLUMNS; for hangs_for_s the
              time after which a look ended, None if it did not within limit.
    """
    ways = ('hmsync', 'ovsdbapp')
    with tempfile.TemporaryDirectory() as directory, \
            openvswitch.Namespace('benchmark', directory) as node, \
            openvswitch.OpenVswitch(node, 'benchmark', directory) as ovs:
        runs = {way: [] for way in ways}
        for _ in range(rounds):
            for way, measured in runs.items():
                measured.append(_measure_plug(node, ovs, way))
                ovs.vsctl('del-port', 'br-int', plug.NAME)
        ovs.server.pause()
        try:
            return [{'way': way,
                     'plug_cpu_ms': min(cpu for cpu, _ in runs[way]),
                     'plug_wall_ms': min(wall for _, wall in runs[way]),
                     'hangs_for_s': _measure_hang(node, ovs, way, limit)}
                    for way in ways]
        finally:
            ovs.server.resume()


def _command(node, ovs, way):
    return node.wrap([sys.executable, '-W', 'ignore', '-m', 'benchmarks.plug',
                      way, ovs.connection])


def _measure_plug(node, ovs, way):
    def used():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    cpu, began = used(), time.monotonic()
    process.run(*_command(node, ovs, way))
    return 1000 * (used() - cpu), 1000 * (time.monotonic() - began)


def _measure_hang(node, ovs, way, limit):
    began = time.monotonic()
    try:
        subprocess.run(_command(node, ovs, way), timeout=limit,
                       stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    except subprocess.TimeoutExpired:
        return None
    return time.monotonic() - began


RUNS = {'exporter': (run_exporter, EXPORTER_COLUMNS),
        'periodic': (run_periodic, PERIODIC_COLUMNS),
        'lock': (run_lock, LOCK_COLUMNS),
        'vswitch': (run_vswitch, VSWITCH_COLUMNS)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('names', nargs='*', metavar='NAME',
                        help=f'one of {", ".join(RUNS)}; all by default')
    for name in parser.parse_args().names or RUNS:
        run, columns = RUNS[name]
        report.print_results(name, columns, run())


if __name__ == '__main__':
    main()
