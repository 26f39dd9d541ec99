# SPDX-License-Identifier: Apache-2.0

"""The first process of an instance: mounts, the agent, and what it starts.

Runs in network, mount and process namespaces of its own, as their process 1:
when it ends, so does all that it started. It is what systemd is to an
amphora, as far as the amphora agent uses it (see units.py).

    boot.py DIRECTORY

DIRECTORY has the files of the config drive below "config", programs that go
before those of the system in "bin", and gets the logs, below "log".
"""

import json
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time

# A script, in an instance that has nothing of the tests on its path.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from tests.cloud.compute import units  # noqa: E402

# Changed by the agent and what it starts, in each amphora for itself.
PRIVATE = ('/etc', '/var/lib', '/usr/lib/systemd', '/usr/local')
NAMESPACE = 'amphora-haproxy'
SYSCTLS = ('net.ipv4.ip_forward', 'net.ipv4.ip_nonlocal_bind',
           'net.ipv6.conf.all.forwarding', 'net.ipv6.ip_nonlocal_bind')
NETNS_UNIT = 'amphora-netns.service'
# Of a small machine, in kB, as far as the agent tells it. Octavia has haproxy
# take two fifths of what is free for sessions of TLS, and do so whenever it
# checks a configuration: of this machine's memory that would be gigabytes.
MEMORY = {'MemTotal': 524288, 'MemFree': 131072, 'Buffers': 16384,
          'Cached': 65536, 'SwapCached': 0, 'Shmem': 1024, 'Slab': 16384}
# What the element of the image writes that installs haproxy; and, as this
# machine may let root open fewer files than systemd does, a haproxy whose
# listeners are all disabled gets by with those.
USER_GROUP = ('/var/lib/octavia/haproxy-default-user-group.conf',
              'global\n    group nogroup\n    no strict-limits\n')


def run(*command):
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


def mount(directory):
    """Give this instance file systems of its own.

    What is changed in them is gone with the instance, unless it has a disk.
    """
    layers = os.environ.get('INSTANCE_DISK')
    if not layers:
        layers = '/mnt'
        run('mount', '-t', 'tmpfs', 'layers', layers)
    for number, path in enumerate(PRIVATE):
        upper, work = (f'{layers}/{number}-{kind}' for kind in 'uw')
        os.makedirs(upper, exist_ok=True)
        os.makedirs(work, exist_ok=True)
        run('mount', '-t', 'overlay', 'overlay', '-o',
            f'lowerdir={path},upperdir={upper},workdir={work}', path)
    run('mount', '-t', 'tmpfs', 'run', '/run')
    run('mount', '--bind', f'{directory}/log', '/var/log')
    meminfo = pathlib.Path('/run/meminfo')
    meminfo.write_text(''.join(f'{name}: {number} kB\n'
                               for name, number in MEMORY.items()))
    run('mount', '--bind', str(meminfo), '/proc/meminfo')
    os.makedirs('/run/rsyslog/octavia')
    os.makedirs('/var/lib/octavia/certs', exist_ok=True)


def configure(directory):
    """Copy the config drive, and what else the image would have."""
    top = pathlib.Path(directory, 'config')
    for source in top.rglob('*'):
        if source.is_file():
            target = pathlib.Path('/', source.relative_to(top))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    path, text = USER_GROUP
    pathlib.Path(path).write_text(text)
    script = pathlib.Path('/usr/local/bin/lvs-masquerade.sh')
    script.parent.mkdir(exist_ok=True)
    script.write_text('#!/bin/sh\n')
    script.chmod(0o755)


def add_namespace():
    run('ip', 'link', 'set', 'lo', 'up')
    run('ip', 'netns', 'add', NAMESPACE)
    inside = ('ip', 'netns', 'exec', NAMESPACE)
    run(*inside, 'ip', 'link', 'set', 'lo', 'up')
    run(*inside, 'sysctl', '-q', '-w', *(f'{name}=1' for name in SYSCTLS))


def start_network():
    """Do what the unit of the agent for the namespace does at a boot.

    Settings of the kernel that all instances share are left alone.
    """
    try:
        unit = pathlib.Path(units.DIRECTORY, NETNS_UNIT).read_text()
    except FileNotFoundError:
        # The agent writes it with the first listener.
        return
    for command in re.findall('^ExecStart=-(.*)$', unit, re.MULTILINE):
        if re.search('sysctl|modprobe|netns add', command):
            continue
        script = re.fullmatch("/bin/sh -c '(.*)'", command)
        subprocess.run(
            # The interfaces here have another end, which is shown.
            ['/bin/sh', '-c', script[1].replace("\\'", "'").replace(
                'ip -br link', "ip -br link | sed 's/@[^ ]*//'")]
            if script else shlex.split(command), check=False,
            stdin=subprocess.DEVNULL)


def drain_syslog():
    """Be the syslog daemon, for haproxy and the agent."""
    sink = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    sink.bind('/run/rsyslog/octavia/log')
    os.chmod('/run/rsyslog/octavia/log', 0o666)  # nosec B103

    def read():
        with open('/var/log/syslog', 'wb', buffering=0) as log:
            while True:
                log.write(sink.recv(65536) + b'\n')

    threading.Thread(target=read, daemon=True).start()


def serve(manager):
    """Answer systemctl, one connection a command."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(units.SOCKET)
    server.listen(20)

    def answer(connection):
        with connection, connection.makefile('rw') as stream:
            arguments = json.loads(stream.readline())
            json.dump(manager.systemctl(*arguments), stream)

    def accept():
        while True:
            connection = server.accept()[0]
            threading.Thread(target=answer, args=(connection,),
                             daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()


def main():
    directory = sys.argv[1]
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    mount(directory)
    configure(directory)
    add_namespace()
    drain_syslog()
    os.environ['PATH'] = f"{directory}/bin:{os.environ['PATH']}"
    manager = units.Manager('/var/log')
    serve(manager)
    with open(f'{directory}/started', 'w'):
        pass
    # Its interface comes from outside, as a virtual machine's does.
    while not os.path.exists(f'{directory}/plugged'):
        time.sleep(0.02)
    start_network()
    # Whatever is started is waited for.
    reaper = threading.Thread(target=manager.reap)
    reaper.start()
    manager.start_enabled()
    manager.add('amphora-agent.service', units.Unit(
        start=[json.loads(os.environ['AGENT_COMMAND'])],
        restart=True))
    manager.systemctl('start', 'amphora-agent.service')
    reaper.join()


if __name__ == '__main__':
    main()
