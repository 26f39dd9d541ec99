# SPDX-License-Identifier: Apache-2.0

"""A real image of distributors, of the element that the project has.

    python -m tests.cloud.compute.distributor_image

builds one of what is in the checkout, or tells where it is.
"""

import hashlib
import pathlib
import shutil
import sys

from tests.cloud.compute import disk_image
from tests.cloud import process

_TOP = pathlib.Path(__file__).resolve().parents[3]
_ELEMENT = 'octavia-hmsync-distributor'
# What the element takes of the source.
_PARTS = ('LICENSE', 'README.rst', 'constraints', 'elements', 'etc',
          'octavia_hmsync', 'pyproject.toml', 'setup.cfg', 'setup.py')


def make():
    """Return the disk_image.DiskImage; build it where there is none.

    :raises NoImage: it cannot be built here.
    """
    files = [path for path in process.run(
        'git', '-C', _TOP, 'ls-files', '-z', '--cached', '--others',
        '--exclude-standard', '--', *_PARTS).split('\0')
        if (_TOP / path).is_file()]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.encode())
        digest.update((_TOP / path).read_bytes())
    return disk_image.ensure('distributor', (_ELEMENT, digest.hexdigest()),
                             lambda work: _prepare(files, work))


def _prepare(files, work):
    source = work / 'octavia-hmsync'
    for path in files:
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(_TOP / path, target)
    disk_image.make_repository(source, '1.0.0')
    return [_ELEMENT], [_TOP / 'elements'], {
        'OCTAVIA_HMSYNC_REPO': f'file://{source}'}


if __name__ == '__main__':
    try:
        print(make().directory)
    except disk_image.NoImage as e:
        sys.exit(str(e))
