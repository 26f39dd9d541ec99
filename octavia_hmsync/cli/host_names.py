# SPDX-License-Identifier: Apache-2.0

"""The hosts of health managers, for a shell that waits for a key.

Without Octavia, which takes seconds to load; so nothing here may import
compat, as cli.base does.
"""

from oslo_config import cfg
from oslo_db import options as db_options
import sqlalchemy as sa
from sqlalchemy import exc as sa_exc

from octavia_hmsync.db import api
from octavia_hmsync.db.repositories import health_manager as hm_repo
from octavia_hmsync import exceptions

# Seconds for a connection, and for an answer.
_PATIENCE = 2
_TROUBLE = (exceptions.HMSyncException, *api.ERRORS, cfg.Error, OSError,
            # What oslo.db's filter stumbles over.
            NotImplementedError, ValueError)


def get_all(config_args):
    """Return the hosts that "health manager list" has.

    :param config_args: ``--config-file`` and ``--config-dir`` arguments.
    :returns: a list, in order; empty if they cannot be read.
    """
    conf = cfg.ConfigOpts()
    conf.register_opts(db_options.database_opts, 'database')
    try:
        conf(args=config_args, project='octavia', prog='octavia-hmsync')
        url = sa.make_url(conf.database.connection or 'sqlite://')
        if url.get_driver_name() == 'pymysql':
            url = url.update_query_dict(dict.fromkeys(
                ('connect_timeout', 'read_timeout', 'write_timeout'),
                str(_PATIENCE)))
            conf.set_override('connection', url.render_as_string(False),
                              'database')
        engine = api.create_engine(conf)
        return [row.host for row in hm_repo.get_rows(engine)]
    except (*_TROUBLE, sa_exc.SQLAlchemyError):
        return []
