# SPDX-License-Identifier: Apache-2.0

"""Each release note can be read, and has what reno knows.

reno leaves a section that it does not know out, with no more than a warning.
"""

import pathlib

from oslotest import base
import yaml

NOTES = pathlib.Path(__file__).resolve().parents[2] / 'releasenotes/notes'
SECTIONS = {'features', 'issues', 'upgrade', 'deprecations', 'critical',
            'security', 'fixes', 'other'}


class TestReleaseNotes(base.BaseTestCase):

    def test_sections(self):
        notes = sorted(NOTES.glob('*.yaml'))
        self.assertNotEqual([], notes)
        for path in notes:
            note = yaml.safe_load(path.read_text())
            self.assertIsInstance(note.pop('prelude', ''), str, path.name)
            self.assertEqual(set(), set(note) - SECTIONS, path.name)
            for section, entries in note.items():
                self.assertIsInstance(entries, list, path.name)
                self.assertEqual(
                    [], [e for e in entries
                         if not isinstance(e, str) or not e.strip()],
                    f'{path.name}: {section}')

    def test_names(self):
        """reno takes two with the same id for one that was renamed."""
        ids = [path.stem.rpartition('-')[2] for path in NOTES.iterdir()
               if path.suffix == '.yaml']
        self.assertEqual(len(ids), len(set(ids)))
        for note_id in ids:
            self.assertRegex(note_id, '^[0-9a-f]{16}$')
