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

"""What all commands share: the configuration, the database, the errors."""

import logging

from cliff import show
from oslo_config import cfg
from oslo_db import exception as db_exc
from sqlalchemy import exc as sa_exc

from octavia_hmsync import compat
from octavia_hmsync import conf as hmsync_conf
from octavia_hmsync.db import api
from octavia_hmsync.db import schema
from octavia_hmsync import exceptions

# What is said in one line, without a traceback.
REPORTED_ERRORS = (exceptions.HMSyncException, db_exc.DBError,
                   sa_exc.SQLAlchemyError, cfg.Error, OSError)


def describe(error):
    """Put an error in one line.

    :param error: one of REPORTED_ERRORS.
    :returns: a line that says what to do.
    """
    if isinstance(error, exceptions.HMSyncException):
        return str(error)
    if api.is_database_error(error):
        return (f'The database cannot be used: {api.describe(error)}. Check '
                f'[database] connection in octavia.conf, and the database.')
    if isinstance(error, cfg.Error):
        return f'The configuration cannot be used: {error}'
    return str(error)


def quiet_libraries(debug):
    """Keep libraries' chatter out of the output of a command."""
    if not debug:
        for name in ('alembic', 'oslo_config', 'oslo_db', 'stevedore'):
            logging.getLogger(name).setLevel(logging.ERROR)


class ShowOne(show.ShowOne):
    """cliff's, with CSV among the formats."""

    @property
    def formatter_namespace(self):
        return 'octavia_hmsync.formatter.show'


class DatabaseMixin:
    """For cliff commands that need octavia.conf and the database."""

    def run(self, parsed_args):
        """Run the command; whatever goes wrong becomes one line."""
        try:
            return super().run(parsed_args)
        except REPORTED_ERRORS as e:
            if self.app.options.debug:
                raise
            error = exceptions.HMSyncException(describe(e))
        raise error

    def open_database(self, check_schema=True):
        """Parse octavia.conf and make an engine.

        :param check_schema: whether the plugin's tables have to be there.
        :returns: (parsed oslo.config object, SQLAlchemy engine).
        :raises HMSyncException: saying what to do.
        """
        conf = compat.load_configuration(self.app.config_args)
        hmsync_conf.register_opts(conf)
        hmsync_conf.check(conf)
        engine = api.create_engine(conf)
        if check_schema:
            with engine.connect() as connection:
                try:
                    schema.check(connection)
                except exceptions.SchemaNewer as e:
                    self.app.stderr.write(f'{e}\n')
        return conf, engine


def format_time(value):
    """Write a time of the database, UTC, as Octavia's API does."""
    return value.isoformat(timespec='seconds') if value else None
