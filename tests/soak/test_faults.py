# SPDX-License-Identifier: Apache-2.0

"""Faults at each statement of each call, on MariaDB."""

from oslo_db import exception as db_exc
import pymysql

from tests.db_cases import faults
from tests.functional.db import test_faults


class TestFaults(test_faults.MariaDBFaultsMixin, faults.FaultCases):

    def test_lock_wait_timeout(self):
        """The server has given the statement up, not the transaction."""
        def strike(connection, statement):
            raise pymysql.err.OperationalError(
                1205, 'Lock wait timeout exceeded; try restarting '
                      'transaction')

        self.check_each(self.is_retried(strike))

    def test_connection_is_killed(self):
        def strike(connection, statement):
            self.server.kill(connection.thread_id())

        def check(call, number):
            error = call.run(strike, number)
            self.assertIsInstance(error, db_exc.DBConnectionError, str(call))
            self.assertFalse(call.was_done)
            call.run_again()

        self.check_each(check)

    def test_server_shuts_down(self):
        def strike(connection, statement):
            raise pymysql.err.OperationalError(
                1053, 'Server shutdown in progress')

        self.check_each(self.is_all_or_nothing(strike))

    def test_server_was_restarted_between_two_calls(self):
        """All connections of the pool are gone; no call notices."""
        def check(call, number):
            if number == 1:
                idle = self.server.connections()
                self.assertNotEqual(set(), idle)
                self.server.kill(*idle)
                self.assertIsNone(call.run(None, None))

        self.check_each(check)
