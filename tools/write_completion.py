# SPDX-License-Identifier: Apache-2.0

"""Writes what "octavia-hmsync complete" prints, from the commands' options.

Run it when an option or a command has come or gone; a unit test compares.
"""

import io
import pathlib

from octavia_hmsync.cmd import hmsync

FILE = (pathlib.Path(__file__).resolve().parents[1] /
        'octavia_hmsync/cli/complete.bash')


def generate():
    """Return the text."""
    app = hmsync.HMSyncApp()
    app.stdout = io.StringIO()
    app.NAME = 'octavia-hmsync'
    command = hmsync.Complete(app, None)
    command.generate(command.get_parser('complete').parse_args([]))
    return app.stdout.getvalue()


if __name__ == '__main__':
    FILE.write_text(generate())
