# SPDX-License-Identifier: Apache-2.0

"""The data of a load balancer that the rules of image upgrades use."""

import dataclasses
import datetime


@dataclasses.dataclass(frozen=True)
class Amphora:
    """An amphora that is not deleted.

    :param id: of Octavia's.
    :param status: ALLOCATED, ERROR, BOOTING, ...
    :param role: MASTER, BACKUP, STANDALONE; None while it has none.
    :param image_id: the image that it booted from; None if unknown.
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
    :param name: its owner's name for it.
    :param project_id: its owner.
    :param provider: None if it is older than other providers.
    :param topology: None if Octavia did not store it.
    :param status: its provisioning_status.
    :param flavor_id: None without a flavor.
    :param availability_zone: None without one.
    :param server_group_id: of its instances; None without one.
    :param tag: of the image for its next amphora; None if its flavor cannot
                be read.
    :param amphorae: tuple of Amphora, by id.
    :param operating_status: Octavia's.
    :param changed_at: Octavia's last change, UTC, by Octavia's clock.
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
