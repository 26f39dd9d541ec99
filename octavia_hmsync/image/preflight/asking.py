# SPDX-License-Identifier: Apache-2.0

"""Requests of the checks to one service of the cloud."""

from openstack import exceptions as sdk_exc

from octavia_hmsync import cloud
from octavia_hmsync import exceptions
from octavia_hmsync.image.preflight import facts


class Asker:
    """Asks 'network', 'compute' or 'block_storage', a request per answer."""

    def __init__(self, conf, connection, service_type, service):
        self._conf = conf
        self._connection = connection
        self._service_type = service_type
        self._service = service
        self.name = service.name

    def get(self, action, read, path, **parameters):
        """Make a request, and return what a function makes of the answer.

        :param action: for the operator, a verb first: 'read the networks'.
        :raises CloudUnavailable: if there is no valid answer.
        :raises CloudRefused: if the answer is no.
        """
        with cloud.reported(self._conf, action, self._service):
            proxy = getattr(self._connection, self._service_type)
            response = proxy.get(path, params=parameters)
            sdk_exc.raise_from_response(response)
            return read(response.json())

    def find(self, action, read, path, **parameters):
        """Do the same as get(), but return None for what does not exist."""
        try:
            return self.get(action, read, path, **parameters)
        except exceptions.CloudRefused as e:
            if isinstance(e.__cause__, sdk_exc.NotFoundException):
                return None
            raise

    def get_project_id(self):
        """Return the id of the project of the credentials; None without."""
        with cloud.reported(self._conf, 'ask Keystone', self._service):
            return self._connection.current_project_id


def unless_hidden(read, *arguments):
    """Call a function that asks; return Hidden if a policy forbids it."""
    try:
        return read(*arguments)
    except exceptions.CloudRefused as e:
        if isinstance(e.__cause__, sdk_exc.ForbiddenException):
            return facts.Hidden(str(e))
        raise
