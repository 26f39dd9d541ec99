#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The database of the unit tests: a file with SQLite."""

import fixtures

from tests.cloud import database


class _TemporaryDatabase(database.SqliteDatabase):

    def __init__(self):
        self._directory = fixtures.TempDir()
        self._directory.setUp()
        super().__init__(self._directory.path)

    def _setUp(self):
        self.addCleanup(self._directory.cleanUp)
        super()._setUp()


class SqliteMixin:
    """For the test cases of tests.db_cases."""

    @classmethod
    def make_database(cls):
        return _TemporaryDatabase()
