# SPDX-License-Identifier: Apache-2.0

"""A simulated fleet: one process that plays thousands of amphorae.

Real agents take 110 MB each; a benchmark of a whole fleet needs amphorae that
cost next to nothing. To the controllers, one of these is an amphora: it has
an address and a certificate of its own, takes an agent configuration as the
agent does, and sends heartbeats as the agent does. What the two have in
common is checked by tests/functional/test_fleet.py, which runs the same cases
against both.

::

    python -m tests.fleet --config FILE

client.Fleet is the fixture that writes the file, starts the process and talks
to it. The file is a JSON object:

port
    of all agents, by default 9443.
amphorae
    list of objects with ``id``, ``lb_network_ip``, ``listener_id`` (null: no
    listener), ``controller_ip_port_list`` (what it boots with; a list).
    Other keys are ignored.
heartbeat_key, heartbeat_interval
    what they boot with. With an interval of 0 nobody ever sends a heartbeat,
    and so nobody ever adopts a list.
server_ca, server_ca_key, client_ca
    paths of PEM files: the authority that issues the certificates of the
    agents, and the one that issued those of the controllers.
control_socket
    path of the UNIX socket to make; once it is there, the fleet serves.
prepare
    true (default): make all certificates before serving. false: make each
    when the first connection comes.
ailments
    {amphora id: ailment}; those of tests.cloud.ailing, and amphora.OLD_IMAGE
    and amphora.MUTE.
delay
    seconds that a SLOW amphora takes, by default 5.

The control socket takes one JSON object per line and answers each with one.
All times are those of time.time().

{"op": "state"}
    ``amphorae``: how many there are; ``time``: now;
    ``connections``: accepted; ``in_flight``, ``max_in_flight``: of those,
    now and at most at once;
    ``uploads``: configurations that came whole, whatever the answer;
    ``first_upload``, ``last_upload``: when they came, or null;
    ``aborted``: connections that ended within a request, and not those of
    somebody who only looked whether there is an answer (a request that ends
    in mid-body is an upload to the agent all the same, and so can be
    adopted);
    ``answers``: {status code as a string: how many};
    ``adopted``: how many amphorae have sent a heartbeat to the list of the
    last configuration that they took; ``last_adoption``: time of the last
    one, or null; ``heartbeats``: sent;
    ``cpu_seconds``: of this process since its start.
{"op": "amphorae"}
    {amphora id: [uploads, time of the last or null, list in use, adopted_at
    or null, aborted]}
{"op": "set", "ids": [...], "ailment": name or null}
    answers {}; connections under way go on as they began. One that was
    OLD_IMAGE then reads the configuration that it has taken.
{"op": "reset"}
    answers {}; sets what "state" and "amphorae" count to zero, and their
    times to null.

A request that cannot be served is answered with {"error": text}.
"""
