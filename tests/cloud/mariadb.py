# SPDX-License-Identifier: Apache-2.0

"""A MariaDB server of one's own."""

import atexit
import os
import pwd
import tempfile

import fixtures
import pymysql

from tests.cloud import network
from tests.cloud import octavia_conf
from tests.cloud import process
from tests.cloud import waiting

TEMPLATE = 'octavia_template'

# Where what outlives one test goes: a test may have a temporary directory of
# its own.
LASTING_DIRECTORY = tempfile.gettempdir()


class MariaDBServer(process.ChildProcess):
    """mariadbd with its own data directory, socket and port.

    stop(), start() and wait_until_ready() restart it with its data at the
    same port; pause() and resume() make it hang.

    :param directory: an empty one, for all that it writes
    :param name: for messages, and for the name of the log file
    :param address: where it listens, with a port of its own
    :param options: more arguments
    """

    def __init__(self, directory, name='mariadb', address='127.0.0.1',
                 options=()):
        self._directory = directory
        self._data = os.path.join(directory, 'data')
        # A server that starts deletes the temporary tables of all others
        # that have the same tmpdir, which is /tmp unless it is told.
        self._temporary = os.path.join(directory, 'tmp')
        self.socket_path = os.path.join(directory, 'mysqld.sock')
        self.address = address
        self.port = network.free_port()
        super().__init__(name, [
            process.system_program('mariadbd', 'mysqld'), '--no-defaults',
            f'--datadir={self._data}', f'--tmpdir={self._temporary}',
            f'--socket={self.socket_path}',
            f'--pid-file={directory}/mysqld.pid', f'--port={self.port}',
            f'--bind-address={address}', f'--user={_user()}',
            # What a crash of the machine would lose does not matter here.
            '--skip-log-bin', '--innodb-flush-log-at-trx-commit=0',
            '--innodb-doublewrite=0', '--innodb-buffer-pool-size=64M',
            '--max-connections=500', '--skip-name-resolve', *options,
        ], log_directory=directory, env=process.environment(directory),
            cwd=directory)

    def _setUp(self):
        os.mkdir(self._temporary)
        self._make_data()
        super()._setUp()
        self.wait_until_ready()
        self._make_user()

    def _make_user(self):
        self.execute("CREATE USER octavia@'%' IDENTIFIED BY 'octavia'",
                     "GRANT ALL ON *.* TO octavia@'%'")

    def _make_data(self):
        install(self._data, self._temporary, self._directory)

    def connect(self, database=None):
        """An administrator's connection."""
        return pymysql.connect(unix_socket=self.socket_path, user='root',
                               database=database, autocommit=True,
                               connect_timeout=60, ssl_disabled=True)

    def execute(self, *statements):
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def is_ready(self):
        try:
            self.connect().close()
        except pymysql.Error:
            return False
        return True

    def url(self, database):
        # The server has no TLS. PyMySQL is ready for it even so, and reads
        # all authorities of the system for each connection, which takes 50 ms
        # of a processor.
        return (f'mysql+pymysql://octavia:octavia@{self.address}:{self.port}/'
                f'{database}?charset=utf8mb4&ssl_disabled=true')

    def create_octavia_database(self, name):
        """Make a database with Octavia's newest schema and look-up rows."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute('SHOW DATABASES LIKE %s', (TEMPLATE,))
            if not cursor.fetchall():
                cursor.execute(f'CREATE DATABASE {TEMPLATE}')
                self._migrate(TEMPLATE)
            cursor.execute(f'CREATE DATABASE {name}')
            cursor.execute('SET FOREIGN_KEY_CHECKS = 0')
            cursor.execute(f'SHOW TABLES FROM {TEMPLATE}')
            for (table,) in cursor.fetchall():
                # LIKE would lose the foreign keys.
                cursor.execute(f'SHOW CREATE TABLE {TEMPLATE}.`{table}`')
                create = cursor.fetchone()[1]
                connection.select_db(name)
                cursor.execute(create)
                cursor.execute(f'INSERT INTO {name}.`{table}` '  # nosec B608
                               f'SELECT * FROM {TEMPLATE}.`{table}`')

    def _migrate(self, name):
        conf = os.path.join(self._directory, 'migrate.conf')
        octavia_conf.write(conf, {'database': {'connection': self.url(name)}})
        process.run(
            process.program('octavia-db-manage'), '--config-file', conf,
            'upgrade', 'head', env=process.environment(self._directory))


def install(data, temporary, directory):
    """Make the data directory of a new server."""
    process.run(
        process.system_program('mariadb-install-db', 'mysql_install_db'),
        '--no-defaults', f'--datadir={data}', f'--tmpdir={temporary}',
        f'--user={_user()}', '--auth-root-authentication-method=normal',
        '--skip-test-db', cwd=directory)


def _user():
    return pwd.getpwuid(os.geteuid()).pw_name


_SHARED = []


def shared_server():
    """The server that all tests of this process share; ends with it."""
    if not _SHARED:
        directory = fixtures.TempDir(rootdir=LASTING_DIRECTORY)
        directory.setUp()
        atexit.register(directory.cleanUp)
        server = MariaDBServer(directory.path)
        server.setUp()
        # Called in reverse order, so before the directory goes.
        atexit.register(server.cleanUp)
        _SHARED.append(server)
    server = _SHARED[0]
    if not server.running:
        raise waiting.WaitTimeout('the shared MariaDB server has ended:\n' +
                                  server.log_tail())
    return server
