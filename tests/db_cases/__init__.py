# SPDX-License-Identifier: Apache-2.0

"""Test cases for the database, to be run on each kind of it.

A test class combines the cases of one module with the mixin that opens a
database: tests.unit.db.sqlite, or tests.functional.db.mariadb.
"""
