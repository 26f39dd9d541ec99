# SPDX-License-Identifier: Apache-2.0

"""What can go wrong, in words for the operator.

Every message names the thing and what to do about it: it is what stands in
the log, and what the command line prints.
"""


class HMSyncException(Exception):
    """Base of all exceptions that octavia-hmsync raises itself."""


class Interrupted(Exception):
    """Base of what ends work that a process must not go on with.

    Not one of HMSyncException: it is no failure of the work, and code that
    turns failures into a result has to let it pass.
    """


class Lost(Interrupted):
    """Another process has claimed the row meanwhile: touch nothing."""


class Unwanted(Interrupted):
    """The load balancer is to be deleted: undo what is not finished."""


class Stopped(Interrupted):
    """This process ends; another one takes the work up."""


class InvalidConfiguration(HMSyncException):
    """An option, or a combination of options, that cannot work."""


class InvalidAddress(HMSyncException):
    """An address that no amphora could send heartbeats to."""


class AddressConflict(HMSyncException):
    """Another health manager that is alive holds this address."""


class HostConflict(HMSyncException):
    """Another health manager registered under this host name."""


class StrangeAnswer(HMSyncException):
    """What an amphora agent sends is no answer of one."""


class AgentUnreachable(HMSyncException):
    """No amphora agent answered, or not as one does.

    :param is_unanswered: whether nobody answered at its address: not even
                          with a certificate that does not fit.
    """

    def __init__(self, message: str, is_unanswered: bool = False) -> None:
        super().__init__(message)
        self.is_unanswered = is_unanswered


class AgentRefused(HMSyncException):
    """An amphora agent does not do what it was asked for."""


class BuildFailed(HMSyncException):
    """An amphora could not be built."""


class NotProven(HMSyncException):
    """A load balancer is not shown to be served as it should be."""


class ClusterNotUpdated(HMSyncException):
    """Too few members of a cluster have taken a change."""


class UnknownTemplate(HMSyncException):
    """What Octavia renders is not what the plugin knows how to change."""


class WrongOctavia(HMSyncException):
    """The installed Octavia lacks what the plugin takes from it."""


class BrokenOctavia(HMSyncException):
    """The installed Octavia lacks what Octavia itself needs."""


class NotOctavia(HMSyncException):
    """The database has no tables of Octavia."""


class SchemaMissing(HMSyncException):
    """The plugin's tables are not there yet, or are too old."""


class SchemaNewer(HMSyncException):
    """The plugin's tables were made by a newer release."""


class DatabaseUnavailable(HMSyncException):
    """Octavia's database cannot be used."""


class JobboardUnavailable(HMSyncException):
    """Octavia's jobboard, or what it keeps its jobs in, cannot be used."""


class NotificationsUnavailable(HMSyncException):
    """A notification could not be delivered."""


class CloudUnavailable(HMSyncException):
    """Neutron or Keystone does not answer, or not as it should."""


class SecretsUnavailable(CloudUnavailable):
    """Not all certificates of a load balancer are at hand."""


class CloudRefused(HMSyncException):
    """Neutron does not do what it was asked for: a policy, a quota, ..."""


class PortConflict(HMSyncException):
    """The port of a node is somebody else's, or there are two."""


class NodeConflict(PortConflict):
    """The port of a node is that of another node."""


class VswitchUnavailable(HMSyncException):
    """Open vSwitch of this node cannot be used, or did not do its part."""


class InterfaceConflict(HMSyncException):
    """Something else has the name of the interface of the node's port."""


class InterfaceUnavailable(HMSyncException):
    """The kernel's interface of the node's port cannot be used."""


class NotPossible(HMSyncException):
    """What an operator asked for cannot be done now."""


class ClusterBusy(NotPossible):
    """Somebody else works on a cluster, or on its load balancer."""


class PortBusy(NotPossible):
    """Somebody else works on the port of a node right now."""


class InvalidDocument(HMSyncException):
    """What a distributor is to do is not said as it has to be."""


class VersionConflict(HMSyncException):
    """A distributor has a newer document than the one that it was sent.

    :param in_force: the version that it has.
    """

    def __init__(self, message: str, in_force: int) -> None:
        super().__init__(message)
        self.in_force = in_force


class DistributorError(HMSyncException):
    """A distributor did not do what it was asked for."""


class DistributorUnreachable(DistributorError):
    """It does not answer, or not as one does."""


class DistributorFailing(DistributorError):
    """It answers, and its Open vSwitch or it itself does not work."""


class DistributorUntrusted(DistributorError):
    """One of the two does not take the certificate of the other."""


class DistributorOtherVersion(DistributorError):
    """It speaks another version of the API."""


class DistributorRejected(DistributorError):
    """It takes what it was sent for wrong, however often it is sent."""


class DistributorRefused(DistributorError):
    """It has a newer version than the one that it was sent.

    :param in_force: the version that it has.
    """

    def __init__(self, message: str, in_force: int) -> None:
        super().__init__(message)
        self.in_force = in_force


class UnknownCluster(HMSyncException):
    """A cluster is gone, or was never there."""


class NoDistributor(HMSyncException):
    """No distributor carries the traffic of a cluster as it should."""


class StoreBusy(HMSyncException):
    """Another process has the directory of a distributor."""


class StoreFailed(HMSyncException):
    """A distributor cannot write or read what it remembers."""


class VipBusy(HMSyncException):
    """Another request changes the same VIP, and does not come to an end."""


class UnknownVip(HMSyncException):
    """A distributor has no such VIP."""
