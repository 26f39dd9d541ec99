# SPDX-License-Identifier: Apache-2.0

"""A Galera cluster of one's own: three MariaDB servers, each a writer."""

import atexit
import contextlib
import functools
import glob
import itertools
import os
import re
import shutil
import socket
import stat
import threading

import fixtures
import pymysql

from tests.cloud import mariadb
from tests.cloud import network
from tests.cloud import process
from tests.cloud import waiting

_PROVIDERS = ('/usr/lib/galera/libgalera_smm.so',
              '/usr/lib*/galera*/libgalera_smm.so')
_SST = 'hmsync'
# What wsrep_sst_rsync and others are. No node ever gets all data from
# another one: all begin with the same, and a node that was away gets what it
# missed from the other's cache, which needs no more than this.
_SST_SCRIPT = '''#!/bin/bash
while [ $# -gt 0 ]; do
    case "$1" in
        --role) role="$2"; shift;;
        --address) address="$2"; shift;;
        --gtid) gtid="$2"; shift;;
        --gtid-domain-id) domain="$2"; shift;;
        --bypass) bypass=1;;
    esac
    shift
done
if [ "$role" = joiner ]; then
    word="${0%/*}/${address//[^0-9]/_}"
    rm -f "$word"
    echo "ready $address"
    for _ in {1..600}; do
        [ -s "$word" ] && break
        sleep 0.1
    done
    cat "$word" || exit 110
    rm -f "$word"
else
    [ "$bypass" ] || exit 95
    address="${address%%/*}"
    word="${0%/*}/${address//[^0-9]/_}"
    echo continue
    echo "$gtid ${domain:-0}" > "$word.new"
    mv "$word.new" "$word"
    echo "done $gtid"
fi
'''


def _provider():
    for pattern in _PROVIDERS:
        for path in glob.glob(pattern):
            return path
    raise RuntimeError('galera-4 is not installed; see bindep.txt')


class GaleraNode(mariadb.MariaDBServer):
    """One node. kill_tree(), pause() and resume() as any process.

    :param directory: an empty one, for all that it writes
    :param number: its number in the cluster; node 1 begins it
    :param addresses: those of all nodes
    :param scripts: the directory of the script for state transfers
    :param first: the node whose data it begins with; it was stopped, as
                  only then it knows how far its data is
    :param options: more of wsrep_provider_options
    """

    def __init__(self, directory, number, addresses, scripts, first=None,
                 options=''):
        self._first = first
        address = addresses[number - 1]
        super().__init__(directory, f'galera{number}', address, [
            '--wsrep-on=ON', f'--wsrep-provider={_provider()}',
            '--wsrep-cluster-name=hmsync', f'--wsrep-node-name=node{number}',
            f'--wsrep-node-address={address}', f'--wsrep-sst-method={_SST}',
            '--wsrep-slave-threads=2', '--binlog-format=ROW',
            '--innodb-autoinc-lock-mode=2',
            '--wsrep-provider-options=gcache.size=32M;'
            f'gmcast.listen_addr=tcp://{address}:4567;'
            f'ist.recv_addr={address}:4568;{options}'])
        self.env['PATH'] = os.pathsep.join(
            [scripts, self.env.get('PATH', ''), '/usr/sbin', '/usr/bin'])
        self._joining = [*self.command, '--wsrep-cluster-address=gcomm://' +
                         ','.join(f'{a}:4567' for a in addresses)]
        self.command = self._joining
        if first is None:
            self.command = [*self._joining, '--wsrep-new-cluster']

    def _make_data(self):
        if self._first is None:
            super()._make_data()

    def copy_data(self):
        """Get the data of the first, which is stopped."""
        shutil.copytree(self._first._data, self._data)

    def _make_user(self):
        if self._first is None:
            super()._make_user()

    def rejoin(self):
        """Start again after kill_tree() or stop(), and get what was missed."""
        log = os.path.join(self._directory, 'recover.log')
        # One that was killed does not know by itself how far it was.
        process.run(*self._joining, '--wsrep-recover', f'--log-error={log}',
                    env=self.env, cwd=self._directory)
        with open(log) as lines:
            found = re.findall(r'Recovered position: (\S+)', lines.read())
        os.remove(log)
        self.command = [*self._joining, f'--wsrep-start-position={found[-1]}']
        self.start()
        self.wait_until_ready()

    def query(self, statement):
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetchall()

    def status(self, name):
        """The value of a status variable."""
        return self.query(f"SHOW STATUS LIKE '{name}'")[0][1]

    def is_ready(self):
        try:
            return super().is_ready() and self.status('wsrep_ready') == 'ON'
        except pymysql.Error:
            # One that joins still ends connections.
            return False


class GaleraCluster(fixtures.Fixture):
    """Three nodes, on loopback addresses of their own.

    :param directory: an empty one
    :param options: more of wsrep_provider_options, of each node
    """

    SIZE = 3

    def __init__(self, directory, options=''):
        super().__init__()
        self._directory = directory
        self._options = options
        self.nodes = []

    def _setUp(self):
        net = self.useFixture(network.LoopbackNetwork())
        addresses = [net.address(n + 1) for n in range(self.SIZE)]
        scripts = os.path.join(self._directory, 'scripts')
        os.mkdir(scripts)
        script = os.path.join(scripts, f'wsrep_sst_{_SST}')
        with open(script, 'w') as file:
            file.write(_SST_SCRIPT)
        os.chmod(script, stat.S_IRWXU)
        for number in range(1, self.SIZE + 1):
            directory = os.path.join(self._directory, f'node{number}')
            os.mkdir(directory)
            self.nodes.append(GaleraNode(
                directory, number, addresses, scripts,
                self.nodes[0] if self.nodes else None, self._options))
        first, *others = self.nodes
        self.useFixture(first)
        first.stop()
        for node in others:
            node.copy_data()
        first.start()
        first.wait_until_ready()
        for node in others:
            self.useFixture(node)
        self.wait_until_whole()

    def wait_until_whole(self, timeout=waiting.LIMIT):
        """Wait until all running nodes see each other and have caught up."""
        running = [node for node in self.nodes if node.running]
        waiting.wait_for(
            lambda: all(
                node.is_ready() and
                node.status('wsrep_local_state_comment') == 'Synced' and
                int(node.status('wsrep_cluster_size')) == len(running)
                for node in running),
            'whole Galera cluster', timeout, processes=running)

    def wait_until_even(self, timeout=waiting.LIMIT):
        """Wait until all nodes have applied all, while nobody writes.

        A node that is killed in the middle of a change of a schema has lost
        its data, and would need a copy of all of it.
        """
        waiting.wait_for(
            lambda: len({node.status('wsrep_last_committed')
                         for node in self.nodes}) == 1,
            'Galera cluster at one position', timeout, processes=self.nodes)

    @contextlib.contextmanager
    def lagging(self, node):
        """Have a node fall behind; it can be read, and is, without the rest.

        Nothing of what is written elsewhere arrives there until the end.
        """
        with node.connect() as connection, connection.cursor() as cursor:
            # Otherwise it would hold up the others, too.
            cursor.execute('SET GLOBAL wsrep_desync = ON')
            cursor.execute('FLUSH TABLES WITH READ LOCK')
            try:
                yield
            finally:
                cursor.execute('UNLOCK TABLES')
                cursor.execute('SET GLOBAL wsrep_desync = OFF')


class Spreader(fixtures.Fixture):
    """A proxy which leads each connection to another node, in turn.

    .address and .port are where it listens.
    """

    def __init__(self, nodes):
        super().__init__()
        self._nodes = itertools.cycle(nodes)

    def _setUp(self):
        self._listener = socket.create_server(('127.0.0.1', 0), backlog=50)
        self.address, self.port = self._listener.getsockname()
        self.addCleanup(self._listener.close)
        self.addCleanup(self._listener.shutdown, socket.SHUT_RDWR)
        threading.Thread(target=self._serve, daemon=True).start()

    def url(self, node, database):
        """As a node's own, by way of the proxy."""
        return node.url(database).replace(f'{node.address}:{node.port}',
                                          f'{self.address}:{self.port}')

    def _serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                node = next(self._nodes)
                server = socket.create_connection((node.address, node.port))
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=_copy, args=ends,
                                     daemon=True).start()


def _copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


@functools.cache
def shared_cluster():
    """The cluster that all tests of this process share; ends with it."""
    directory = fixtures.TempDir(rootdir=mariadb.LASTING_DIRECTORY)
    directory.setUp()
    atexit.register(directory.cleanUp)
    # No node of it fails; each may be slow.
    cluster = GaleraCluster(directory.path, 'evs.suspect_timeout=PT20S;'
                                            'evs.inactive_timeout=PT40S')
    cluster.setUp()
    # Called in reverse order, so before the directory goes.
    atexit.register(cluster.cleanUp)
    return cluster
