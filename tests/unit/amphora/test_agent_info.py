# SPDX-License-Identifier: Apache-2.0

import json

from octavia_hmsync.amphora import agent_info
from octavia_hmsync import exceptions
from tests.unit.amphora import test_agent_client


def answer(body, status='200 OK'):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (f'HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n'
            .encode() + body)


def info(version):
    return answer({'api_version': '1.0', 'hostname': 'amphora',
                   'haproxy_version': version})


class TestAgentInfo(test_agent_client.AgentClientTestCase):

    def ask(self, *more, timeout=15):
        return agent_info.get_haproxy_versions(
            self.make_client_conf(timeout),
            [(a.amphora_id, a.lb_network_ip)
             for a in self.amphorae] + list(more))

    def test_versions(self):
        self.add_answering(info('2.6.12-1+deb12u2'))
        self.add_answering(info('3.0.11')[:-20], info('3.0.11')[-20:])
        self.assertEqual({'amphora-1': '2.6.12-1+deb12u2',
                          'amphora-2': '3.0.11'}, self.ask())

    def test_no_answers(self):
        """None of them keeps the others from theirs."""
        for strange in (answer(b'{'), answer([]), answer({}), info(None),
                        info('\x1b[31m'), info('x' * 65), info(''),
                        answer({'haproxy_version': '1'}, '500 Oh'),
                        b'nonsense\r\n\r\n', b''):
            self.add_answering(strange)
        good = self.add_answering(info('2.8.3'))
        self.assertEqual({good.amphora_id: '2.8.3'}, self.ask(
            ('no-address', None), ('wrong-address', 'amphora'),
            ('nobody', '127.0.1.200')))

    def test_hangs(self):
        self.add_answering(info('2.8.3')[:-2], keep_open=True)
        self.assertEqual({}, self.ask(timeout=1))

    def test_other_drivers(self):
        conf = self.make_client_conf()
        conf.set_override('amphora_driver', 'amphora_noop_driver',
                          group='controller_worker')
        self.assertEqual({}, agent_info.get_haproxy_versions(
            conf, [('amphora', '127.0.1.1')]))

    def test_no_certificates(self):
        self.assertRaises(
            exceptions.InvalidConfiguration, agent_info.get_haproxy_versions,
            self.make_client_conf(client_cert='/nowhere'), [])
