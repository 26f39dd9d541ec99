# SPDX-License-Identifier: Apache-2.0

"""Ways to upload to a fleet, each in a process of its own.

::

    python -m benchmarks.contenders NAME --config-file FILE --fleet FILE

prints a JSON object: how many amphorae, and per amphora the CPU time of this
process and the time that passed, in milliseconds, and the SQL statements.
"""

import argparse
import itertools
import json
import logging
import socket
import ssl
import threading
import time

import sqlalchemy as sa

from octavia_hmsync.amphora import agent_config
from octavia_hmsync import compat
from octavia_hmsync.conf import opts as groups
from octavia_hmsync.db import api
from octavia_hmsync.sync.db import amphora as amphora_repo
from octavia_hmsync.sync.db import generation as generation_repo
from octavia_hmsync.sync.house_keeping import synchronizer

_LISTS = ({'192.0.2.1:5555': 0}, {'192.0.2.1:5555': 0, '192.0.2.2:5555': 1})


def upload_bare(conf, members):
    """The floor: nothing but TLS and one request on one connection each."""
    haproxy = conf.haproxy_amphora
    context = ssl.create_default_context(cafile=haproxy.server_ca)
    context.load_cert_chain(haproxy.client_cert)
    body = agent_config.AgentConfigRenderer(conf).render(
        members[0]['id'], 'SINGLE', list(_LISTS[0])).encode()
    request = (f'PUT /1.0/config HTTP/1.1\r\nHost: amphora\r\n'
               f'Content-Length: {len(body)}\r\n'
               f'Connection: close\r\n\r\n').encode() + body
    yield
    for member in members:
        with socket.create_connection((member['lb_network_ip'],
                                       haproxy.bind_port)) as sock:
            with context.wrap_socket(
                    sock, server_hostname=member['id']) as tls:
                tls.sendall(request)
                answer = tls.recv(4096)
        if b' 202 ' not in answer:
            raise RuntimeError(answer)


def upload_httpx(conf, members):
    """The floor again, by a library for HTTP: a connection each, too."""
    import httpx

    haproxy = conf.haproxy_amphora
    context = ssl.create_default_context(cafile=haproxy.server_ca)
    context.load_cert_chain(haproxy.client_cert)
    body = agent_config.AgentConfigRenderer(conf).render(
        members[0]['id'], 'SINGLE', list(_LISTS[0])).encode()
    # One client for all, which costs less than one each.
    with httpx.Client(verify=context, trust_env=False, headers={
            'Connection': 'close'}) as client:
        yield
        for member in members:
            answer = client.put(
                f'https://{member["lb_network_ip"]}:{haproxy.bind_port}'
                f'/1.0/config', content=body,
                extensions={'sni_hostname': member['id']})
            if answer.status_code != 202:
                raise RuntimeError(answer)


def upload_hmsync(conf, members):
    """All that a housekeeper does from the published list to its end."""
    engine = api.create_engine(conf)
    newest = generation_repo.get_newest(engine)
    number = newest.number + 1 if newest else 1
    generation_repo.publish(engine, number, _LISTS[number % 2], 'benchmark',
                            'benchmark')
    woken = threading.Event()
    subject = synchronizer.Synchronizer(conf, engine,
                                        api.create_engine(conf), woken.set)
    yield
    while amphora_repo.count(engine, number).due:
        woken.clear()
        subject.run_once()
        woken.wait(conf.hmsync.poll_interval)
    subject.stop()


def upload_upstream(conf, members):
    """Octavia's 'amphora configure' in a loop."""
    # It takes seconds to import.
    from octavia.controller.worker.v2 import controller_worker

    worker = controller_worker.ControllerWorker()
    # What is made at the first call is not what one call costs.
    worker.update_amphora_agent_config(members[0]['id'])
    yield
    for member in members:
        worker.update_amphora_agent_config(member['id'])


CONTENDERS = {'bare': upload_bare, 'httpx': upload_httpx,
              'hmsync': upload_hmsync, 'upstream': upload_upstream}


def measure(contender, conf, members):
    """Run a contender; see the module for what is returned."""
    statements = itertools.count()
    running = contender(conf, members)
    next(running)
    sa.event.listen(sa.Engine, 'before_cursor_execute',
                    lambda *args: next(statements))
    cpu, began = time.process_time(), time.perf_counter()
    for _ in running:
        pass
    cpu, wall = time.process_time() - cpu, time.perf_counter() - began
    return {'amphorae': len(members),
            'cpu_ms': cpu / len(members) * 1000,
            'wall_ms': wall / len(members) * 1000,
            'statements': next(statements) / len(members)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('contender', choices=CONTENDERS)
    parser.add_argument('--config-file', required=True)
    parser.add_argument('--fleet', required=True)
    args = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)
    conf = compat.load_configuration(['--config-file', args.config_file])
    groups.register(conf)
    with open(args.fleet) as fleet:
        members = json.load(fleet)
    print(json.dumps(measure(CONTENDERS[args.contender], conf, members)))


if __name__ == '__main__':
    main()
