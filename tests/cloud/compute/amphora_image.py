# SPDX-License-Identifier: Apache-2.0

"""A real image of amphorae: diskimage-builder, and Octavia's own elements.

    python -m tests.cloud.compute.amphora_image [VERSION OF OCTAVIA]

builds one, or tells where it is. It is for Debian 12; what it was built of
decides whether it is built again.
"""

import fcntl
import hashlib
from importlib import metadata
import os
import pathlib
import re
import shutil
import subprocess
import sys

from packaging import version

from tests.cloud import isolation
from tests.cloud import process
from tests.cloud import virtualenv

_HERE = pathlib.Path(__file__).resolve().parent
_OWN_ELEMENTS = _HERE / 'elements'
_CONSTRAINTS = _HERE.parents[2] / 'constraints'
_BUILDER = ('diskimage-builder==3.43.0', 'setuptools==70.0.0', 'pbr', 'wheel')
# Those of diskimage-create.sh, without "vm", whose partitions need device
# mapper, and what a test has no use for: sos, octavia-lib (of PyPI then).
_ELEMENTS = ('base', 'debian-minimal', 'haproxy-octavia', 'no-resolvconf',
             'amphora-agent', 'cloud-init-datasources',
             'remove-default-ints', 'keepalived-octavia', 'ipvsadmin',
             'certs-ramfs', 'hmsync-tests')
# Debian has not got the first two; no wheel needs a compiler; pollinate and
# the tools of VMware have nothing to talk to.
_LEFT_OUT = ('ubuntu-cloudimage-keyring', 'ppc64-diag', 'build-essential',
             'libffi-dev', 'libssl-dev', 'dkms', 'pollinate',
             'open-vm-tools')
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
_KEPT = ('http_proxy', 'https_proxy', 'no_proxy')
_MIRROR = 'http://deb.debian.org/debian'
# What builds it, and what boots it.
_PROGRAMS = ('debootstrap', 'git', 'kpartx', 'losetup', 'qemu-img', 'sgdisk',
             'sudo', 'genisoimage', 'qemu-system-x86_64')


class NoImage(Exception):
    """It cannot be had here; says why, in a line."""


def get_octavia(release):
    """Return the version of Octavia that is tested of a release."""
    return re.search(r'(?m)^octavia==(.*)$', (
        _CONSTRAINTS / f'{release}.txt').read_text())[1]


class AmphoraImage:
    """Files of an image: .disk, .kernel and .initrd."""

    def __init__(self, directory):
        self.directory = directory
        self.disk = directory / 'amphora.raw'
        self.kernel = directory / 'vmlinuz'
        self.initrd = directory / 'initrd'


def make(octavia=None):
    """Return the image; build it where there is none of this content.

    Several processes may ask at once: one builds it, the others wait.

    :param octavia: a version; that of this environment where None is given.
    :raises NoImage: it cannot be built here.
    """
    octavia = octavia or metadata.version('octavia')
    top = virtualenv.path('images')
    top.mkdir(parents=True, exist_ok=True)
    built = AmphoraImage(top / f'amphora-{octavia}-{_digest(octavia)}')
    with open(f'{built.directory}.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.directory.exists():
            _check()
            work = pathlib.Path(f'{built.directory}.work')
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            try:
                _build(octavia, work, AmphoraImage(work / 'image'))
            except (RuntimeError, subprocess.CalledProcessError) as e:
                (work / 'error.log').write_text(str(e))
                raise NoImage(f'no image of amphorae was built; error.log and '
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


def _digest(octavia):
    """Tell of what content an image is."""
    digest = hashlib.sha256(repr((
        octavia, _BUILDER, _ELEMENTS, _LEFT_OUT, _CHOOSE_KERNEL,
        _constraints(octavia))).encode())
    for path in sorted(_OWN_ELEMENTS.rglob('*')):
        if path.is_file():
            digest.update(str(path.relative_to(_OWN_ELEMENTS)).encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _constraints(octavia):
    """Return what versions an agent of some Octavia has its libraries in."""
    release = {16: '2025.1', 17: '2025.2', 18: '2026.1'}.get(
        version.parse(octavia).major, '2026.2')
    lines = (_CONSTRAINTS / f'{release}.txt').read_text().splitlines()
    # The agent is what is constrained.
    return '\n'.join(line for line in lines
                     if not re.match('octavia(==|-hmsync)', line)) + '\n'


def _build(octavia, work, image):
    venv = virtualenv.make('diskimage-builder', *_BUILDER,
                           setup=_CHOOSE_KERNEL)
    process.run(*isolation.outside(
        venv / 'bin/pip', 'download', '-q', '--no-deps', '--no-binary',
        'octavia', '--no-build-isolation', '-d', work, f'octavia=={octavia}'))
    source = work / f'octavia-{octavia}'
    process.run('tar', '--no-same-owner', '-xzf', f'{source}.tar.gz', '-C',
                work)
    _change_elements(source, work)
    for command in (('init', '-q', '-b', 'master'), ('add', '-Af'),
                    ('-c', 'user.name=tests', '-c', 'user.email=tests@invalid',
                     'commit', '-qm', octavia), ('tag', octavia)):
        process.run('git', '-C', source, *command)
    constraints = work / 'upper-constraints.txt'
    constraints.write_text(_constraints(octavia))
    made = work / 'made'
    environment = {
        # What pip is told here holds for the machine, not for the image.
        **{name: os.environ[name] for name in _KEPT if name in os.environ},
        'HOME': str(work), 'TMPDIR': str(work), 'LC_ALL': 'C.UTF-8',
        'VIRTUAL_ENV': str(venv),
        'PATH': f'{venv}/bin:{os.environ["PATH"]}:/usr/sbin:/sbin',
        'ELEMENTS_PATH': str(work / 'elements'),
        'DIB_RELEASE': 'bookworm', 'DIB_PYTHON_VERSION': '3',
        'DIB_DISTRIBUTION_MIRROR': _MIRROR,
        'DIB_DEBIAN_SECURITY_MIRROR': f'{_MIRROR}-security',
        # Else it asks for addresses by DHCP, which cloud-init would.
        'DIB_APT_MINIMAL_CREATE_INTERFACES': '0',
        'DIB_REPOLOCATION_amphora_agent': str(source),
        'DIB_REPOREF_amphora_agent': 'master',
        'DIB_REPOLOCATION_upper_constraints': f'file://{constraints}',
        'DIB_OCTAVIA_AMP_USE_SSH': 'False',
        'DIB_OCTAVIA_AMP_USE_NFTABLES': 'True',
        'DIB_CLOUD_INIT_DATASOURCES': 'ConfigDrive, None',
        'DIB_IMAGE_CACHE': str(work / 'cache'), 'DIB_JOURNAL_SIZE': '16'}
    with open(work / 'build.log', 'w') as log:
        subprocess.run(
            isolation.outside(
                venv / 'bin/disk-image-create', '-t', 'raw', '--no-tmpfs',
                '-o', made, *_ELEMENTS), cwd=work, env=environment, stdout=log,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, check=True)
    image.directory.mkdir()
    pathlib.Path(f'{made}.raw').rename(image.disk)
    _take_out_kernel(image)


def _change_elements(source, work):
    """Copy the elements, with what this Debian and these tests need."""
    target = work / 'elements'
    for elements in (source / 'elements', _OWN_ELEMENTS):
        shutil.copytree(elements, target, dirs_exist_ok=True, symlinks=True)
    path = target / 'amphora-agent/package-installs.yaml'
    path.write_text(re.sub(
        rf'(?m)^({"|".join(_LEFT_OUT)}):.*\n(  .*\n)*', '',
        path.read_text()))


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


if __name__ == '__main__':
    try:
        print(make(*sys.argv[1:]).directory)
    except NoImage as e:
        sys.exit(str(e))
