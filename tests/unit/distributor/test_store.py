# SPDX-License-Identifier: Apache-2.0

import json
import os
import stat
from unittest import mock

import fixtures

from octavia_hmsync.distributor import store
from octavia_hmsync import exceptions
from tests.unit import base
from tests.unit.distributor import examples

VIP_ID = examples.VIP_ID
OTHER_ID = examples.make_id(0xdef)


class TestStore(base.TestCase):

    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.useFixture(fixtures.TempDir()).path,
                                 'a', 'b')
        self.store = store.Store(self.path)
        self.addCleanup(lambda: self.store.close())
        self.log = self.useFixture(fixtures.FakeLogger())
        self.vip = store.Vip(examples.make_document(), {'since': 1.5})

    def file(self, vip_id=VIP_ID, suffix=''):
        return os.path.join(self.path, f'{vip_id}.json{suffix}')

    def reopen(self):
        self.store.close()
        self.store = store.Store(self.path)
        return self.store.load()

    def test_nothing(self):
        self.assertEqual({}, self.store.load())
        self.assertEqual([], self.store.list_set_aside())

    def test_life(self):
        self.store.save(VIP_ID, self.vip)
        self.store.save(OTHER_ID, store.Vip(examples.make_document(9)))
        self.assertEqual(
            {VIP_ID: self.vip,
             OTHER_ID: store.Vip(examples.make_document(9))}, self.reopen())
        for deletion in (store.Deletion(None, 12.5), store.Deletion(9, 13.0)):
            self.store.save(VIP_ID, deletion)
            self.assertEqual(deletion, self.reopen()[VIP_ID])
        self.store.forget(VIP_ID)
        self.store.forget(VIP_ID)
        self.assertEqual([OTHER_ID], list(self.reopen()))

    def test_nobody_else_reads_it(self):
        self.store.save(VIP_ID, self.vip)
        self.assertEqual(0o600, stat.S_IMODE(os.stat(self.file()).st_mode))
        self.assertEqual(0o700, stat.S_IMODE(os.stat(self.path).st_mode))

    def test_file_is_replaced_as_a_whole(self):
        """Whenever the process dies, there is the old one or the new one."""
        self.store.save(VIP_ID, self.vip)
        new = store.Vip(examples.make_document(8), None)
        for step in ('open', 'fsync', 'rename'):
            with mock.patch.object(os, step, autospec=True,
                                   side_effect=KeyboardInterrupt):
                self.assertRaises(KeyboardInterrupt, self.store.save, VIP_ID,
                                  new)
            self.assertEqual({VIP_ID: self.vip}, self.reopen())
        with mock.patch.object(store.Store, '_sync', autospec=True,
                               side_effect=KeyboardInterrupt):
            self.assertRaises(KeyboardInterrupt, self.store.save, VIP_ID, new)
        self.assertEqual({VIP_ID: new}, self.reopen())
        self.assertEqual(['lock', f'{VIP_ID}.json'],
                         sorted(os.listdir(self.path), reverse=True))

    def test_full_disk(self):
        self.store.save(VIP_ID, self.vip)
        with mock.patch.object(os, 'fsync', autospec=True,
                               side_effect=OSError(28, 'No space left')):
            error = self.assertRaises(
                exceptions.StoreFailed, self.store.save, VIP_ID,
                store.Deletion(None, 1))
        self.assertEqual(f'{self.path} cannot be written to: No space left',
                         str(error))
        self.assertEqual({VIP_ID: self.vip}, self.reopen())
        self.assertFalse(os.path.exists(self.file(suffix='.new')))

    def test_directory_that_went(self):
        os.rename(self.path, self.path + '2')
        self.addCleanup(os.rename, self.path + '2', self.path)
        for call in (self.store.load, self.store.list_set_aside,
                     lambda: self.store.save(VIP_ID, self.vip),
                     lambda: self.store.forget(VIP_ID)):
            self.assertRaises(exceptions.StoreFailed, call)

    def test_file_system_without_fsync_of_directories(self):
        fsync = os.fsync

        def refuse(descriptor):
            if stat.S_ISDIR(os.fstat(descriptor).st_mode):
                raise OSError(22, 'Invalid argument')
            fsync(descriptor)

        with mock.patch.object(os, 'fsync', autospec=True,
                               side_effect=refuse):
            self.store.save(VIP_ID, self.vip)
        self.assertEqual({VIP_ID: self.vip}, self.reopen())

    def test_file_that_cannot_be_read(self):
        right = {'format': 1, 'id': VIP_ID, **self.vip.to_dict()}
        for content, reason in (
                ('', 'Expecting value'),
                (json.dumps(right)[:-9], 'Expecting'),
                ('\0' * 300, 'Expecting value'),
                (b'\xff', 'decode'),
                ('[' * 100000, 'recursion'),
                ('[]', 'it is not that of this VIP'),
                (json.dumps({**right, 'id': OTHER_ID}),
                 'it is not that of this VIP'),
                (json.dumps({**right, 'format': 2}),
                 'its format 2 is not 1'),
                (json.dumps({**right, 'transition': 5}),
                 'its transition is none'),
                (json.dumps({**right, 'document': {}}),
                 'version: is missing'),
                (json.dumps({**right, 'deleted': {}}),
                 'its deletion is none'),
                (json.dumps({**right, 'deleted': {'version': 'x', 'at': 1}}),
                 'is not a whole number')):
            with self.subTest(reason):
                self.store.save(VIP_ID, self.vip)
                self.store.save(OTHER_ID, self.vip)
                with open(self.file(), 'wb') as file:
                    file.write(content if isinstance(content, bytes)
                               else content.encode())
                self.assertEqual({OTHER_ID: self.vip}, self.reopen())
                self.assertEqual([VIP_ID], self.store.list_set_aside())
                self.assertIn(reason, self.log.output)
                self.assertIn(f'{self.file()}.corrupt', self.log.output)
                self.store.save(VIP_ID, self.vip)
                self.assertEqual([], self.store.list_set_aside())

    def test_forgotten_after_it_could_not_be_read(self):
        with open(self.file(suffix='.corrupt'), 'w'):
            pass
        self.assertEqual([VIP_ID], self.store.list_set_aside())
        self.store.forget(VIP_ID)
        self.assertEqual([], self.store.list_set_aside())

    def test_directory_in_place_of_a_file(self):
        os.mkdir(self.file())
        self.assertEqual({}, self.store.load())
        self.assertIn('Is a directory', self.log.output)

    def test_other_files(self):
        for name in ('README', f'{VIP_ID}.json~', f'x{VIP_ID}.json'):
            with open(os.path.join(self.path, name), 'w'):
                pass
        self.assertEqual({}, self.store.load())
        self.assertEqual('', self.log.output)

    def test_two_processes(self):
        error = self.assertRaises(exceptions.StoreBusy, store.Store,
                                  self.path, timeout=.2)
        self.assertIn(self.path, str(error))
        self.store.close()
        self.store = store.Store(self.path, timeout=0)

    def test_directory_that_cannot_be_made(self):
        with open(os.path.join(self.path, 'file'), 'w'):
            pass
        error = self.assertRaises(
            exceptions.InvalidConfiguration, store.Store,
            os.path.join(self.path, 'file', 'state'))
        self.assertIn('state_path', str(error))
