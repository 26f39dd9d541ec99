# SPDX-License-Identifier: Apache-2.0

"""How the files of certificates are named."""

import re

from octavia_hmsync.cluster.members import certificate_files
from octavia_hmsync.cluster.members import ticket_keys
from octavia_hmsync.compat import amphora_driver as compat_driver
from tests.unit import base

_DIRECTORY = '/var/lib/octavia/certs/lb'
_CERTIFICATES = 'loadbalancer/lb/certificates'
_TICKETS = f'l1-{"0" * 32}-tickets.pem'


def put(name, body):
    return compat_driver.Request('PUT', f'{_CERTIFICATES}/{name}', body,
                                 unless_same=True)


class TestRename(base.TestCase):

    def rename(self, *requests, pems=None):
        """Return the requests, and {name: content} of what is uploaded."""
        found = certificate_files.rename(requests, 'lb', pems)
        return found, {
            request.path.rpartition('/')[2]: request.body
            for request in found if request.method == 'PUT' and
            request.path.startswith(_CERTIFICATES)}

    def configure(self, pem='PEM', **kwargs):
        """As Octavia's driver does for a listener."""
        return self.rename(
            put('thumb.pem', pem),
            put('l1.pem', f'{_DIRECTORY}/thumb.pem\n'),
            put(_TICKETS, 'keys'),
            compat_driver.Request(
                'PUT', 'loadbalancer/a/lb/haproxy',
                f'bind 192.0.2.5:443 ssl crt-list {_DIRECTORY}/l1.pem '
                f'tls-ticket-keys {_DIRECTORY}/{_TICKETS}\n'
                f'server s ssl crt {_DIRECTORY}/thumb.pem\n'
                'option httpchk GET /thumb.pem\n'),
            compat_driver.Request('PUT', 'loadbalancer/lb/reload'), **kwargs)

    def test_all_that_is_named_is_there(self):
        requests, files = self.configure()
        pem, listed, _tickets = files
        self.assertRegex(pem, '^thumb-[0-9a-f]{32}.pem$')
        self.assertEqual('PEM', files[pem])
        self.assertRegex(listed, '^l1-[0-9a-f]{32}.pem$')
        self.assertEqual(f'{_DIRECTORY}/{pem}\n', files[listed])
        text = requests[3].body
        self.assertEqual(
            {*files}, {*re.findall(f'{_DIRECTORY}/([^ \n]+)', text)})
        self.assertIn('GET /thumb.pem\n', text)
        self.assertEqual('loadbalancer/lb/reload', requests[4].path)
        self.assertTrue(all(request.unless_same for request in requests[:3]))
        # As their rotation finds them.
        self.assertEqual([_TICKETS], ticket_keys.find_files(text))

    def test_what_a_configuration_names_stays_as_it_is(self):
        """A key that does not fit belongs to the same certificate."""
        first, second = (self.configure(pem)[1] for pem in ('PEM', 'other'))
        self.assertEqual({_TICKETS}, first.keys() & second.keys())
        self.assertEqual(first, self.configure()[1])

    def test_two_listeners_with_one_certificate(self):
        """Each has the key that was uploaded for it."""
        _requests, files = self.rename(
            put('thumb.pem', 'one'), put('l1.pem', f'{_DIRECTORY}/thumb.pem'),
            put('thumb.pem', 'two'), put('l2.pem', f'{_DIRECTORY}/thumb.pem'))
        listed = {name[:2]: files[body.rpartition('/')[2]]
                  for name, body in files.items() if name.startswith('l')}
        self.assertEqual({'l1': 'one', 'l2': 'two'}, listed)

    def test_what_is_deleted(self):
        """Nothing that is needed, and only when haproxy has the rest."""
        _requests, files = self.rename(put('going.pem', 'gone'))
        requests, kept = self.rename(
            compat_driver.Request('DELETE', f'{_CERTIFICATES}/going.pem'),
            put('thumb.pem', 'PEM'),
            compat_driver.Request('PUT', 'loadbalancer/lb/reload'),
            pems={'going.pem': 'gone', 'thumb.pem': 'PEM'})
        self.assertEqual(
            [('PUT', f'{_CERTIFICATES}/{next(iter(kept))}'),
             ('PUT', 'loadbalancer/lb/reload'),
             ('DELETE', f'{_CERTIFICATES}/going.pem'),
             ('DELETE', f'{_CERTIFICATES}/{next(iter(files))}')],
            [(request.method, request.path) for request in requests])
