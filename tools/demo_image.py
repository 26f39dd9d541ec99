# SPDX-License-Identifier: Apache-2.0

"""Upgrade load balancers to a newer image while a client uses them.

A part of demo.py: demo.sh --image-upgrade, or --real, where amphorae are
virtual machines.
"""

import dataclasses
import os
import pathlib
import shutil
import subprocess
import time
import warnings

# Before and after, seconds in which the client asks.
PAUSE = 2
LOAD_BALANCERS = {'single': 'SINGLE', 'pair': 'ACTIVE_STANDBY'}


@dataclasses.dataclass(frozen=True)
class Pace:
    """How fast all goes.

    :param rate: requests a second.
    :param patience: seconds until a request has failed.
    :param step: seconds for a step, at most.
    """

    rate: int = 50
    patience: float = 1
    step: int = 180


# Of virtual machines, whose processors may be emulated.
SLOW = Pace(5, 10, 1800)


@dataclasses.dataclass(frozen=True)
class Row:
    """What the client saw of the upgrade of one load balancer.

    :param load_balancer: its name.
    :param topology: its topology.
    :param requests: how many, each by a new connection.
    :param failed: how many of them failed.
    :param dark: seconds without service.
    :param is_upgraded: whether all of its amphorae have the newer image.
    """

    load_balancer: str
    topology: str
    requests: int
    failed: int
    dark: float
    is_upgraded: bool


def make_table(rows):
    """Return the text of the table."""
    cells = [('load balancer', 'topology', 'requests', 'failed', 'dark time')]
    cells += [(row.load_balancer, row.topology, str(row.requests),
               str(row.failed), f'{row.dark:.2f} s') for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = ['  '.join([
        *(cell.ljust(width) for cell, width in zip(line[:2], widths)),
        *(cell.rjust(width) for cell, width in zip(line[2:], widths[2:]))])
        for line in cells]
    lines.insert(1, '-' * len(lines[0]))
    return '\n'.join(lines)


def find_broken_promise(rows):
    """Tell which promise was not kept; None if all were."""
    for row in rows:
        if not row.is_upgraded:
            return f'{row.load_balancer} has not the newer image'
        if row.topology == 'SINGLE' and row.failed:
            return (f'{row.failed} requests to {row.load_balancer} failed, '
                    f'which is SINGLE')
    return None


class ImageDemo:
    """The story, told on a whole Octavia.

    :param cloud: an octavia.Octavia that is ready.
    """

    def __init__(self, cloud, terminal, pace=Pace()):
        self.cloud = cloud
        self._pace = pace
        self.terminal = terminal
        self.rows = []
        self._api = cloud.connection.load_balancer

    def run(self):
        """Run all of it; fills .rows."""
        made = self._make_load_balancers()
        image = self.cloud.add_image('newer')
        self.terminal.say(f'uploaded image {image.id}, newer and with the '
                          f'same tag')
        self._list_images()
        for load_balancer in made:
            self.terminal.heading(
                f'{load_balancer.name}, while a client asks for '
                f'http://{load_balancer.vip_address}/ {self._pace.rate} '
                f'times a second')
            self.rows.append(self._upgrade(load_balancer, image))
        self.terminal.heading(make_table(self.rows))
        self._list_images()

    def _make_load_balancers(self):
        from tests.cloud import machines

        members = [self.cloud.useFixture(machines.Member(self.cloud, name))
                   for name in ('web1', 'web2')]
        self._client = self.cloud.useFixture(
            machines.Client(self.cloud, 'client'))
        self.terminal.say('making a SINGLE and an ACTIVE_STANDBY load '
                          'balancer, of the amphora provider; three amphorae '
                          'boot')
        made = [self.cloud.add_load_balancer(name, topology, members,
                                             wait=False)
                for name, topology in LOAD_BALANCERS.items()]
        for load_balancer in made:
            self.cloud.wait_until_active(load_balancer.id, self._pace.step)
            # Amphorae of a pair wait for 15 s before one takes the VIP.
            self._client.get(load_balancer.vip_address)
            self.cloud.wait_for(
                lambda: self._api.get_load_balancer(
                    load_balancer.id).operating_status == 'ONLINE',
                f'{load_balancer.name} ONLINE', self._pace.step)
            self.terminal.say(f'{load_balancer.name} answers at '
                              f'{load_balancer.vip_address}')
        return made

    def _upgrade(self, load_balancer, image):
        probe = self._client.start_probe(
            load_balancer.vip_address, rate=self._pace.rate,
            timeout=self._pace.patience)
        time.sleep(PAUSE)
        if self.cloud.hmsync:
            self._run('image', 'replace', load_balancer.name, '--wait')
        else:
            self._show('openstack', 'loadbalancer', 'failover',
                       load_balancer.name)
            self._api.failover_load_balancer(load_balancer.id)
        self.cloud.wait_until_active(load_balancer.id, self._pace.step)
        time.sleep(PAUSE)
        seen = probe.stop()
        self.terminal.say(f'{load_balancer.name} is ACTIVE; of '
                          f'{seen.requests} requests {seen.failed} failed')
        images = [amphora.image_id for amphora in self._api.amphorae(
            loadbalancer_id=load_balancer.id)]
        topology = LOAD_BALANCERS[load_balancer.name]
        return Row(load_balancer.name, topology, seen.requests, seen.failed,
                   seen.dark, images == [image.id] * (
                       1 if topology == 'SINGLE' else 2))

    def _list_images(self):
        if self.cloud.hmsync:
            self._run('image', 'list', '-c', 'name', '-c', 'topology', '-c',
                      'outdated', '-c', 'provisioning_status')

    def _show(self, *command):
        self.terminal.heading(f'$ {" ".join(command)}')

    def _run(self, *arguments):
        """Run a command of ours; what it prints appears as it comes."""
        self._show('octavia-hmsync', *arguments)
        command, how = self.cloud.make_command('octavia-hmsync', *arguments)
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, **how)
        try:
            for line in child.stdout:
                print(line, end='', flush=True)
        finally:
            child.kill()
            child.stdout.close()
            status = child.wait()
        if status:
            # The table tells what came of it.
            self.terminal.say(f'it ended with {status}')


def keep_logs(directory, kept):
    """Copy the logs of all processes, also of those in amphorae."""
    source = pathlib.Path(directory)
    for log in [*source.glob('*.log'), *source.glob('*/log/*.log')]:
        target = pathlib.Path(kept, log.relative_to(source))
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(log, target)


def _make_image(terminal):
    """Return a machine.Image; it is built where there is none."""
    from tests.cloud.compute import amphora_image
    from tests.cloud.compute import machine

    terminal.say('amphorae are virtual machines: without /dev/kvm this takes '
                 '12 minutes on two processors that do nothing else, two of '
                 'them to build an image the first time, and three times as '
                 'long on busy ones')
    files = amphora_image.make()
    terminal.say(f'the image is {files.disk}')
    return machine.Image(files=files), machine.SLOW


def run(arguments, terminal, interruption):
    """Run it; returns the exit status."""
    # Of libraries, about each other.
    warnings.simplefilter('ignore')
    from tests.cloud import octavia

    image, options = _make_image(terminal) if arguments.real else (None, None)
    hmsync = not arguments.without_hmsync
    terminal.say('starting a whole Octavia, {} octavia-hmsync: RabbitMQ, '
                 'MariaDB, Neutron, Glance'.format(
                     'with' if hmsync else 'without'))
    with octavia.Octavia(hmsync=hmsync, workers=1, image=image,
                         options=options) as cloud:
        cloud.addCleanup(interruption.ignore)
        if arguments.keep_logs:
            cloud.addCleanup(keep_logs, cloud.directory,
                             os.path.abspath(arguments.keep_logs))
        cloud.wait_until_ready()
        terminal.say('Octavia is ready')
        demo = ImageDemo(cloud, terminal, SLOW if arguments.real else Pace())
        demo.run()
        broken = hmsync and find_broken_promise(demo.rows)
        if broken:
            print(f'PROMISE NOT KEPT: {broken}', flush=True)
        elif hmsync:
            print('All amphorae are new, and no client of the SINGLE one '
                  'noticed.', flush=True)
        terminal.say('ending all processes')
    return 1 if broken else 0
