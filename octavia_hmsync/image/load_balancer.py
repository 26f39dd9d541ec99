# SPDX-License-Identifier: Apache-2.0

"""What the rules of image upgrades know of a load balancer."""

import dataclasses
import datetime


@dataclasses.dataclass(frozen=True)
class Amphora:
    """An amphora that is not deleted.

    :param id: of Octavia's.
    :param status: ALLOCATED, ERROR, BOOTING, ...
    :param role: MASTER, BACKUP, STANDALONE; None while it has none.
    :param image_id: what it was booted from; None where that is not known.
    :param lb_network_ip: address of its agent; None while it has none.
    :param is_busy: whether a failover of it has begun, or has failed.
    """

    id: str
    status: str | None
    role: str | None = None
    image_id: str | None = None
    lb_network_ip: str | None = None
    is_busy: bool = False


@dataclasses.dataclass(frozen=True)
class LoadBalancer:
    """A load balancer that is not deleted.

    :param id: of Octavia's.
    :param name: what its owner calls it.
    :param project_id: its owner.
    :param provider: None for one from before there were others.
    :param topology: None where it was not written.
    :param status: its provisioning_status.
    :param flavor_id: None without a flavor.
    :param availability_zone: None without one.
    :param server_group_id: that of its instances; None without one.
    :param tag: that of the image which its next amphora boots from; None
                where its flavor cannot be read.
    :param amphorae: tuple of Amphora, by id.
    :param operating_status: as Octavia has it.
    :param changed_at: when Octavia changed it last, UTC, by its own clock.
    """

    id: str
    name: str | None
    project_id: str | None
    provider: str | None
    topology: str | None
    status: str
    flavor_id: str | None = None
    availability_zone: str | None = None
    server_group_id: str | None = None
    tag: str | None = None
    amphorae: tuple[Amphora, ...] = ()
    operating_status: str | None = None
    changed_at: datetime.datetime | None = None
