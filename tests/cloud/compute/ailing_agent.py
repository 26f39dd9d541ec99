# SPDX-License-Identifier: Apache-2.0

"""The agent of an amphora image that is bad; see bad_images.py.

Run as a script, in place of amphora-agent and with its arguments; VARIABLE
tells what is wrong.
"""

import os
import re
import signal
import subprocess
import sys
import threading
import time

VARIABLE = 'OCTAVIA_HMSYNC_TESTS_AILMENT'
MUTE = 'mute'
OTHER_API = 'other-api'
FAILS_WITH_VIP = 'fails-with-vip'
KILLS_HAPROXY = 'kills-haproxy'
OTHER_MEMBERS = 'other-members'


def _mute():
    from octavia.amphorae.backends.health_daemon import health_daemon
    health_daemon.run_sender = lambda queue: None


def _other_api(version):
    from octavia.amphorae.backends.agent import api_server
    api_server.VERSION = version


def _fails_with_vip():
    from octavia.amphorae.backends.agent.api_server import loadbalancer
    get = loadbalancer.Loadbalancer.get_all_listeners_status

    def get_all_listeners_status(self, other_listeners=None):
        response = get(self, other_listeners=other_listeners)
        if _has_vip():
            response.json = [{**each, 'status': 'ERROR'}
                             for each in response.json]
        return response

    loadbalancer.Loadbalancer.get_all_listeners_status = (
        get_all_listeners_status)


def _kills_haproxy(seconds):
    from octavia.amphorae.backends.agent.api_server import util

    def kill():
        while True:
            time.sleep(float(seconds))
            for load_balancer_id in util.get_loadbalancers():
                if util.is_lb_running(load_balancer_id):
                    # systemd starts it again.
                    os.kill(int(util.get_haproxy_pid(load_balancer_id)),
                            signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def _other_members():
    from octavia.amphorae.backends.agent.api_server import loadbalancer
    from octavia.amphorae.backends.agent.api_server import util
    upload = loadbalancer.Loadbalancer.upload_haproxy_config

    def upload_haproxy_config(self, amphora_id, lb_id):
        response = upload(self, amphora_id, lb_id)
        path = util.config_path(lb_id)
        with open(path) as file:
            text = file.read()
        with open(path, 'w') as file:
            file.write(re.sub(r'(?m)^( *server .*):\d+ weight',
                              r'\1:9 weight', text))
        return response

    loadbalancer.Loadbalancer.upload_haproxy_config = upload_haproxy_config


def _has_vip():
    """Whether eth1 has more than the address of its own."""
    addresses = subprocess.run(
        ['ip', 'netns', 'exec', 'amphora-haproxy', 'ip', '-4', '-o',
         'address', 'show', 'dev', 'eth1'], stdin=subprocess.DEVNULL,
        capture_output=True, text=True).stdout
    return len(addresses.splitlines()) > 1


if __name__ == '__main__':
    ailment, *words = os.environ[VARIABLE].split()
    {MUTE: _mute, OTHER_API: _other_api,
     FAILS_WITH_VIP: _fails_with_vip, KILLS_HAPROXY: _kills_haproxy,
     OTHER_MEMBERS: _other_members}[ailment](*words)
    # By its name the agent finds the file that it is to write anew.
    sys.argv[0] = 'amphora-agent'
    # Not before: what it imports takes the API's version.
    from octavia.cmd import agent
    sys.exit(agent.main())
