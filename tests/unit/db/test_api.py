# SPDX-License-Identifier: Apache-2.0

"""How sessions begin, on each kind of server, and how they end."""

from oslo_db import exception as db_exc
import pymysql

from octavia_hmsync.db import api
from tests.unit import base


class Server:
    """Answers as a server with these variables does, and takes them."""

    def __init__(self, **variables):
        self.variables = variables

    def cursor(self):
        return Cursor(self.variables)


class Cursor:

    def __init__(self, variables):
        self._variables = variables
        self._row = None

    def execute(self, statement):
        if statement.startswith('SHOW VARIABLES LIKE '):
            name = statement.split("'")[1]
            self._row = ((name, self._variables[name])
                         if name in self._variables else None)
            return
        name, value = statement.removeprefix('SET SESSION ').split(' = ')
        # Error 1193.
        assert name in self._variables, f'unknown system variable {name}'
        self._variables[name] = value

    def fetchone(self):
        return self._row

    def close(self):
        pass


class TestSessions(base.TestCase):

    def sync_wait(self, **variables):
        server = Server(**variables)
        api._wait_for_other_writers(server, None)
        return server.variables.get('wsrep_sync_wait')

    def test_galera(self):
        self.assertEqual('7', self.sync_wait(wsrep_on='ON',
                                             wsrep_sync_wait='0'))

    def test_mariadb_without_a_cluster(self):
        self.assertEqual('0', self.sync_wait(wsrep_on='OFF',
                                             wsrep_sync_wait='0'))

    def test_mysql(self):
        """It knows none of them."""
        self.assertIsNone(self.sync_wait())


class TestDescribe(base.TestCase):

    def test_rollback_after_the_connection_was_lost(self):
        """PyMySQL before 1.2 then has nothing to say."""
        try:
            try:
                raise pymysql.OperationalError(2013, 'Lost connection')
            except pymysql.Error:
                raise pymysql.InterfaceError(0, '')
        except pymysql.Error as e:
            error = db_exc.DBConnectionError(e)
        self.assertEqual("(2013, 'Lost connection')", api.describe(error))

    def test_text(self):
        self.assertEqual('gone',
                         api.describe(db_exc.DBConnectionError('gone')))
