# SPDX-License-Identifier: Apache-2.0

"""Initial tables."""

from alembic import op
import sqlalchemy as sa

from octavia_hmsync.db import lookup
from octavia_hmsync.db.migration import operations
from octavia_hmsync.db import types

revision = '0001'
down_revision = None


def upgrade():
    operations.create_table(
        'hmsync_health_manager',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('ip_address', sa.String(64), nullable=False),
        sa.Column('port', sa.Integer, nullable=False),
        sa.Column('status', sa.String(36), nullable=False),
        sa.Column('instance', sa.String(36), nullable=False),
        sa.Column('key_digest', sa.String(64), nullable=True),
        sa.Column('configured_key_digest', sa.String(64), nullable=True),
        sa.Column('plugin_version', sa.String(64), nullable=False),
        sa.Column('zone', sa.String(255), nullable=True),
        sa.Column('further_addresses', sa.Text, nullable=True),
        sa.Column('is_observing', sa.Boolean, nullable=False),
        sa.Column('heard_at', types.Timestamp, nullable=True),
        sa.Column('online_since', types.Timestamp, nullable=False),
        sa.Column('keepalive_at', types.Timestamp, nullable=False),
        sa.Column('starting_at', types.Timestamp, nullable=True),
        sa.Column('restart_took', sa.Float, nullable=True),
        sa.Column('late_at', types.Timestamp, nullable=True),
        sa.Column('announced', sa.String(160), nullable=True),
        sa.UniqueConstraint('ip_address', 'port',
                            name='uq_hmsync_health_manager_address'))
    operations.create_table(
        'hmsync_left_address',
        sa.Column('address', sa.String(80), primary_key=True),
        sa.Column('left_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_turn',
        sa.Column('name', sa.String(64), primary_key=True))
    operations.create_table(
        'hmsync_house_keeper',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('pinned_ip_port_list', sa.Text, nullable=False),
        sa.Column('key_digest', sa.String(64), nullable=True),
        sa.Column('problem', sa.Text, nullable=True),
        sa.Column('keepalive_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_generation',
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('controller_ip_port_list', sa.Text, nullable=False),
        sa.Column('slots', sa.Text, nullable=False),
        sa.Column('zones', sa.Text, nullable=True),
        sa.Column('key_digest', sa.String(64), nullable=True),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('status', sa.String(36), nullable=False),
        sa.Column('wave', sa.Integer, nullable=False),
        sa.Column('suspect_ip_port_list', sa.Text, nullable=True),
        sa.Column('rolled_back_at', types.Timestamp, nullable=True),
        sa.Column('published_by', sa.String(255), nullable=False),
        sa.Column('published_at', types.Timestamp, nullable=False),
        sa.Column('completed_at', types.Timestamp, nullable=True))
    operations.create_indexes(
        'hmsync_generation',
        ix_hmsync_generation_published_at=['published_at'],
        ix_hmsync_generation_rolled_back_at=['rolled_back_at'])
    operations.create_table(
        'hmsync_amphora',
        sa.Column('amphora_id', sa.String(36), primary_key=True),
        sa.Column('generation', sa.Integer, nullable=True),
        sa.Column('controller_ip_port_list', sa.Text, nullable=True),
        sa.Column('applied_at', types.Timestamp, nullable=True),
        sa.Column('key_digest', sa.String(64), nullable=True),
        sa.Column('previous_key_digest', sa.String(64), nullable=True),
        sa.Column('adopted_at', types.Timestamp, nullable=True),
        sa.Column('adopted_via', sa.String(80), nullable=True),
        sa.Column('not_adopted_at', types.Timestamp, nullable=True),
        sa.Column('has_changed_list', sa.Boolean, nullable=False),
        sa.Column('admitted_generation', sa.Integer, nullable=True),
        sa.Column('fell_silent_at', types.Timestamp, nullable=True),
        sa.Column('attempted_generation', sa.Integer, nullable=True),
        sa.Column('attempts', sa.Integer, nullable=False),
        sa.Column('result', sa.String(36), nullable=True),
        sa.Column('error', sa.Text, nullable=True),
        sa.Column('next_attempt_at', types.Timestamp, nullable=True),
        sa.Column('held_since', types.Timestamp, nullable=True),
        sa.Column('held_at', types.Timestamp, nullable=True),
        sa.Column('held_host', sa.String(255), nullable=True),
        sa.Column('claim_owner', sa.String(36), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True))
    operations.create_indexes(
        'hmsync_amphora',
        ix_hmsync_amphora_admitted=['admitted_generation'],
        ix_hmsync_amphora_adopted=['adopted_at', 'applied_at'],
        ix_hmsync_amphora_applied_at=['applied_at'],
        ix_hmsync_amphora_claim_owner=['claim_owner'],
        ix_hmsync_amphora_generation=['generation'],
        ix_hmsync_amphora_held_host=['held_host'],
        ix_hmsync_amphora_held_since=['held_since'],
        ix_hmsync_amphora_next_attempt=['next_attempt_at', 'generation'])
    operations.create_table(
        'hmsync_previous_list',
        sa.Column('amphora_id', sa.String(36), primary_key=True),
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('controller_ip_port_list', sa.Text, nullable=True),
        sa.Column('before_generation', sa.Integer, nullable=True))
    operations.create_table(
        'hmsync_uploader',
        sa.Column('name', sa.String(320), primary_key=True),
        sa.Column('reached_at', types.Timestamp, nullable=True),
        sa.Column('failing_since', types.Timestamp, nullable=True),
        sa.Column('failures', sa.Integer, nullable=False),
        sa.Column('overtaken', sa.Integer, nullable=False),
        sa.Column('keepalive_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_attempt',
        sa.Column('amphora_id', sa.String(36), primary_key=True),
        sa.Column('uploader', sa.String(320), primary_key=True),
        sa.Column('generation', sa.Integer, nullable=False),
        sa.Column('attempts', sa.Integer, nullable=False),
        sa.Column('is_unanswered', sa.Boolean, nullable=False),
        sa.Column('first_tried_at', types.Timestamp, nullable=False),
        sa.Column('next_attempt_at', types.Timestamp, nullable=False))
    operations.create_indexes(
        'hmsync_attempt',
        ix_hmsync_attempt_next=['uploader', 'next_attempt_at'])
    operations.create_table(
        'hmsync_heartbeat',
        sa.Column('amphora_id', sa.String(36), primary_key=True),
        sa.Column('address', sa.String(80), primary_key=True),
        sa.Column('heard_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_pause',
        sa.Column('number', sa.Integer, primary_key=True, autoincrement=False),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('begun_at', types.Timestamp, nullable=False),
        sa.Column('ends_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_host_hold',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('ends_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_zone_drain',
        sa.Column('zone', sa.String(255), primary_key=True),
        sa.Column('ends_at', types.Timestamp, nullable=False),
        sa.Column('with_health_managers', sa.Boolean, nullable=False),
        sa.Column('build_in', sa.String(255), nullable=True))
    operations.create_table(
        'hmsync_network',
        sa.Column('name', sa.String(255), primary_key=True),
        sa.Column('network_id', sa.String(36), nullable=True),
        sa.Column('subnet_id', sa.String(36), nullable=True),
        sa.Column('amphora_security_group_id', sa.String(36), nullable=True),
        sa.Column('health_manager_security_group_id', sa.String(36),
                  nullable=True),
        sa.Column('ensured_at', types.Timestamp, nullable=True),
        sa.Column('repairs', sa.Integer, nullable=False),
        sa.Column('reconciled_at', types.Timestamp, nullable=True),
        sa.Column('claim_owner', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True))
    operations.create_table(
        'hmsync_port',
        sa.Column('host', sa.String(255), primary_key=True),
        sa.Column('port_id', sa.String(36), nullable=True),
        sa.Column('mac', sa.String(32), nullable=True),
        sa.Column('ip_addresses', sa.Text, nullable=True),
        sa.Column('binding_host', sa.String(255), nullable=True),
        sa.Column('registered_at', types.Timestamp, nullable=True),
        sa.Column('plugged_at', types.Timestamp, nullable=True),
        sa.Column('repairs', sa.Integer, nullable=False),
        sa.Column('claim_owner', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True))
    operations.create_table(
        'hmsync_image_rollout',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('active_key', sa.String(36), nullable=True),
        sa.Column('version', sa.Integer, nullable=False),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('mode', sa.String(36), nullable=False),
        sa.Column('canaries', sa.Integer, nullable=False),
        sa.Column('parallel', sa.Integer, nullable=False),
        sa.Column('parallel_per_az', sa.Integer, nullable=False),
        sa.Column('rate_per_hour', sa.Integer, nullable=False),
        sa.Column('max_failures', sa.Integer, nullable=False),
        sa.Column('watch_time', sa.Integer, nullable=False),
        sa.Column('windows', sa.Text, nullable=False),
        sa.Column('cause', sa.String(36), nullable=False),
        sa.Column('cause_value', sa.String(255), nullable=True),
        sa.Column('only', types.LongText, nullable=False),
        sa.Column('undo_of', sa.String(36), nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('updated_at', types.Timestamp, nullable=False),
        sa.Column('finished_at', types.Timestamp, nullable=True),
        sa.UniqueConstraint('active_key',
                            name='uq_hmsync_image_rollout_active'))
    operations.create_table(
        'hmsync_image_replacement',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('rollout_id', sa.String(36), nullable=True),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('active_key', sa.String(36), nullable=True),
        sa.Column('topology', sa.String(36), nullable=True),
        sa.Column('flavor_id', sa.String(36), nullable=True),
        sa.Column('availability_zone', sa.String(255), nullable=True),
        sa.Column('target_image_id', sa.String(36), nullable=True),
        sa.Column('mode', sa.String(36), nullable=False),
        sa.Column('canary', sa.Boolean, nullable=False),
        sa.Column('forced', sa.Boolean, nullable=False),
        sa.Column('cause', sa.String(36), nullable=False),
        sa.Column('cause_value', sa.String(255), nullable=True),
        sa.Column('was_spread', sa.Boolean, nullable=False),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('phase', sa.String(36), nullable=True),
        sa.Column('old_amphora_id', sa.String(36), nullable=True),
        sa.Column('new_amphora_id', sa.String(36), nullable=True),
        sa.Column('attempts', sa.Integer, nullable=False),
        sa.Column('reason', sa.Text, nullable=True),
        sa.Column('cancel_requested', sa.Text, nullable=True),
        sa.Column('operating_status', sa.String(36), nullable=True),
        sa.Column('not_before', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('started_at', types.Timestamp, nullable=True),
        sa.Column('finished_at', types.Timestamp, nullable=True),
        sa.Column('claim_owner', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        sa.UniqueConstraint('active_key',
                            name='uq_hmsync_image_replacement_active'))
    operations.create_indexes(
        'hmsync_image_replacement',
        ix_hmsync_image_replacement_attempts=['state', 'attempts'],
        ix_hmsync_image_replacement_claim_owner=['claim_owner'],
        ix_hmsync_image_replacement_finished=['finished_at'],
        ix_hmsync_image_replacement_load_balancer=['load_balancer_id'],
        ix_hmsync_image_replacement_rollout=['rollout_id', 'state'],
        ix_hmsync_image_replacement_started=['started_at'],
        ix_hmsync_image_replacement_state=['state', 'claim_expires_at'])
    operations.create_table(
        'hmsync_image_exclusion',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('kind', sa.String(36), nullable=False),
        sa.Column('value', sa.String(255), nullable=False),
        sa.Column('name', sa.String(255), nullable=True),
        sa.Column('reason', sa.Text, nullable=False),
        sa.Column('expires_at', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.UniqueConstraint('kind', 'value',
                            name='uq_hmsync_image_exclusion_value'))
    operations.create_table(
        'hmsync_amphora_view',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('amphora_id', sa.String(36), nullable=False),
        sa.Column('seen_at', types.Timestamp, nullable=False),
        sa.Column('listeners', types.LongText, nullable=False),
        sa.Column('members', types.LongText, nullable=False))
    operations.create_indexes(
        'hmsync_amphora_view',
        ix_hmsync_amphora_view_load_balancer=['load_balancer_id', 'seen_at'],
        ix_hmsync_amphora_view_seen=['seen_at'])
    operations.create_table(
        'hmsync_cluster',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('cluster_name', sa.String(255), nullable=False),
        sa.Column('desired_size', sa.Integer, nullable=False),
        sa.Column('min_size', sa.Integer, nullable=False),
        sa.Column('cooldown', sa.Integer, nullable=False),
        sa.Column('load_balancer_id', sa.String(36), nullable=False),
        sa.Column('distributor', sa.String(64), nullable=False),
        sa.Column('provisioning_status', sa.String(16), nullable=False),
        sa.Column('operating_status', sa.String(16), nullable=False),
        sa.Column('is_failing_over', sa.Boolean, nullable=False),
        sa.Column('enabled', sa.Boolean, nullable=False),
        sa.Column('cluster_type', sa.String(36), nullable=False),
        sa.Column('affinity', sa.String(36), nullable=False),
        sa.Column('peer_group_size', sa.Integer, nullable=False),
        sa.Column('standby', sa.Integer, nullable=False),
        sa.Column('size', sa.Integer, nullable=False),
        sa.Column('resized_at', types.Timestamp, nullable=True),
        sa.Column('vip_moved_at', types.Timestamp, nullable=True),
        sa.Column('vip_hold', sa.Integer, nullable=True),
        sa.Column('member_died_at', types.Timestamp, nullable=True),
        sa.Column('build_hold', sa.Integer, nullable=True),
        sa.Column('ports', sa.Text, nullable=True),
        sa.Column('version', sa.Integer, nullable=False),
        sa.Column('claimed_by', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('updated_at', types.Timestamp, nullable=False),
        sa.UniqueConstraint('load_balancer_id',
                            name='uq_hmsync_cluster_load_balancer'))
    operations.create_indexes(
        'hmsync_cluster',
        ix_hmsync_cluster_claim=['claim_expires_at'],
        ix_hmsync_cluster_updated=['updated_at'])
    operations.create_table(
        'hmsync_cluster_member',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('cluster_id', sa.String(36), nullable=False),
        sa.Column('amphora_id', sa.String(36), nullable=True),
        sa.Column('slot', sa.Integer, nullable=True),
        sa.Column('peer_group', sa.Integer, nullable=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('health', sa.String(36), nullable=True),
        sa.Column('config_digest', sa.String(64), nullable=True),
        sa.Column('mac', sa.String(32), nullable=True),
        sa.Column('error', sa.Text, nullable=True),
        sa.Column('ordered', sa.String(36), nullable=True),
        sa.Column('zone', sa.String(255), nullable=True),
        sa.Column('host', sa.String(255), nullable=True),
        sa.Column('idle_timeout', sa.Integer, nullable=False),
        sa.Column('connections', sa.Integer, nullable=True),
        sa.Column('drained_at', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('updated_at', types.Timestamp, nullable=False),
        sa.UniqueConstraint('cluster_id', 'slot',
                            name='uq_hmsync_cluster_member_slot'),
        sa.UniqueConstraint('amphora_id',
                            name='uq_hmsync_cluster_member_amphora'))
    operations.create_indexes(
        'hmsync_cluster_member',
        ix_hmsync_cluster_member_state=['state'])
    operations.create_table(
        'hmsync_member_probe',
        sa.Column('member_id', sa.String(36), primary_key=True),
        sa.Column('distributor_id', sa.String(36), primary_key=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('changed_at', types.Timestamp, nullable=False),
        sa.Column('error', sa.Text, nullable=True))
    operations.create_indexes(
        'hmsync_member_probe',
        ix_hmsync_member_probe_distributor=['distributor_id'],
        ix_hmsync_member_probe_state=['state'])
    operations.create_table(
        'hmsync_member_load',
        sa.Column('member_id', sa.String(36), primary_key=True),
        sa.Column('heard_at', types.Timestamp, nullable=False),
        sa.Column('connections', sa.BigInteger, nullable=False),
        sa.Column('total_connections', sa.BigInteger, nullable=False),
        sa.Column('total_bytes', sa.BigInteger, nullable=False),
        sa.Column('connection_rate', sa.Float, nullable=True),
        sa.Column('byte_rate', sa.Float, nullable=True))
    operations.create_table(
        'hmsync_distributor',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('name', sa.String(255), nullable=False),
        sa.Column('url', sa.String(255), nullable=False),
        sa.Column('driver', sa.String(64), nullable=False),
        sa.Column('enabled', sa.Boolean, nullable=False),
        sa.Column('drained', sa.Boolean, nullable=False),
        sa.Column('status', sa.String(36), nullable=False),
        sa.Column('software_version', sa.String(64), nullable=True),
        sa.Column('last_seen', types.Timestamp, nullable=True),
        sa.Column('certificate_expires_at', types.Timestamp, nullable=True),
        sa.UniqueConstraint('driver', 'name',
                            name='uq_hmsync_distributor_name'))
    operations.create_table(
        'hmsync_distributor_instance',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('compute_id', sa.String(255), nullable=True),
        sa.Column('address', sa.String(64), nullable=True),
        sa.Column('booted_at', types.Timestamp, nullable=True),
        sa.Column('expires_at', types.Timestamp, nullable=True),
        sa.Column('reason', sa.Text, nullable=True),
        sa.Column('claimed_by', sa.String(320), nullable=True),
        sa.Column('claim_expires_at', types.Timestamp, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_distributor_vip',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('cluster_id', sa.String(36), nullable=False),
        sa.Column('distributor_id', sa.String(36), nullable=False),
        sa.Column('port_id', sa.String(36), nullable=True),
        sa.Column('mac', sa.String(32), nullable=True),
        sa.Column('mtu', sa.Integer, nullable=True),
        sa.Column('addresses', sa.Text, nullable=True),
        sa.Column('active', sa.Boolean, nullable=True),
        sa.Column('applied_version', sa.Integer, nullable=True),
        sa.Column('applied_active', sa.Boolean, nullable=True),
        sa.Column('applied_at', types.Timestamp, nullable=True),
        sa.Column('error', sa.Text, nullable=True),
        sa.UniqueConstraint('cluster_id', 'distributor_id',
                            name='uq_hmsync_distributor_vip_cluster'),
        sa.UniqueConstraint('cluster_id', 'active',
                            name='uq_hmsync_distributor_vip_active'))
    operations.create_indexes(
        'hmsync_distributor_vip',
        ix_hmsync_distributor_vip_distributor=['distributor_id'])
    operations.create_table(
        'hmsync_news',
        sa.Column('id', sa.Integer, primary_key=True, autoincrement=True),
        sa.Column('kind', sa.String(36), nullable=False),
        sa.Column('body', sa.Text, nullable=False),
        sa.Column('created_at', types.Timestamp, nullable=False))
    operations.create_table(
        'hmsync_order',
        sa.Column('id', sa.String(36), primary_key=True),
        sa.Column('command', sa.String(255), nullable=False),
        sa.Column('arguments', sa.Text, nullable=False),
        sa.Column('reason', sa.Text, nullable=True),
        sa.Column('os_user', sa.String(255), nullable=False),
        sa.Column('sudo_user', sa.String(255), nullable=True),
        sa.Column('host', sa.String(255), nullable=False),
        sa.Column('state', sa.String(36), nullable=False),
        sa.Column('error', sa.Text, nullable=True),
        sa.Column('created_at', types.Timestamp, nullable=False),
        sa.Column('finished_at', types.Timestamp, nullable=True))
    operations.create_indexes('hmsync_order',
                              ix_hmsync_order_created=['created_at'])
    lookup.add(op.get_bind())
