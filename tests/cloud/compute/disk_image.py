# SPDX-License-Identifier: Apache-2.0

"""Images for virtual machines, by diskimage-builder; for Debian 12.

What one was built of decides whether it is built again.
"""

import fcntl
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from tests.cloud import isolation
from tests.cloud import process
from tests.cloud import virtualenv

_OWN_ELEMENTS = pathlib.Path(__file__).resolve().parent / 'elements'
_BUILDER = ('diskimage-builder==3.43.0', 'setuptools==70.0.0', 'pbr', 'wheel')
# The initial RAM disk of Debian's usual kernel is twice as large. The builder
# reads its own elements whatever others there are.
_CHOOSE_KERNEL = '''
import pathlib
import diskimage_builder
path = pathlib.Path(diskimage_builder.__file__).with_name('elements').joinpath(
    'debian-minimal/package-installs.yaml')
path.write_text(path.read_text().replace(
    'linux-image-amd64', 'linux-image-cloud-amd64'))
'''
# Without "vm", whose partitions need device mapper.
_ELEMENTS = ('base', 'debian-minimal', 'hmsync-tests')
_KEPT = ('http_proxy', 'https_proxy', 'no_proxy')
_MIRROR = 'http://deb.debian.org/debian'
# What builds it, and what boots it.
_PROGRAMS = ('debootstrap', 'git', 'kpartx', 'losetup', 'qemu-img', 'sgdisk',
             'sudo', 'genisoimage', 'qemu-system-x86_64')


class NoImage(Exception):
    """It cannot be had here; says why, in a line."""


class DiskImage:
    """Files of an image: .disk, .kernel and .initrd."""

    def __init__(self, directory):
        self.directory = directory
        self.disk = directory / 'disk.raw'
        self.kernel = directory / 'vmlinuz'
        self.initrd = directory / 'initrd'


def ensure(name, contents, prepare):
    """Return a DiskImage; build it where there is none of this content.

    Several processes may ask at once: one builds it, the others wait.

    :param name: what it is an image of.
    :param contents: what it is built of, beside what is here; has a repr().
    :param prepare: called with an empty directory; returns (elements, the
                    directories that have them, variables for the builder).
    :raises NoImage: it cannot be built here.
    """
    top = virtualenv.path('images')
    top.mkdir(parents=True, exist_ok=True)
    built = DiskImage(top / f'{name}-{_digest(contents)}')
    with open(f'{built.directory}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.directory.exists():
            _check()
            work = pathlib.Path(f'{built.directory}.work')
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            try:
                _build(work, *prepare(work))
            except (RuntimeError, subprocess.CalledProcessError) as e:
                (work / 'error.log').write_text(str(e))
                raise NoImage(f'no image of {name} was built; error.log and '
                              f'build.log in {work} tell why') from e
            (work / 'image').rename(built.directory)
            shutil.rmtree(work)
    return built


def _check():
    lacking = [name for name in _PROGRAMS if not shutil.which(
        name, path=f'{os.environ["PATH"]}:/usr/sbin:/sbin')]
    if lacking:
        raise NoImage(f'{", ".join(lacking)} not installed; see the profile '
                      f'"real" of bindep.txt')
    if os.getuid():
        raise NoImage('an image is built by root')


def _digest(contents):
    """Tell of what content an image is."""
    digest = hashlib.sha256(repr((
        contents, _BUILDER, _ELEMENTS, _CHOOSE_KERNEL)).encode())
    for path in sorted(_OWN_ELEMENTS.rglob('*')):
        if path.is_file():
            digest.update(str(path.relative_to(_OWN_ELEMENTS)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def make_builder():
    """Return the virtual environment of diskimage-builder."""
    return virtualenv.make('diskimage-builder', *_BUILDER,
                           setup=_CHOOSE_KERNEL)


def make_repository(directory, version):
    """Have a directory of sources be a Git repository, at a version."""
    for command in (('init', '-q', '-b', 'master'), ('add', '-Af'),
                    ('-c', 'user.name=tests', '-c', 'user.email=tests@invalid',
                     'commit', '-qm', version), ('tag', version)):
        process.run('git', '-C', directory, *command)


def _build(work, elements, directories, variables):
    venv, made = make_builder(), work / 'made'
    environment = {
        # What pip is told here holds for the machine, not for the image.
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        'HOME': str(work), 'TMPDIR': str(work), 'LC_ALL': 'C.UTF-8',
        'VIRTUAL_ENV': str(venv),
        'PATH': f'{venv}/bin:{os.environ["PATH"]}:/usr/sbin:/sbin',
        'ELEMENTS_PATH': ':'.join(map(str, (*directories, _OWN_ELEMENTS))),
        'DIB_RELEASE': 'bookworm', 'DIB_PYTHON_VERSION': '3',
        'DIB_DISTRIBUTION_MIRROR': _MIRROR,
        'DIB_DEBIAN_SECURITY_MIRROR': f'{_MIRROR}-security',
        # Else it asks for addresses by DHCP, which cloud-init would.
        'DIB_APT_MINIMAL_CREATE_INTERFACES': '0',
        'DIB_IMAGE_CACHE': str(work / 'cache'), 'DIB_JOURNAL_SIZE': '16',
        **variables}
    with open(work / 'build.log', 'w') as log:
        subprocess.run(
            isolation.outside(
                venv / 'bin/disk-image-create', '-t', 'raw', '--no-tmpfs',
                '-o', made, *_ELEMENTS, *elements), cwd=work, env=environment,
            stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            check=True)
    image = DiskImage(work / 'image')
    image.directory.mkdir()
    pathlib.Path(f'{made}.raw').rename(image.disk)
    _take_out_kernel(image)


def _take_out_kernel(image):
    """Have the kernel as files: there is no boot loader without partitions."""
    listed = process.run('debugfs', '-R', 'ls -p /boot', image.disk)
    for target, pattern in ((image.kernel, r'/(vmlinuz-[^/]*cloud[^/]*)/'),
                            (image.initrd, r'/(initrd.img-[^/]*cloud[^/]*)/')):
        names = re.findall(pattern, listed)
        if not names:
            raise RuntimeError(f'{image.disk} has no {target.name}')
        process.run('debugfs', '-R', f'dump /boot/{names[-1]} {target}',
                    image.disk)
