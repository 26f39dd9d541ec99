# SPDX-License-Identifier: Apache-2.0

"""Loopback addresses of one's own."""

import ipaddress
import os
import socket

import fixtures


class LoopbackNetwork(fixtures.Fixture):
    """A network 127.x.y.0/24 that no other harness on this machine uses."""

    def _setUp(self):
        start = os.getpid() * 7
        for number in range(start, start + 50000):
            prefix = f'127.{16 + number // 250 % 200}.{1 + number % 250}'
            claim = _claim(prefix)
            if claim is not None:
                self.addCleanup(claim.close)
                break
        else:
            raise RuntimeError('no free loopback network 127.x.y.0/24')
        self.prefix = prefix
        self.cidr = ipaddress.ip_network(f'{prefix}.0/24')

    def address(self, number):
        return f'{self.prefix}.{number}'


# For as long as this process lives: a server may be started again.
_PORT_CLAIMS = []
# Linux gives those above to clients, and to whoever asks for any port.
_PORTS = range(20000, 32000)


def free_port():
    """A port of 127.0.0.1 and ::1 that no other harness here is given."""
    for number in range(len(_PORTS)):
        port = _PORTS[(os.getpid() * 7 + number) % len(_PORTS)]
        claim = _claim(f'port-{port}')
        if claim is None:
            continue
        _PORT_CLAIMS.append(claim)
        if _is_unused(port):
            return port
    raise RuntimeError('no free port')


def _claim(name):
    """Take a name; returns a socket that holds it, None if it is taken.

    In the abstract socket namespace: the claim goes with the process, and is
    as wide as the loopback interface (a network namespace).
    """
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f'\0octavia-hmsync-tests-{name}')
    except OSError:
        claim.close()
        return None
    return claim


def _is_unused(port):
    """Whether nothing else on this machine has it."""
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        with socket.socket(type=kind) as sock:
            try:
                sock.bind(('', port))
            except OSError:
                return False
    return True


def udp_port_is_open(address, port):
    """Whether some process holds the UDP socket address:port."""
    return _is_listed('udp', address, port)


def tcp_port_is_open(address, port):
    """Whether some process listens on the TCP socket address:port."""
    return _is_listed('tcp', address, port, state='0A')


def _is_listed(protocol, address, port, state=None):
    # Not by connecting: an agent serves one client at a time.
    ip = ipaddress.ip_address(address)
    # The kernel prints each 32 bit word in the byte order of the machine.
    words = [ip.packed[i:i + 4][::-1] for i in range(0, len(ip.packed), 4)]
    wanted = f'{b"".join(words).hex().upper()}:{port:04X}'
    suffix = '6' if ip.version == 6 else ''
    # A thread may be in another network namespace than its process.
    with open(f'/proc/thread-self/net/{protocol}{suffix}') as table:
        for line in table:
            fields = line.split()
            if fields[1] == wanted and state in (None, fields[3]):
                return True
    return False
