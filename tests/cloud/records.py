# SPDX-License-Identifier: Apache-2.0

"""Rows in Octavia's tables."""

import datetime
import uuid

import sqlalchemy as sa

TABLES = ('additional_vip', 'amphora', 'amphora_health',
          'availability_zone', 'availability_zone_profile', 'flavor',
          'flavor_profile', 'health_monitor', 'listener',
          'listener_cidr', 'listener_statistics', 'load_balancer', 'member',
          'pool', 'sni', 'tags', 'vip', 'vip_security_group', 'vrrp_group')
ROLES = {'SINGLE': ('STANDALONE',), 'ACTIVE_STANDBY': ('MASTER', 'BACKUP'),
         'ACTIVE_ACTIVE': ('IN_CLUSTER',) * 3}


def new_id():
    return str(uuid.uuid4())


def utcnow():
    """Now, as Octavia writes it."""
    return datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None)


def load_balancer_row(load_balancer_id, topology='SINGLE', flavor_id=None):
    return {'id': load_balancer_id, 'project_id': 'demo',
            'name': f'lb-{load_balancer_id[:8]}',
            'provisioning_status': 'ACTIVE', 'operating_status': 'ONLINE',
            'enabled': True, 'topology': topology, 'flavor_id': flavor_id,
            'provider': 'amphora', 'created_at': utcnow()}


def vip_row(load_balancer_id):
    return {'load_balancer_id': load_balancer_id,
            'ip_address': '198.51.100.1', 'port_id': new_id(),
            'subnet_id': new_id(), 'network_id': new_id(),
            'octavia_owned': True}


def listener_row(listener_id, load_balancer_id, protocol_port=80):
    return {'id': listener_id, 'project_id': 'demo',
            'name': f'listener-{listener_id[:8]}',
            'load_balancer_id': load_balancer_id, 'protocol': 'HTTP',
            'protocol_port': protocol_port, 'connection_limit': -1,
            'client_authentication': 'NONE', 'provisioning_status': 'ACTIVE',
            'operating_status': 'ONLINE', 'enabled': True,
            'created_at': utcnow()}


def amphora_row(amphora_id, lb_network_ip, load_balancer_id=None,
                role='STANDALONE', status='ALLOCATED'):
    now = utcnow()
    return {'id': amphora_id, 'load_balancer_id': load_balancer_id,
            'compute_id': new_id(), 'image_id': new_id(),
            'lb_network_ip': lb_network_ip, 'vrrp_ip': '198.51.100.2',
            'ha_ip': '198.51.100.1', 'vrrp_port_id': new_id(),
            'ha_port_id': new_id(),
            'cert_expiration': now + datetime.timedelta(days=30),
            'cert_busy': False, 'role': role, 'status': status,
            'vrrp_interface': 'eth1', 'vrrp_id': 1, 'vrrp_priority': 100,
            'cached_zone': 'nova', 'created_at': now}


class Records:
    """Makes and reads the rows of load balancers and amphorae.

    :param engine: of the database, at Octavia's newest schema
    :param tables: those of TABLES, if they were read before
    """

    def __init__(self, engine, tables=None):
        self.engine = engine
        if tables is None:
            metadata = sa.MetaData()
            metadata.reflect(engine, only=TABLES, resolve_fks=False)
            tables = metadata.tables
        self.tables = tables

    def _insert(self, connection, table, **values):
        connection.execute(self.tables[table].insert().values(**values))

    def add_flavor(self, flavor_data='{}'):
        profile_id, flavor_id = new_id(), new_id()
        with self.engine.begin() as connection:
            self._insert(connection, 'flavor_profile', id=profile_id,
                         name=profile_id, provider_name='amphora',
                         flavor_data=flavor_data)
            self._insert(connection, 'flavor', id=flavor_id, name=flavor_id,
                         enabled=True, flavor_profile_id=profile_id)
        return flavor_id

    def add_load_balancer(self, topology='SINGLE', flavor_id=None,
                          load_balancer_id=None):
        load_balancer_id = load_balancer_id or new_id()
        self.insert_all({
            'load_balancer': [load_balancer_row(load_balancer_id, topology,
                                                flavor_id)],
            'vip': [vip_row(load_balancer_id)]})
        if topology == 'ACTIVE_STANDBY':
            with self.engine.begin() as connection:
                self._insert(connection, 'vrrp_group',
                             load_balancer_id=load_balancer_id,
                             vrrp_group_name=load_balancer_id.replace('-', ''),
                             vrrp_auth_type='PASS', vrrp_auth_pass='demo',
                             advert_int=1)
        return load_balancer_id

    def add_listener(self, load_balancer_id, protocol_port=80,
                     listener_id=None):
        listener_id = listener_id or new_id()
        self.insert_all({'listener': [
            listener_row(listener_id, load_balancer_id, protocol_port)]})
        return listener_id

    def add_pool(self, load_balancer_id):
        pool_id = new_id()
        self.insert_all({'pool': [{
            'id': pool_id, 'project_id': 'demo', 'name': 'pool',
            'load_balancer_id': load_balancer_id, 'protocol': 'HTTP',
            'lb_algorithm': 'ROUND_ROBIN', 'provisioning_status': 'ACTIVE',
            'operating_status': 'ONLINE', 'enabled': True,
            'tls_enabled': False}]})
        return pool_id

    def add_member(self, pool_id, operating_status='ONLINE',
                   ip_address='192.0.2.9', protocol_port=80):
        member_id = new_id()
        self.insert_all({'member': [{
            'id': member_id, 'project_id': 'demo', 'name': 'member',
            'pool_id': pool_id, 'ip_address': ip_address,
            'protocol_port': protocol_port, 'weight': 1, 'backup': False,
            'provisioning_status': 'ACTIVE',
            'operating_status': operating_status, 'enabled': True}]})
        return member_id

    def add_health_monitor(self, pool_id, delay, timeout, fall_threshold,
                           enabled=True):
        self.insert_all({'health_monitor': [{
            'id': new_id(), 'project_id': 'demo', 'name': 'monitor',
            'type': 'HTTP', 'pool_id': pool_id, 'delay': delay,
            'timeout': timeout, 'fall_threshold': fall_threshold,
            'rise_threshold': 3, 'enabled': enabled,
            'provisioning_status': 'ACTIVE', 'operating_status': 'ONLINE'}]})

    def add_amphora(self, lb_network_ip, load_balancer_id=None,
                    role='STANDALONE', status='ALLOCATED', amphora_id=None):
        amphora_id = amphora_id or new_id()
        self.insert_all({'amphora': [amphora_row(
            amphora_id, lb_network_ip, load_balancer_id, role, status)]})
        return amphora_id

    def insert_all(self, rows):
        """Insert rows, {table: list of dicts}, in that order."""
        with self.engine.begin() as connection:
            for table, values in rows.items():
                connection.execute(self.tables[table].insert(), values)

    def set_health(self, *amphora_ids, age=0, busy=False):
        """Give the amphorae health rows of one age, in seconds."""
        health = self.tables['amphora_health']
        last_update = utcnow() - datetime.timedelta(seconds=age)
        with self.engine.begin() as connection:
            connection.execute(health.delete().where(
                health.c.amphora_id.in_(amphora_ids)))
            for amphora_id in amphora_ids:
                self._insert(connection, 'amphora_health', busy=busy,
                             amphora_id=amphora_id, last_update=last_update)

    def set_status(self, amphora_id, status):
        amphora = self.tables['amphora']
        with self.engine.begin() as connection:
            connection.execute(amphora.update().values(status=status).where(
                amphora.c.id == amphora_id))

    def change(self, table, row_id, **values):
        """Change a row that has an id."""
        table = self.tables[table]
        with self.engine.begin() as connection:
            connection.execute(table.update().values(**values).where(
                table.c.id == row_id))

    def rows(self, table):
        """All rows of a table of Octavia, as dicts."""
        with self.engine.connect() as connection:
            result = connection.execute(self.tables[table].select())
            return [dict(row) for row in result.mappings()]

    def query(self, sql, **parameters):
        """The rows of any query, as dicts."""
        with self.engine.connect() as connection:
            result = connection.execute(sa.text(sql), parameters)
            return [dict(row) for row in result.mappings()]

    def health_ages(self):
        """Seconds since the last known heartbeat, by amphora id."""
        now = utcnow()
        return {row['amphora_id']: (now - row['last_update']).total_seconds()
                for row in self.rows('amphora_health')}

    def failovers_begun(self, amphora_ids):
        """Which of the amphorae were sent to failover, or kept for it.

        A health manager that takes an amphora as stale first marks its
        health row busy; later the row goes, and the amphora becomes DELETED,
        or ERROR where its failover failed. None of this turns back.
        """
        busy = {row['amphora_id'] for row in self.rows('amphora_health')
                if row['busy']}
        allocated = {row['id'] for row in self.rows('amphora')
                     if row['status'] == 'ALLOCATED'}
        return {amphora_id for amphora_id in amphora_ids
                if amphora_id in busy or amphora_id not in allocated}
