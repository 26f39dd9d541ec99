#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Show, on real processes, that amphorae follow their health managers.

Started by demo.sh, in an environment that has Octavia and the plugin.
"""

import argparse
import os
import signal
import sys
import time

HEARTBEAT_TIMEOUT = 10
PORT = 5555
# Longest time a step may take; a kept promise needs a fraction of it.
STEP_TIMEOUT = 60
# So long must a dropped address be silent: several rounds of any list.
SILENCE = 6
# Without the plugin: so long is each step watched, and the last one at most.
WATCH = HEARTBEAT_TIMEOUT + 3
WATCH_LAST = 3 * HEARTBEAT_TIMEOUT + 15


class PromiseBroken(Exception):
    """What the plugin promises did not happen."""


class Terminal:
    """Lines as things happen and, on a terminal, one status line below."""

    def __init__(self):
        self._start = time.monotonic()
        self._redraws = sys.stdout.isatty()
        self._status = ''

    def say(self, text):
        self._clear()
        print(f'[{time.monotonic() - self._start:6.1f} s] {text}', flush=True)
        self._draw()

    def heading(self, text):
        self._clear()
        print(f'\n{text}', flush=True)

    def status(self, text):
        if self._redraws and text != self._status:
            self._clear()
            self._status = text
            self._draw()

    def end_status(self):
        self._clear()
        self._status = ''

    def _clear(self):
        if self._status:
            print('\r\033[K', end='', flush=True)

    def _draw(self):
        if self._status:
            width = os.get_terminal_size().columns
            print(self._status[:width - 1], end='', flush=True)


class Step:
    """What is measured of one step; times are seconds, or None."""

    def __init__(self, name):
        self.name = name
        self.detected = None
        self.configured = None
        self.heard = None
        self.adopted = None
        self.failovers = 0


class Demo:
    """The story, told on a cloud.

    :param cloud: a running cloud.Cloud, its agents started
    """

    def __init__(self, cloud, terminal):
        self.cloud = cloud
        self.terminal = terminal
        self.steps = []
        self._failovers = set()
        self._generation = 0
        self._last_generation = 0
        self._applied = None
        self._adopted = None

    # The story

    def run(self):
        """Run all steps.

        :raises PromiseBroken: when a failover begins, or a step takes too
                               long, with the plugin
        """
        addresses = [self.cloud.address(n) for n in range(1, 8)]
        self._begin('1 start')
        first = [self._add(address, addresses[:3])
                 for address in addresses[:3]]
        self.cloud.add_housekeeping()
        self.terminal.say(
            f'starting {len(self.cloud.amphorae)} amphora agents, 3 health '
            f'managers and 1 housekeeping; Python takes its time')
        self._wait(self._all_ready, 'every process serves')
        self._check('1 start', live=first, dropped=[])

        self._begin('2 one killed hard')
        self._kill(first[:1])
        self._check('2 one killed hard', live=first[1:], dropped=first[:1])

        self._begin('3 a new one')
        new = self._add(addresses[3], addresses[:3])
        self._wait(new.is_ready, f'{new.host} listens at {new.address}')
        self._check('3 a new one', live=[*first[1:], new], dropped=[])

        self._begin('4 all replaced')
        old = [*first[1:], new]
        self._kill(old)
        fresh = [self._add(address, addresses[:3])
                 for address in addresses[4:7]]
        self._wait(lambda: any(hm.is_ready() for hm in fresh),
                   'the first of the new ones listens')
        self._check('4 all replaced', live=fresh, dropped=old, last=True)

    def _begin(self, name):
        self.terminal.heading(f'Step {name}')

    def _add(self, address, static):
        # What one writes into octavia.conf where nothing keeps it up.
        static = None if self.cloud.hmsync else [
            f'{item}:{PORT}' for item in static]
        return self.cloud.add_health_manager(address,
                                             controller_ip_port_list=static)

    def _kill(self, health_managers):
        for health_manager in health_managers:
            health_manager.kill_tree()
            self.terminal.say(f'killed {health_manager.host} at '
                              f'{health_manager.address}')

    def _all_ready(self):
        return all(child.is_ready() for child in self.cloud.processes)

    def _wait(self, condition, what):
        deadline = time.monotonic() + 2 * STEP_TIMEOUT
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(f'not in time: {what}')
            self._look()
            time.sleep(0.2)
        self.terminal.say(what)

    # Watching

    def _check(self, name, live, dropped, last=False):
        """Watch what the amphorae do, and add a step to the table."""
        step = Step(name)
        self.steps.append(step)
        before = len(self._failovers)
        try:
            if self.cloud.hmsync:
                self._follow(step, live, dropped)
                if last:
                    self._watch(HEARTBEAT_TIMEOUT + 5, 'no health manager '
                                'finds a stale amphora')
            else:
                self._watch(WATCH_LAST if last else WATCH, 'what happens')
        finally:
            self.terminal.end_status()
            step.failovers = len(self._failovers) - before

    def _watch(self, seconds, what):
        self.terminal.say(f'watching for {seconds} s: {what}')
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._look()
            if self._failovers == self.cloud.amphora_ids:
                return
            time.sleep(0.2)

    def _follow(self, step, live, dropped):
        """Wait until all amphorae send to the live ones and nowhere else."""
        start = time.time()
        known = self._last_generation
        live = {hm.address for hm in live}
        dropped = {hm.address for hm in dropped}
        while step.heard is None or step.adopted is None:
            number, addresses = self._look()
            now = time.time()
            if step.detected is None and number > known:
                step.detected = now - start
            if (step.configured is None and set(addresses) == live and
                    self._applied == len(self.cloud.amphorae)):
                step.configured = now - start
                self.terminal.say(f'all configured: {", ".join(addresses)}')
            if step.configured is not None and step.heard is None:
                heard = self._heard(start, live, dropped)
                if heard is not None:
                    step.heard = max(heard, step.configured)
            if (step.configured is not None and step.adopted is None and
                    self._adopted == len(self.cloud.amphorae)):
                step.adopted = time.time() - start
            if now - start > STEP_TIMEOUT:
                raise PromiseBroken(self._late(step, live, addresses, start))
            time.sleep(0.2)
        self._last_generation = self._look()[0]
        self.terminal.say('all heard, by every live health manager' + (
            ', and none sends elsewhere' if dropped else '') +
            '; each seen by one to use its new list')

    def _heard(self, start, live, dropped):
        """Seconds until all were heard as they should be, None: not yet."""
        sniffer = self.cloud.sniffer
        ids = self.cloud.amphora_ids
        if sniffer.missing(ids, live, start):
            return None
        last = max(sniffer.heard(amphora_id, address, start)
                   for amphora_id in ids for address in live)
        astray = sniffer.last_heard(ids, dropped, start) or start
        if dropped and time.time() - max(astray, start) < SILENCE:
            return None
        return max(last, astray) - start

    def _late(self, step, live, addresses, start):
        if step.configured is None:
            return (f'step {step.name}: after {STEP_TIMEOUT} s the published '
                    f'list is {", ".join(addresses) or "none"} and '
                    f'{self._applied} amphorae have it')
        if step.heard is not None:
            return (f'step {step.name}: after {STEP_TIMEOUT} s only '
                    f'{self._adopted} amphorae are known to use their list')
        missing = self.cloud.sniffer.missing(self.cloud.amphora_ids, live,
                                             start)
        return (f'step {step.name}: after {STEP_TIMEOUT} s not heard as they '
                f'should be: {len({pair[0] for pair in missing})} amphorae')

    def _look(self):
        """Tell what has changed; returns the newest generation."""
        number, addresses = 0, []
        if self.cloud.hmsync:
            number, addresses = self._look_at_plugin()
        begun = self.cloud.failovers_begun()
        if begun - self._failovers:
            self._failovers |= begun
            self.terminal.say(f'FAILOVERS BEGUN: {len(self._failovers)} of '
                              f'{len(self.cloud.amphorae)} amphorae')
            if self.cloud.hmsync:
                raise PromiseBroken('a failover began, of amphora ' +
                                    ', '.join(sorted(begun)))
        self._draw_status()
        return number, addresses

    def _look_at_plugin(self):
        rows = self.cloud.records.query(
            'SELECT number, controller_ip_port_list AS list, reason '
            'FROM hmsync_generation ORDER BY number DESC LIMIT 1')
        if not rows:
            return 0, []
        number = rows[0]['number']
        addresses = [item.strip() for item in rows[0]['list'].split(',')]
        if number != self._generation:
            self._generation = number
            self.terminal.say(f'generation {number}: {", ".join(addresses)} '
                              f'({rows[0]["reason"]})')
        counts = self.cloud.records.query(
            'SELECT COUNT(*) AS applied, COUNT(adopted_at) AS adopted '
            'FROM hmsync_amphora '
            "WHERE generation = :number AND result = 'APPLIED'",
            number=number)[0]
        self._adopted, applied = counts['adopted'], counts['applied']
        if applied != self._applied:
            self._applied = applied
            self.terminal.say(f'{applied} of {len(self.cloud.amphorae)} '
                              f'amphorae have generation {number}')
        return number, addresses

    def _draw_status(self):
        recent = {beat[1:] for beat in
                  self.cloud.sniffer.heartbeats(time.time() - SILENCE)}
        parts = []
        for host, hm in self.cloud.health_managers.items():
            count = sum(pair[1] == hm.address for pair in recent)
            if hm.running or count:
                state = '' if hm.running else ' (dead)'
                parts.append(f'{host}{state} {count}')
        self.terminal.status(f'heard lately of {len(self.cloud.amphorae)}: '
                             f'{", ".join(parts)}; failovers begun: '
                             f'{len(self._failovers)}')

    # The table

    def table(self):
        head = ('step', 'detected', 'configured', 'heard', 'adopted',
                'failovers begun')
        rows = [head]
        for step in self.steps:
            times = [f'{value:.1f} s' if value is not None else 'n/a'
                     for value in (step.detected, step.configured,
                                   step.heard, step.adopted)]
            rows.append((step.name, *times, str(step.failovers)))
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = ['  '.join([row[0].ljust(widths[0])] + [
            cell.rjust(width) for cell, width in zip(row[1:], widths[1:])])
            for row in rows]
        lines.insert(1, '-' * len(lines[0]))
        lines.append('Times count from the moment that every process serves '
                     '(1), of the kill (2),\nthat the new health manager '
                     'listens (3), that the first of the new ones\nlistens '
                     '(4); to the first generation, then to the last '
                     'amphora.')
        return '\n'.join(lines)


def parse_arguments(argv=None):
    parser = argparse.ArgumentParser(
        # demo.sh looks for one of them.
        prog='demo.sh', allow_abbrev=False,
        description='Run real octavia-health-manager, octavia-housekeeping '
        'and amphora-agent processes on loopback addresses; kill, add and '
        'replace health managers; show what the amphorae do.')
    parser.add_argument('--amphorae', type=int, metavar='N',
                        help='number of amphora agents (default: 6)')
    parser.add_argument('--image-upgrade', action='store_true',
                        help='instead, run a whole Octavia, and bring two '
                             'load balancers to a newer image while a client '
                             'uses them')
    parser.add_argument('--real', action='store_true',
                        help='the same, with amphorae that are virtual '
                             'machines of an image of Octavia\'s own '
                             'elements; says how long that takes')
    parser.add_argument('--cluster', action='store_true',
                        help='instead, run a whole Octavia on OVN, and '
                             'add, drain and kill amphorae and a distributor '
                             'of one load balancer under 200 connections')
    parser.add_argument('--without-hmsync', action='store_true',
                        help='the same on Octavia alone')
    parser.add_argument('--keep-logs', metavar='DIR',
                        help='put the logs of all processes there')
    arguments = parser.parse_args(argv)
    arguments.image_upgrade |= arguments.real
    if arguments.cluster and (arguments.image_upgrade or
                              arguments.without_hmsync):
        parser.error('--cluster stands alone: Octavia has none by itself')
    if arguments.amphorae is None:
        arguments.amphorae = 6
    elif arguments.image_upgrade:
        parser.error('--amphorae is not for --image-upgrade, which has three')
    elif arguments.cluster:
        parser.error('--amphorae is not for --cluster, which has four')
    if not 1 <= arguments.amphorae <= 150:
        parser.error('--amphorae takes a number from 1 to 150')
    return arguments


class Interruption:
    """Turns the first signal to end into KeyboardInterrupt.

    Further ones are ignored: whoever interrupts the clean-up would leave
    processes behind.
    """

    SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def __init__(self, terminal):
        self.happened = False
        self._terminal = terminal
        for number in self.SIGNALS:
            signal.signal(number, self._handle)

    def _handle(self, number, frame):
        self.ignore()
        self.happened = True
        self._terminal.end_status()
        self._terminal.say('interrupted; ending all processes')
        raise KeyboardInterrupt()

    def ignore(self):
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_IGN)


def run(arguments, terminal, interruption):
    # Late, so that what interrupts this long import is well handled.
    sys.path.insert(0, os.path.dirname(os.path.dirname(
        os.path.abspath(__file__))))
    if arguments.keep_logs:
        os.makedirs(arguments.keep_logs, exist_ok=True)
    if arguments.image_upgrade:
        import demo_image
        return demo_image.run(arguments, terminal, interruption)
    if arguments.cluster:
        import demo_cluster
        return demo_cluster.run(arguments, terminal, interruption)
    from tests.cloud import cloud as cloud_fixture

    hmsync = not arguments.without_hmsync
    terminal.say('making a cloud of {} amphorae, {} octavia-hmsync'.format(
        arguments.amphorae, 'with' if hmsync else 'without'))
    options = {'health_manager': {'heartbeat_timeout': HEARTBEAT_TIMEOUT}}
    status = 0
    with cloud_fixture.Cloud(
            amphorae=arguments.amphorae, hmsync=hmsync, options=options,
            listeners=True,
            controller_ip_port_list=lambda cloud: [
                f'{cloud.address(n)}:{PORT}' for n in (1, 2, 3)],
            log_directory=arguments.keep_logs and os.path.abspath(
                arguments.keep_logs)) as cloud:
        cloud.addCleanup(interruption.ignore)
        if hmsync:
            cloud.upgrade_hmsync()
            terminal.say('octavia-hmsync db upgrade: done')
        demo = Demo(cloud, terminal)
        broken = None
        try:
            demo.run()
        except PromiseBroken as error:
            broken = error
        terminal.heading(demo.table())
        if hmsync:
            terminal.heading('$ octavia-hmsync sync status')
            shown = cloud.command('octavia-hmsync', 'sync', 'status')
            print(shown.stdout or shown.stderr, flush=True)
        if broken:
            print(f'PROMISE NOT KEPT: {broken}', flush=True)
            status = 1
        elif hmsync:
            print('No amphora was failed over because of what the control '
                  'plane did.', flush=True)
        terminal.say('ending all processes')
    return status


def main():
    arguments = parse_arguments()
    if os.geteuid():
        sys.exit('The demo needs root: it reads packets on the loopback '
                 'interface, and amphora agents write below /var/log.')
    terminal = Terminal()
    interruption = Interruption(terminal)
    try:
        return run(arguments, terminal, interruption)
    except BaseException:
        # Not KeyboardInterrupt: in the set-up of a fixture, fixtures raises
        # something else in its place.
        if not interruption.happened:
            raise
        return 130


if __name__ == '__main__':
    sys.exit(main())
