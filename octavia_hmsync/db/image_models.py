# SPDX-License-Identifier: Apache-2.0

"""The tables of image upgrades; see ``octavia_hmsync.db.models``."""

import sqlalchemy as sa

from octavia_hmsync.db import model_base
from octavia_hmsync.db import types


class ImageRollout(model_base.Base):
    """An order to bring load balancers to their newest image; a history."""

    __tablename__ = 'hmsync_image_rollout'
    __table_args__ = (
        sa.UniqueConstraint('active_key',
                            name='uq_hmsync_image_rollout_active'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    state = sa.Column(sa.String(36), nullable=False)
    # 'rollout' until it has ended: only one can be active at a time.
    active_key = sa.Column(sa.String(36), nullable=True)
    # Counts up with each change that affects what may begin next. A decision
    # is carried out only if the version is still the same.
    version = sa.Column(sa.Integer, nullable=False, default=0)
    # Why it is in this state, in words.
    reason = sa.Column(sa.Text, nullable=False)
    mode = sa.Column(sa.String(36), nullable=False)
    canaries = sa.Column(sa.Integer, nullable=False)
    parallel = sa.Column(sa.Integer, nullable=False)
    parallel_per_az = sa.Column(sa.Integer, nullable=False)
    rate_per_hour = sa.Column(sa.Integer, nullable=False)
    max_failures = sa.Column(sa.Integer, nullable=False)
    # Seconds.
    watch_time = sa.Column(sa.Integer, nullable=False)
    # As they were given.
    windows = sa.Column(sa.Text, nullable=False)
    # Why amphorae are replaced, see octavia_hmsync.image.causes.
    cause = sa.Column(sa.String(36), nullable=False, default='IMAGE')
    cause_value = sa.Column(sa.String(255), nullable=True)
    # Which load balancers it is only for, JSON; empty for all.
    only = sa.Column(types.LongText, nullable=False, default='')
    # The rollout that this one takes back, or NULL.
    undo_of = sa.Column(sa.String(36), nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)
    updated_at = sa.Column(types.Timestamp, nullable=False)
    finished_at = sa.Column(types.Timestamp, nullable=True)


class ImageReplacement(model_base.Base):
    """One attempt to bring a load balancer's amphorae to its image."""

    __tablename__ = 'hmsync_image_replacement'
    __table_args__ = (
        sa.UniqueConstraint('active_key',
                            name='uq_hmsync_image_replacement_active'),
        sa.Index('ix_hmsync_image_replacement_rollout', 'rollout_id',
                 'state'),
        sa.Index('ix_hmsync_image_replacement_started', 'started_at'),
        sa.Index('ix_hmsync_image_replacement_load_balancer',
                 'load_balancer_id'),
        sa.Index('ix_hmsync_image_replacement_state', 'state',
                 'claim_expires_at'),
        sa.Index('ix_hmsync_image_replacement_claim_owner', 'claim_owner'),
        sa.Index('ix_hmsync_image_replacement_finished', 'finished_at'),
        sa.Index('ix_hmsync_image_replacement_attempts', 'state',
                 'attempts'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    # NULL if an operator ordered it without a rollout.
    rollout_id = sa.Column(sa.String(36), nullable=True)
    load_balancer_id = sa.Column(sa.String(36), nullable=False)
    # The load balancer until it has ended: one at a time for each.
    active_key = sa.Column(sa.String(36), nullable=True)
    # Facts about the load balancer, which may be gone by now.
    topology = sa.Column(sa.String(36), nullable=True)
    flavor_id = sa.Column(sa.String(36), nullable=True)
    availability_zone = sa.Column(sa.String(255), nullable=True)
    target_image_id = sa.Column(sa.String(36), nullable=True)
    mode = sa.Column(sa.String(36), nullable=False)
    canary = sa.Column(sa.Boolean, nullable=False, default=False)
    # Whether to replace all amphorae from before created_at, whatever image
    # they have.
    forced = sa.Column(sa.Boolean, nullable=False, default=False)
    # As of a rollout.
    cause = sa.Column(sa.String(36), nullable=False, default='IMAGE')
    cause_value = sa.Column(sa.String(255), nullable=True)
    # Whether amphorae were in several compute zones before, as far as it
    # matters for the cause.
    was_spread = sa.Column(sa.Boolean, nullable=False, default=False)
    state = sa.Column(sa.String(36), nullable=False)
    # See octavia_hmsync.image.phases; NULL before it has begun.
    phase = sa.Column(sa.String(36), nullable=True)
    old_amphora_id = sa.Column(sa.String(36), nullable=True)
    new_amphora_id = sa.Column(sa.String(36), nullable=True)
    # How often a housekeeper took it up: more than once if a claim lapsed.
    attempts = sa.Column(sa.Integer, nullable=False, default=0)
    reason = sa.Column(sa.Text, nullable=True)
    # Why an operator cancelled it, or NULL.
    cancel_requested = sa.Column(sa.Text, nullable=True)
    # The operating status of the load balancer before it began.
    operating_status = sa.Column(sa.String(36), nullable=True)
    # When it may begin; if it was SKIPPED, when the next one of its load
    # balancer may.
    not_before = sa.Column(types.Timestamp, nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)
    started_at = sa.Column(types.Timestamp, nullable=True)
    finished_at = sa.Column(types.Timestamp, nullable=True)
    # Who works on it now.
    claim_owner = sa.Column(sa.String(320), nullable=True)
    claim_expires_at = sa.Column(types.Timestamp, nullable=True)


class ImageExclusion(model_base.Base):
    """A kind of load balancers that rollouts leave alone."""

    __tablename__ = 'hmsync_image_exclusion'
    __table_args__ = (
        sa.UniqueConstraint('kind', 'value',
                            name='uq_hmsync_image_exclusion_value'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    kind = sa.Column(sa.String(36), nullable=False)
    value = sa.Column(sa.String(255), nullable=False)
    # Of what has an id, when it was excluded; NULL if it has none.
    name = sa.Column(sa.String(255), nullable=True)
    reason = sa.Column(sa.Text, nullable=False)
    expires_at = sa.Column(types.Timestamp, nullable=True)
    created_at = sa.Column(types.Timestamp, nullable=False)


class AmphoraView(model_base.Base):
    """What an amphora reported in one heartbeat during a replacement.

    Rows exist for all amphorae of a load balancer while one of them is
    replaced.
    """

    __tablename__ = 'hmsync_amphora_view'
    __table_args__ = (
        sa.Index('ix_hmsync_amphora_view_load_balancer', 'load_balancer_id',
                 'seen_at'),
        sa.Index('ix_hmsync_amphora_view_seen', 'seen_at'),
        {'mysql_engine': 'InnoDB'})

    id = sa.Column(sa.String(36), primary_key=True)
    load_balancer_id = sa.Column(sa.String(36), nullable=False)
    amphora_id = sa.Column(sa.String(36), nullable=False)
    seen_at = sa.Column(types.Timestamp, nullable=False)
    # Ids of the listeners that ran there, JSON.
    listeners = sa.Column(types.LongText, nullable=False)
    # {id: operating_status}, as this amphora sees them, JSON.
    members = sa.Column(types.LongText, nullable=False)
