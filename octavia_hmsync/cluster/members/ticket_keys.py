# SPDX-License-Identifier: Apache-2.0

"""The keys of TLS session tickets that members of a cluster share.

Without shared keys each haproxy makes its own when it is loaded, and a client
that comes to another member does a full handshake. Here all controllers
derive the same keys from a secret that they share, so that nothing is stored.
A key belongs to one listener and its demands on clients: haproxy does not ask
a client with a ticket for a certificate again, so a ticket must not be valid
where another certificate is demanded.

Members have three keys: of the last period, of the present one, which makes
tickets, and of the next one. Members one period apart can resume each other's
sessions, so the clocks of controllers may differ.
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

# haproxy's format: a name, and keys for HMAC-SHA256 and AES-256.
_SIZE = 80
# The first haproxy release with keys of that size.
_FIRST_VERSION = 2
_WHAT = 'octavia-hmsync TLS session tickets 1'
# Any client gets tickets, which allow to try passphrases: one try takes some
# 50 ms and 16 MiB.
_COST = 2 ** 14
# Octavia's default, which is public.
_KNOWN = 'insecure-key-do-not-use-this-key'
_BIND = re.compile(
    r'^[ \t]*bind [^ \n]+ (ssl crt-list ([^ \n]*/)([\w-]{1,64})\.pem\b.*?) *$',
    re.ASCII | re.MULTILINE)
_ENDING = '-tickets.pem'
_OWN = re.compile(r' (?:tls-ticket-keys|no-tls-tickets)\b')
_FILE = re.compile(
    r' tls-ticket-keys [^ \n]*/([\w-]{1,64}-[0-9a-f]{32}' +
    re.escape(_ENDING) + r')(?!\S)', re.ASCII)


def find_passphrase(conf):
    """Return the secret of all controllers; None for Octavia's default."""
    # Octavia encrypts with the first one.
    passphrases = conf.certificates.server_certs_key_passphrase
    if isinstance(passphrases, str):
        # Octavia 16.
        passphrases = [passphrases]
    if not passphrases or passphrases[0] in ('', _KNOWN):
        return None
    return str(passphrases[0])


class TicketKeys:
    """Keys of the listeners of one load balancer.

    :param passphrase: of find_passphrase(); None for no keys at all.
    :param seconds: the length of a period; 0 for no keys at all.
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

        The periods of different load balancers begin at different times, to
        spread the reloads.

        :param now: seconds since 1970.
        """
        ahead = int.from_bytes(hashlib.sha256(self._id.encode()).digest()[:4],
                               'big') % self._seconds
        return int(now + ahead) // self._seconds

    def render(self, name: str, period: int) -> str:
        """Return the content of the file of a listener, which is secret.

        :param name: from find_files().
        :param period: of get_period().
        :returns: lines for tls-ticket-keys: haproxy makes tickets with the
                  last key but one.
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
        """Add the keys, and their names in the configuration, to requests.

        Ticket options of an operator's own template stay.

        :param requests: with a configuration of haproxy.
        :param version: of haproxy.
        :param now: seconds since 1970.
        :returns: the same requests if no listener has TLS.
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
        # The options name the trusted CAs by a digest, and the list has the
        # certificates of the listener.
        demanded = hashlib.sha256('\0'.join((
            options, lists.get(f'{listener_id}.pem', ''))).encode())
        return (f'{found[0].rstrip()} tls-ticket-keys {directory}'
                f'{listener_id}-{demanded.hexdigest()[:32]}{_ENDING}')

    return _BIND.sub(extend, text)


def find_files(text: str) -> list[str]:
    """Return the names of files with keys in a configuration of haproxy."""
    return sorted(set(_FILE.findall(text)))


def is_file(name: str) -> bool:
    """Tell whether a file, by its name, has keys."""
    return name.endswith(_ENDING)


def get_path(load_balancer_id: str, name: str) -> str:
    """Return the path of a file in the API of agents."""
    return f'loadbalancer/{load_balancer_id}/certificates/{name}'
