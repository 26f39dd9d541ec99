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
