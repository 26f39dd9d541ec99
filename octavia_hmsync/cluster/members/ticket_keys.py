# SPDX-License-Identifier: Apache-2.0

"""The keys of TLS session tickets that members of a cluster have in common.

Each haproxy makes keys of its own when it is loaded: a client that comes to
another member does a full handshake. Here all controllers derive the same ones
from what they share, so that nothing is stored. They are for one listener, and
for what it demands of clients: who has a ticket is not asked for a certificate
again, and so a ticket must be worth nothing where another one is demanded.

Members have three keys: those of the period before, of this one, by which
tickets are made, and of the next one. Those that are one period apart resume
each other's sessions, and so it does no harm that periods go by the clocks of
controllers.
"""

import base64
from collections.abc import Iterable
import functools
import hashlib
import os
import re

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf import hkdf

from octavia_hmsync.compat import amphora_driver as compat_driver
from octavia_hmsync.conf import cluster as cluster_conf

# Of haproxy: a name, and keys of HMAC-SHA256 and AES-256.
_SIZE = 80
# The first haproxy that knows keys of that size.
_FIRST_VERSION = 2
_WHAT = 'octavia-hmsync TLS session tickets 1'
# A ticket is given to anybody, and with it a way to try passphrases: one try
# takes some 50 ms, and 16 MiB.
_COST = 2 ** 14
# What octavia.conf has where there is none: everybody knows it.
_KNOWN = 'insecure-key-do-not-use-this-key'
_BIND = re.compile(
    r'^[ \t]*bind [^ \n]+ (ssl crt-list ([^ \n]*/)([\w-]{1,64})\.pem\b.*?) *$',
    re.ASCII | re.MULTILINE)
_OWN = re.compile(r' (?:tls-ticket-keys|no-tls-tickets)\b')
_FILE = re.compile(
    r' tls-ticket-keys [^ \n]*/([\w-]{1,64}-[0-9a-f]{32}-tickets\.pem)(?!\S)',
    re.ASCII)


def find_passphrase(conf):
    """Return the secret that all controllers share.

    :param conf: a parsed oslo.config object.
    :returns: None if there is none that nobody else knows.
    """
    # By the first one Octavia encrypts.
    passphrases = conf.certificates.server_certs_key_passphrase
    if isinstance(passphrases, str):
        # As Octavia 16 has it.
        passphrases = [passphrases]
    if not passphrases or passphrases[0] in ('', _KNOWN):
        return None
    return str(passphrases[0])


class TicketKeys:
    """Keys of the listeners of one load balancer.

    :param passphrase: of find_passphrase(); None for no keys at all.
    :param load_balancer_id: whose.
    :param seconds: how long a period is; 0 for no keys at all.
    """

    def __init__(self, passphrase: str | None, load_balancer_id: str,
                 seconds: int):
        self._passphrase = passphrase
        self._id = load_balancer_id
        self._seconds = seconds

    @property
    def is_on(self) -> bool:
        """Whether there are any keys."""
        return bool(self._passphrase and self._seconds)

    def get_period(self, now: float) -> int:
        """Return the number of a period.

        Those of different load balancers begin at different times: all that
        they cost does not come at once.

        :param now: seconds since 1970.
        """
        ahead = int.from_bytes(hashlib.sha256(self._id.encode()).digest()[:4],
                               'big') % self._seconds
        return int(now + ahead) // self._seconds

    def render(self, name: str, period: int) -> str:
        """Return the file of a listener, which is secret.

        :param name: of add(), or find_files().
        :param period: of get_period().
        :returns: what tls-ticket-keys of haproxy reads: by the last key but
                  one it makes tickets.
        """
        return ''.join(f'{base64.b64encode(key).decode()}\n' for key in (
            self._derive(name, number)
            for number in (period - 1, period, period + 1)))

    def _derive(self, name, number):
        info = '\0'.join((_WHAT, self._id, name, str(number)))
        return hkdf.HKDFExpand(hashes.SHA256(), _SIZE, info.encode()).derive(
            _stretch(self._passphrase))

    def add(self, requests: Iterable[compat_driver.Request], version: str,
            now: float) -> list[compat_driver.Request]:
        """Have what an agent is asked for name the keys, and bring them.

        What an operator's own template says of tickets stays.

        :param requests: in which there is a configuration of haproxy.
        :param version: that of haproxy.
        :param now: seconds since 1970.
        :returns: the same without any that listens with TLS.
        """
        requests = list(requests)
        if not self.is_on or not _is_new_enough(version):
            return requests
        lists = {os.path.basename(request.path): request.body
                 for request in requests if '/certificates/' in request.path}
        period = self.get_period(now)
        found = []
        for request in requests:
            if request.path.endswith('/haproxy'):
                text = _name_files(request.body, lists)
                found += [
                    compat_driver.Request(
                        'PUT', get_path(self._id, name),
                        self.render(name, period), unless_same=True)
                    for name in find_files(text)]
                request = compat_driver.Request(request.method, request.path,
                                                text)
            found.append(request)
        return found


def make(conf, load_balancer_id):
    """Return the TicketKeys of a load balancer.

    :param conf: a parsed oslo.config object.
    :param load_balancer_id: its id.
    """
    return TicketKeys(find_passphrase(conf), load_balancer_id,
                      conf[cluster_conf.GROUP].tls_ticket_period)


@functools.lru_cache(maxsize=4)
def _stretch(passphrase):
    return hashlib.scrypt(passphrase.encode(), salt=_WHAT.encode(), n=_COST,
                          r=8, p=1, dklen=32)


def _is_new_enough(version):
    found = re.match(r'\d+', version)
    return found is not None and int(found[0]) >= _FIRST_VERSION


def _name_files(text, lists):
    def extend(found):
        options, directory, listener_id = found.groups()
        if _OWN.search(options):
            return found[0]
        # Whom it trusts is in there by a digest of that, and its own
        # certificates are in its list.
        demanded = hashlib.sha256('\0'.join((
            options, lists.get(f'{listener_id}.pem', ''))).encode())
        return (f'{found[0].rstrip()} tls-ticket-keys {directory}'
                f'{listener_id}-{demanded.hexdigest()[:32]}-tickets.pem')

    return _BIND.sub(extend, text)


def find_files(text: str) -> list[str]:
    """Return the names of files with keys that haproxy reads.

    :param text: its configuration.
    """
    return sorted(set(_FILE.findall(text)))


def get_path(load_balancer_id: str, name: str) -> str:
    """Return where a file is in the API of agents."""
    return f'loadbalancer/{load_balancer_id}/certificates/{name}'
