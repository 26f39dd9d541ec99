# SPDX-License-Identifier: Apache-2.0

"""Gives amphorae the listeners of a load balancer, all of them or none."""

import threading

from octavia_hmsync.amphora import listener_plan
from octavia_hmsync.amphora import telling
from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync import exceptions


class Listeners:
    """The listeners of a load balancer, with all their secrets.

    A serving amphora gets no configuration while a certificate is missing,
    because Octavia's driver would leave out that listener.

    :param secret_timeout: seconds for the certificate manager, which has no
                           time-out of its own.
    :param agent_timeout: seconds for each amphora.
    :raises SecretsUnavailable: if something cannot be fetched in time.
    """

    def __init__(self, client, load_balancer, secret_timeout, agent_timeout):
        self._client = client
        self._seconds = agent_timeout
        self._planner = compat_driver.Planner()
        self._fetch(load_balancer, secret_timeout)

    def _fetch(self, load_balancer, timeout):
        problems: list[exceptions.SecretsUnavailable | None] = []

        def fetch():
            try:
                listener_plan.fetch_secrets(self._planner,
                                            load_balancer.listeners)
            except exceptions.SecretsUnavailable as e:
                problems.append(e)
            else:
                problems.append(None)

        thread = threading.Thread(target=fetch, daemon=True,
                                  name='hmsync-secrets')
        thread.start()
        thread.join(timeout)
        if not problems:
            raise exceptions.SecretsUnavailable(
                f'The certificate manager does not hand out what the '
                f'listeners of load balancer {load_balancer.id} need within '
                f'{timeout} s, and no amphora was changed.')
        if problems[0] is not None:
            raise problems[0]

    def update(self, load_balancer, amphora):
        """Give an amphora its listeners.

        :param load_balancer: the data model to render, reduced to the amphorae
                              that are to be peers.
        :param amphora: one of its amphorae.
        :raises AgentRefused: if the amphora does not take them.
        """
        if not load_balancer.listeners:
            return
        target = telling.Target(
            amphora.id, amphora.id, amphora.lb_network_ip,
            lambda facts: listener_plan.plan(self._planner, load_balancer,
                                             amphora, facts))
        for reason in telling.tell(self._client, [target],
                                   self._seconds).values():
            raise exceptions.AgentRefused(
                f'The listeners of load balancer {load_balancer.id} are not '
                f'taken: {reason.rstrip(".")}.')
