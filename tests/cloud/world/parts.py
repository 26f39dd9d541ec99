# SPDX-License-Identifier: Apache-2.0

"""Parts of load balancers, as the API takes them."""


def make_members(*members, family=4, **kwargs):
    """Return members for the API, at their address of a family.

    :param members: machines.Members.
    :param kwargs: attributes of each.
    """
    return [{'name': member.name, 'protocol_port': 80, 'address': next(
        address for address in member.addresses
        if (':' in address) == (family == 6)), **kwargs}
        for member in members]


def make_monitor(delay=2, **kwargs):
    return {'type': 'HTTP', 'delay': delay, 'timeout': min(delay, 5),
            'max_retries': 2, **kwargs}


def make_pool(members, **kwargs):
    """Return a pool for the API; of HTTP, with a monitor, if nothing else."""
    kwargs.setdefault('healthmonitor', make_monitor())
    return {'protocol': 'HTTP', 'lb_algorithm': 'ROUND_ROBIN',
            'members': members, **{key: value for key, value
                                   in kwargs.items() if value is not None}}


def make_listener(pool=None, protocol='HTTP', port=80, **kwargs):
    return {'name': f'listener{port}', 'protocol': protocol,
            'protocol_port': port, **kwargs,
            **({} if pool is None else
               {'default_pool': {'name': f'pool{port}', **pool}})}
