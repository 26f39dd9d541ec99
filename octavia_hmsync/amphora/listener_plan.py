# SPDX-License-Identifier: Apache-2.0

"""The requests that configure an amphora's listeners.

They are the requests of Octavia's driver, checked strictly: that driver skips
a listener whose certificate it cannot fetch, which would remove the listener
from an amphora that serves it.
"""

from octavia_hmsync import compat
from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync import exceptions


def fetch_secrets(planner, listeners):
    """Fetch what listeners need, before any amphora is changed.

    :param planner: a compat Planner, which keeps it.
    :raises SecretsUnavailable: if something cannot be fetched.
    """
    for listener in listeners:
        try:
            planner.fetch_secrets(listener)
        except Exception as e:
            # Any error of any certificate manager.
            raise exceptions.SecretsUnavailable(
                f'What listener {listener.id} needs cannot be fetched '
                f'({type(e).__name__}: {" ".join(str(e).split())}), and no '
                f'amphora was changed: see its certificates, and '
                f'[certificates] cert_manager in octavia.conf.') from e


def plan(planner, load_balancer, amphora, facts=compat_driver.ANY):
    """Plan the requests for all listeners, or raise UnknownTemplate."""
    requests = planner.plan('update_amphora_listeners', load_balancer,
                            amphora, facts=facts).get(amphora.id, [])
    check(load_balancer, load_balancer.listeners, requests)
    return requests


def check(load_balancer, listeners, requests):
    """Raise UnknownTemplate if Octavia left a listener out."""
    text = ''.join(request.body for request in requests
                   if request.path.endswith('/haproxy'))
    for listener in listeners:
        if (load_balancer.enabled and listener.enabled and
                listener.protocol not in compat.LVS_PROTOCOLS and
                f'frontend {listener.id}' not in text):
            raise exceptions.UnknownTemplate(
                f'Octavia leaves listener {listener.id} out: see the log of '
                f'this service')
