# SPDX-License-Identifier: Apache-2.0

"""Virtual machines of tests/cloud, as far as none has to boot."""

import ipaddress
import json
import os
import pathlib
import shutil
import socket
import subprocess
import threading
from unittest import mock

import fixtures

from tests.cloud.compute import amphora_image
from tests.cloud.compute import config_drive
from tests.cloud.compute import disk_image
from tests.cloud.compute import qemu
from tests.unit import base

ELEMENT = (pathlib.Path(disk_image.__file__).parent /
           'elements/hmsync-tests')


class TestImages(base.TestCase):

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(
            self.useFixture(fixtures.TempDir()).path)

    def test_says_what_is_not_installed(self):
        self.useFixture(fixtures.EnvironmentVariable(
            'PATH', str(self.directory)))
        with mock.patch.object(disk_image, '_PROGRAMS', ('no-such-one',)):
            e = self.assertRaises(disk_image.NoImage, disk_image._check)
        self.assertEqual('no-such-one not installed; see the profile "real" '
                         'of bindep.txt', str(e))

    def test_is_built_again_of_other_elements(self):
        copy = self.directory / 'elements'
        shutil.copytree(ELEMENT.parent, copy)
        with mock.patch.object(disk_image, '_OWN_ELEMENTS', copy):
            first = disk_image._digest('19.0.0')
            self.assertEqual(first, disk_image._digest('19.0.0'))
            self.assertNotEqual(first, disk_image._digest('18.0.0'))
            (copy / 'hmsync-tests/package-installs.yaml').write_text('vim:\n')
            self.assertNotEqual(first, disk_image._digest('19.0.0'))

    def test_constraints(self):
        lines = amphora_image._constraints('16.0.1').splitlines()
        self.assertTrue([each for each in lines
                         if each.startswith('pyroute2==')])
        # It would not go with the source that is installed.
        self.assertEqual([], [each for each in lines
                              if each.startswith('octavia==')])

    def test_leaves_packages_out(self):
        source = self.directory / 'source'
        agent = source / 'elements/amphora-agent'
        agent.mkdir(parents=True)
        (agent / 'package-installs.yaml').write_text(
            'acl:\nopen-vm-tools:\n  arch: amd64\nless:\ndkms:\nsocat:\n')
        amphora_image._copy_elements(source, self.directory)
        self.assertEqual('acl:\nless:\nsocat:\n', (
            self.directory / 'elements/amphora-agent/package-installs.yaml'
        ).read_text())

    def test_hooks(self):
        scripts = sorted(ELEMENT.glob('*.d/*'))
        self.assertEqual(2, len(scripts))
        for path in scripts:
            self.assertTrue(os.access(path, os.X_OK), path)
        done = subprocess.run(
            [base.need_program('shellcheck'), *scripts], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((0, ''), (done.returncode, done.stdout))


class TestConfigDrive(base.TestCase):

    def test_network(self):
        found = config_drive._describe_network([
            ('eth0', 'fa:16:3e:00:00:05', 1442,
             ipaddress.ip_interface('172.31.0.5/24'))])
        self.assertEqual(
            ('eth0', 'fa:16:3e:00:00:05', 1442),
            tuple(found['links'][0][name] for name in (
                'id', 'ethernet_mac_address', 'mtu')))
        self.assertEqual(
            ('eth0', 'ipv4', '172.31.0.5', '255.255.255.0'),
            tuple(found['networks'][0][name] for name in (
                'link', 'type', 'ip_address', 'netmask')))


class TestMonitor(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = self.useFixture(fixtures.TempDir()).join('qmp')
        self.server = socket.socket(socket.AF_UNIX)
        self.addCleanup(self.server.close)
        self.server.bind(self.path)
        self.server.listen()
        self.asked = []

    def serve(self, *answers):
        """Answer as QEMU would, what comes after the capabilities."""
        def talk():
            connection, _ = self.server.accept()
            with connection, connection.makefile('rw') as stream:
                print('{"QMP": {}}', file=stream, flush=True)
                for lines in (['{"return": {}}'], answers):
                    self.asked.append(json.loads(stream.readline()))
                    for line in lines:
                        print(line, file=stream, flush=True)

        thread = threading.Thread(target=talk)
        thread.start()
        self.addCleanup(thread.join)

    def test_answer_after_an_event(self):
        self.serve('{"event": "NIC_RX_FILTER_CHANGED"}', '{"return": [1]}')
        self.assertEqual([1], qemu.Monitor(self.path).execute(
            'qom-list', path='/machine'))
        self.assertEqual(
            {'execute': 'qom-list', 'arguments': {'path': '/machine'}},
            self.asked[1])

    def test_refused(self):
        self.serve('{"error": {"class": "x", "desc": "Duplicate ID"}}')
        e = self.assertRaises(qemu.Refused, qemu.Monitor(self.path).execute,
                              'device_add')
        self.assertEqual('device_add: Duplicate ID', str(e))

    def test_gone(self):
        self.serve()
        self.assertRaises(ConnectionError, qemu.Monitor(self.path).execute,
                          'device_add')


class TestAcceleration(base.TestCase):

    def test_without_kvm(self):
        qemu.get_acceleration.cache_clear()
        self.addCleanup(qemu.get_acceleration.cache_clear)
        with mock.patch.object(qemu.os, 'access', autospec=True,
                               return_value=False):
            self.assertEqual(('tcg,tb-size=128', 'max'),
                             qemu.get_acceleration('kernel', 'initrd'))

    def test_kvm_that_does_not_get_on(self):
        qemu.get_acceleration.cache_clear()
        self.addCleanup(qemu.get_acceleration.cache_clear)
        with (mock.patch.object(qemu.os, 'access', autospec=True,
                                return_value=True),
              mock.patch.object(qemu, 'program', autospec=True),
              mock.patch.object(
                  qemu.subprocess, 'run', autospec=True,
                  side_effect=subprocess.TimeoutExpired('qemu', 20))):
            self.assertEqual(('tcg,tb-size=128', 'max'),
                             qemu.get_acceleration('kernel', 'initrd'))
