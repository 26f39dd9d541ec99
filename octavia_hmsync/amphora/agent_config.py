# SPDX-License-Identifier: Apache-2.0

"""The amphora agent's configuration file, with a list for each amphora.

It uses Octavia's own template, but not its AgentJinjaTemplater. That one takes
the list from the global configuration, and escapes values for HTML, which
would change a heartbeat_key with ``&`` or ``<``.
"""

import jinja2

from octavia_hmsync import addresses as addr
from octavia_hmsync import compat


def _load_template():
    with open(compat.get_agent_template_path(), encoding='utf-8') as template:
        source = template.read()
    # autoescape is for HTML; this is an oslo.config file.
    return jinja2.Environment(  # nosec B701
        autoescape=False, undefined=jinja2.StrictUndefined
    ).from_string(source)


def _escape(value):
    """Write a value so that oslo.config reads it unchanged.

    oslo.config reads ``\\$`` as a dollar sign anywhere, but ``$$`` not after
    a backslash; it strips a pair of quotes, and spaces.
    """
    value = str(value).replace('$', r'\$')
    if value != value.strip() or (value[:1] in ('"', "'") and
                                  value[0] == value[-1]):
        value = f'"{value}"'
    return value


def topology_for(topology, role, conf):
    """Return the topology that an amphora is to be configured for.

    It is the load balancer's own, because the controller's default may
    differ: Octavia's 'amphora configure' writes SINGLE into an ACTIVE_STANDBY
    amphora whose load balancer has no flavor. An agent does not start with
    ACTIVE_ACTIVE.

    :returns: SINGLE or ACTIVE_STANDBY.
    """
    if (role == compat.ROLE_IN_CLUSTER or
            topology == compat.TOPOLOGY_ACTIVE_ACTIVE):
        return compat.TOPOLOGY_OF_ROLE[compat.ROLE_IN_CLUSTER]
    return (topology or compat.TOPOLOGY_OF_ROLE.get(role) or
            conf.controller_worker.loadbalancer_topology)


class AgentConfigRenderer:
    """Renders the agent configuration of many amphorae.

    .heartbeat_key is the key in these configurations.

    :param conf: read only once, so that all amphorae of a batch get the same
                 values.
    """

    def __init__(self, conf):
        agent, haproxy = conf.amphora_agent, conf.haproxy_amphora
        self.heartbeat_key = conf.health_manager.heartbeat_key
        self._template = _load_template()
        self._values = {
            'agent_server_ca': agent.agent_server_ca,
            'agent_server_cert': agent.agent_server_cert,
            'agent_server_network_dir': agent.agent_server_network_dir,
            'agent_request_read_timeout': agent.agent_request_read_timeout,
            'base_cert_dir': haproxy.base_cert_dir,
            'base_path': haproxy.base_path,
            'bind_host': haproxy.bind_host,
            'bind_port': haproxy.bind_port,
            'debug': conf.debug,
            'haproxy_cmd': haproxy.haproxy_cmd,
            'heartbeat_interval': conf.health_manager.heartbeat_interval,
            'heartbeat_key': self.heartbeat_key,
            'amphora_udp_driver': agent.amphora_udp_driver,
            'agent_tls_protocol': agent.agent_tls_protocol,
            'administrative_log_facility': agent.administrative_log_facility,
            'user_log_facility': agent.user_log_facility,
        }
        self._values = {name: value if value is None else _escape(value)
                        for name, value in self._values.items()}

    def render(self, amphora_id, topology, addresses):
        """Render one amphora's configuration.

        It contains the heartbeat key: never log or store it.

        :param addresses: its controller_ip_port_list, not empty.
        :raises ValueError: if the list is empty; the amphora would fall
                            silent.
        """
        if not addresses:
            raise ValueError('an amphora must not get an empty list')
        return self._template.render(
            self._values, amphora_id=amphora_id, topology=topology,
            controller_list=addr.for_agents(addresses))
