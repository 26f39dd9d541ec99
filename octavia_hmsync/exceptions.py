# SPDX-License-Identifier: Apache-2.0

"""The errors of the plugin, in words for the operator.

Every message names the thing and what to do about it. Operators read it in the
log and on the command line.
"""


class HMSyncException(Exception):
    """Base of all exceptions that octavia-hmsync raises itself."""


class Interrupted(Exception):
    """Base of events that interrupt work in this process.

    It is not an HMSyncException, because the work has not failed: code that
    turns failures into a result must let it pass.
    """


class Lost(Interrupted):
    """Another process has claimed the row meanwhile: change nothing."""


class Unwanted(Interrupted):
    """The load balancer is to be deleted: undo what is not finished."""


class Stopped(Interrupted):
    """This process ends; another one takes up the work."""


class InvalidConfiguration(HMSyncException):
    """An option, or a combination of options, that cannot work."""


class InvalidAddress(HMSyncException):
    """An address that no amphora could send heartbeats to."""


class AddressConflict(HMSyncException):
    """Another health manager that is alive holds this address."""


class HostConflict(HMSyncException):
    """Another health manager registered under this host name."""


class StrangeAnswer(HMSyncException):
    """What an amphora agent sent is not a valid answer."""


class AgentUnreachable(HMSyncException):
    """No agent gave a valid answer; is_unanswered: nothing answered."""

    def __init__(self, message: str, is_unanswered: bool = False) -> None:
        super().__init__(message)
        self.is_unanswered = is_unanswered


class AgentRefused(HMSyncException):
    """An amphora agent refused a request, or failed."""


class BuildFailed(HMSyncException):
    """An amphora could not be built."""


class NotProven(HMSyncException):
    """It is not proven that a load balancer is served as it should be."""


class ClusterNotUpdated(HMSyncException):
    """Too few members of a cluster have taken a change."""


class UnknownTemplate(HMSyncException):
    """Octavia renders something that the plugin cannot change safely."""


class WrongOctavia(HMSyncException):
    """The installed Octavia lacks something that the plugin uses."""


class BrokenOctavia(HMSyncException):
    """The installed Octavia lacks something that Octavia itself uses."""


class NotOctavia(HMSyncException):
    """The database does not have Octavia's tables."""


class SchemaMissing(HMSyncException):
    """The plugin's tables are missing or too old."""


class SchemaNewer(HMSyncException):
    """The plugin's tables were made by a newer release."""


class DatabaseUnavailable(HMSyncException):
    """Octavia's database cannot be used."""


class JobboardUnavailable(HMSyncException):
    """Octavia's jobboard, or the store of its jobs, cannot be used."""


class NotificationsUnavailable(HMSyncException):
    """A notification could not be delivered."""


class CloudUnavailable(HMSyncException):
    """Neutron or Keystone gave no valid answer."""


class SecretsUnavailable(CloudUnavailable):
    """Not all certificates of a load balancer can be fetched."""


class CloudRefused(HMSyncException):
    """Neutron refused a request: a policy, a quota, ..."""


class PortConflict(HMSyncException):
    """The port of a node was made by others, or there are two."""


class NodeConflict(PortConflict):
    """The port of a node belongs to another node."""


class VswitchUnavailable(HMSyncException):
    """Open vSwitch of this node cannot be used, or has failed."""


class InterfaceConflict(HMSyncException):
    """Another interface has the name of the interface of the node's port."""


class InterfaceUnavailable(HMSyncException):
    """The kernel's interface of the node's port cannot be used."""


class NotPossible(HMSyncException):
    """What an operator asked for cannot be done now."""


class ClusterBusy(NotPossible):
    """Another process works on a cluster, or on its load balancer."""


class PortBusy(NotPossible):
    """Another process works on the port of a node right now."""


class InvalidDocument(HMSyncException):
    """A document for a distributor is not valid."""


class VersionConflict(HMSyncException):
    """A distributor has a newer document in force than the request."""

    def __init__(self, message: str, in_force: int) -> None:
        super().__init__(message)
        self.in_force = in_force


class DistributorError(HMSyncException):
    """A distributor did not carry out a request."""


class DistributorUnreachable(DistributorError):
    """It gives no valid answer."""


class DistributorFailing(DistributorError):
    """It answers, but it or its Open vSwitch fails."""


class DistributorUntrusted(DistributorError):
    """One side does not accept the certificate of the other."""


class DistributorOtherVersion(DistributorError):
    """It speaks another version of the API."""


class DistributorRejected(DistributorError):
    """It finds the request invalid: sending it again is useless."""


class DistributorRefused(DistributorError):
    """It has a newer version in force than the request."""

    def __init__(self, message: str, in_force: int) -> None:
        super().__init__(message)
        self.in_force = in_force


class UnknownCluster(HMSyncException):
    """A cluster is gone, or never existed."""


class NoDistributor(HMSyncException):
    """No distributor carries the traffic of a cluster as it should."""


class StoreBusy(HMSyncException):
    """Another process uses the directory of a distributor."""


class StoreFailed(HMSyncException):
    """A distributor cannot write or read its state."""


class VipBusy(HMSyncException):
    """Another request changes the same VIP, and has not ended in time."""


class UnknownVip(HMSyncException):
    """A distributor has no such VIP."""
