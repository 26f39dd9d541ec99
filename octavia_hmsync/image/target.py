# SPDX-License-Identifier: Apache-2.0

"""Which image the next amphora of a load balancer boots from.

It follows Octavia: the tag of the flavor, or ``[controller_worker]
amp_image_tag`` without one; then the newest active image with that tag, of
``amp_image_owner_id`` if that is set. Availability zones have no image.
"""

import dataclasses
import json
import threading

from octavia_hmsync import compat
from octavia_hmsync.conf import image as image_conf
from octavia_hmsync import exceptions


@dataclasses.dataclass(frozen=True)
class Target:
    """The newest image of a tag, or a problem that says what to do."""

    image_id: str | None
    problem: str | None = None


@dataclasses.dataclass(frozen=True)
class ImageNeeds:
    """What an image needs of an instance.

    :param disk: minimum of disk, GB.
    :param ram: minimum of RAM, MB.
    :param size: bytes of the image, unpacked if that is known.
    """

    disk: int = 0
    ram: int = 0
    size: int = 0


def get_tag(flavor_data, default):
    """Return the tag in a flavor's JSON, or the default; None: unreadable."""
    return get_from_flavor(flavor_data, compat.AMP_IMAGE_TAG, default)


def get_from_flavor(flavor_data, key, default):
    """Return a value of a flavor of Octavia, as get_tag() does."""
    if flavor_data is None:
        return default
    try:
        return json.loads(flavor_data).get(key, default)
    except (ValueError, AttributeError):
        return None


class Targets:
    """Asks Octavia's image driver once for each tag.

    It makes no request before the first tag. After a request without an
    answer it makes no more: use a new object for the next look.
    """

    def __init__(self, conf):
        self._conf = conf
        self._owner = conf.controller_worker.amp_image_owner_id or None
        self._driver = None
        self._known: dict[str, Target] = {}
        self._needs: dict[str, ImageNeeds | None] = {}
        self._error: exceptions.CloudUnavailable | None = None

    def get(self, tag):
        """Return a tag's target, or raise CloudUnavailable."""
        if tag is None:
            return Target(None, 'Its flavor cannot be read: see "openstack '
                                'loadbalancer flavorprofile show".')
        if tag not in self._known:
            if self._error is not None:
                raise self._error
            try:
                self._known[tag] = self._find(tag)
            except exceptions.CloudUnavailable as e:
                # Each further tag would take image_timeout.
                self._error = e
                raise
        return self._known[tag]

    def get_needs(self, image_id):
        """Return its ImageNeeds or None, or raise CloudUnavailable."""
        if image_id not in self._needs:
            if self._error is not None:
                raise self._error
            try:
                self._needs[image_id] = self._ask(
                    f'what the image {image_id} needs',
                    lambda driver: _make_needs(
                        compat.read_image(driver, image_id)))
            except exceptions.CloudUnavailable as e:
                self._error = e
                raise
        return self._needs[image_id]

    def _find(self, tag):
        if not tag:
            return Target(None, 'Neither its flavor nor [controller_worker] '
                                'amp_image_tag names a tag: set one.')
        try:
            # Drivers without images answer with a number.
            return Target(str(self._ask(
                f'which image has the tag {tag}',
                lambda driver: driver.get_image_id_by_tag(tag, self._owner))))
        except compat.NoImage:
            owner = (f' that belongs to amp_image_owner_id {self._owner}'
                     if self._owner else '')
            return Target(None, f'No image{owner} has the tag {tag} and is '
                                f'active: see "openstack image list --tag '
                                f'{tag}", and tag or activate one.')

    def _ask(self, question, function):
        """Ask the driver, which has no time-out, for image_timeout at most."""
        timeout = self._conf[image_conf.GROUP].image_timeout
        answers: list = []
        thread = threading.Thread(target=self._run, args=(function, answers),
                                  name='hmsync-image', daemon=True)
        thread.start()
        thread.join(timeout)
        if not answers:
            raise exceptions.CloudUnavailable(
                f'The image service did not answer within {timeout} s '
                f'{question}: see whether Glance and Keystone run, and '
                f'[glance] and [service_auth] in octavia.conf.')
        answer, error = answers[0]
        if error is None:
            return answer
        if isinstance(error, compat.NoImage):
            raise error
        reason = ' '.join(str(error).split()).rstrip('.')
        raise exceptions.CloudUnavailable(
            f'The image service cannot be asked {question} '
            f'({type(error).__name__}: {reason}). See whether Glance and '
            f'Keystone run, and [glance] and [service_auth] in '
            f'octavia.conf.') from error

    def _run(self, function, answers):
        try:
            if self._driver is None:
                self._driver = compat.load_image_driver(
                    self._conf.controller_worker.image_driver)
            answers.append((function(self._driver), None))
        except Exception as e:  # Libraries of four services are below it.
            answers.append((None, e))


def _make_needs(image):
    if image is None:
        return None
    return ImageNeeds(image.get('min_disk') or 0, image.get('min_ram') or 0,
                      max(image.get('size') or 0,
                          image.get('virtual_size') or 0))
