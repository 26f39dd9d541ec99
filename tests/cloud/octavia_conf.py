# SPDX-License-Identifier: Apache-2.0

"""octavia.conf files."""

import os


def merge(*layers):
    """One nested dict of groups of options out of several; the last wins."""
    merged = {}
    for layer in layers:
        for group, options in (layer or {}).items():
            merged.setdefault(group, {}).update(options)
    return merged


def write(path, options):
    """Write {group: {option: value}}; an option that is None is left out."""
    lines = []
    for group, values in options.items():
        lines.append(f'[{group}]')
        for name, value in values.items():
            if isinstance(value, (list, tuple)):
                value = ', '.join(str(item) for item in value)
            if value is not None:
                lines.append(f'{name} = {value}')
    # It holds the heartbeat key.
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    with os.fdopen(os.open(path, flags, 0o600), 'w') as conf:
        conf.write('\n'.join(lines) + '\n')


def controller(connection, certificates, heartbeat_key, amphora_port):
    """What every controller of a cloud has in its file."""
    return {
        'DEFAULT': {'transport_url': 'fake:/'},
        # oslo.db's pool for SQLite files does not take the pool_timeout which
        # Octavia sets; empty is none. (A ?mode=memory in the URL also avoids
        # it, but with one connection for all threads of a process, which mix
        # up their transactions.)
        'database': {'connection': connection, 'pool_timeout': '',
                     'sqlite_synchronous': False, 'max_retries': -1,
                     'retry_interval': 1},
        'oslo_messaging': {'topic': 'octavia_prov'},
        'health_manager': {
            'bind_port': 5555,
            'heartbeat_key': heartbeat_key,
            'heartbeat_interval': 1,
            'heartbeat_timeout': 10,
            'health_check_interval': 1,
            # Each is a process of its own; those of all health managers fight
            # for a SQLite file, and a heartbeat that loses is ignored.
            'health_update_threads': 1,
            'stats_update_threads': 1,
        },
        'controller_worker': {
            'amphora_driver': 'amphora_haproxy_rest_driver',
            'compute_driver': 'compute_noop_driver',
            'network_driver': 'network_noop_driver',
            'image_driver': 'image_noop_driver',
            'volume_driver': 'volume_noop_driver',
            'statistics_drivers': 'stats_db',
            'client_ca': certificates.client_authority.certificate_path,
            'amp_image_tag': 'amphora',
            'amp_flavor_id': 'amphora',
            'amp_boot_network_list': 'lb-mgmt-net',
            'amp_secgroup_list': 'lb-mgmt-sec-grp',
            'workers': 1,
        },
        'haproxy_amphora': {
            'bind_port': amphora_port,
            'client_cert': certificates.client_path,
            'server_ca': certificates.server_authority.certificate_path,
            'connection_max_retries': 5,
            'connection_retry_interval': 1,
        },
        'certificates': {
            'cert_generator': 'local_cert_generator',
            # Seconds: they end before the authority does, and not so soon
            # that housekeeping renews them.
            'cert_validity_time': 20 * 86400,
            'ca_certificate': certificates.server_authority.certificate_path,
            'ca_private_key': certificates.server_authority.key_path,
        },
        'task_flow': {'max_workers': 5},
        'house_keeping': {'cleanup_interval': 30},
    }


# A failover builds an amphora which the no-op compute driver says to be at a
# documentation address. Nothing must be sent there, so what runs failovers
# gets the no-op amphora driver, and they run to their end.
FAILOVER = {'controller_worker': {'amphora_driver': 'amphora_noop_driver'}}

# The plugin, with the intervals of a test.
HMSYNC = {
    'DEFAULT': {'config_source': 'hmsync'},
    'controller_worker': {'statistics_drivers': 'stats_db, hmsync'},
    'hmsync': {
        'driver': 'octavia_hmsync',
        'allow_loopback': True,
        'keepalive_interval': 1,
        'offline_after': 4,
        'poll_interval': 1,
        'settle_time': 1,
        'removal_delay': 4,
        'restart_grace': 4,
        # Where a test is not about it, a list goes to all at once.
        'canary_size': 0,
    },
    # Nor is what is done watched for long.
    'hmsync_image': {'rollout_watch_time': 5},
}
