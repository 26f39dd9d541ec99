# SPDX-License-Identifier: Apache-2.0

# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.
"""A Redis server of one's own, and Octavia's jobboard on it."""

import os

from taskflow.jobs import backends

from tests.cloud import network
from tests.cloud import process

# The default of [task_flow] jobboard_backend_namespace.
NAMESPACE = 'octavia_jobboard'


class RedisServer(process.ChildProcess):
    """redis-server with its own port, which keeps nothing on disk.

    A restart loses all jobs; pause() and resume() make it hang.

    :param directory: where its log goes.
    """

    def __init__(self, directory):
        directory = os.path.join(directory, 'redis')
        os.makedirs(directory)
        self.port = network.free_port()
        super().__init__('redis', [
            process.system_program('redis-server'),
            '--bind', '127.0.0.1', '--port', str(self.port), '--save', '',
            '--appendonly', 'no', '--dir', directory,
        ], log_directory=directory, env=process.environment(directory),
            cwd=directory)

    def is_ready(self):
        return self.running and network.tcp_port_is_open('127.0.0.1',
                                                         self.port)

    def jobboard(self):
        """A connection to the jobboard, as a context manager."""
        return backends.backend(NAMESPACE, {
            'board': 'redis', 'host': '127.0.0.1', 'port': self.port,
            'namespace': NAMESPACE})
