# SPDX-License-Identifier: Apache-2.0

"""What operators ordered."""

from octavia_hmsync.db import models
from octavia_hmsync.db import news as news_repo
from octavia_hmsync.db import order as order_repo
from octavia_hmsync.services import announcer
from tests.db_cases import base


def new(number):
    return order_repo.New(f'order{number}', 'sync pause', '--for 60', 'why',
                          'root', 'alice', 'controller1')


class OrderCases(base.DatabaseTestCase):

    def add(self, *numbers):
        """Add orders, each a second younger than the one before."""
        for number in numbers:
            order_repo.add(self.engine, new(number))
            self.make_older(models.Order, 'created_at', 10 - number,
                            id=f'order{number}')

    def ids(self, *args):
        return [o.id for o in order_repo.get_page(self.engine, *args)]

    def test_ends(self):
        self.add(1, 2, 3)
        self.assertTrue(order_repo.finish(self.engine, 'order1'))
        self.assertTrue(order_repo.finish(self.engine, 'order2', 'no'))
        self.assertFalse(order_repo.finish(self.engine, 'order2'))
        orders = order_repo.get_page(self.engine)
        self.assertEqual(
            [('GIVEN', None), ('FAILED', 'no'), ('DONE', None)],
            [(o.state, o.error) for o in orders])
        self.assertEqual(
            [False, True, True], [o.finished_at is not None for o in orders])
        self.assertEqual(
            ('sync pause', '--for 60', 'why', 'root', 'alice',
             'controller1'), (
                 orders[0].command, orders[0].arguments, orders[0].reason,
                 orders[0].os_user, orders[0].sudo_user, orders[0].host))

    def test_pages(self):
        self.add(1, 2, 3, 4)
        # Two of one time.
        with self.engine.begin() as connection:
            table = models.Order.__table__
            at = connection.execute(table.select().where(
                table.c.id == 'order3')).one().created_at
            connection.execute(table.update().where(
                table.c.id == 'order2').values(created_at=at))
        self.assertEqual(['order4', 'order3', 'order2', 'order1'], self.ids())
        self.assertEqual(['order4', 'order3'], self.ids(None, 2))
        self.assertEqual(['order2', 'order1'], self.ids('order3', 2))
        self.assertTrue(order_repo.exists(self.engine, 'order3'))
        self.assertFalse(order_repo.exists(self.engine, 'order9'))

    def test_news(self):
        self.add(1, 2)
        for error in (None, 'no'):
            order_repo.finish(self.engine, 'order1', error)
        order_repo.finish(self.engine, 'order2', 'no')
        self.assertEqual(
            [('order1', 'GIVEN', None), ('order2', 'GIVEN', None),
             ('order1', 'DONE', None), ('order2', 'FAILED', 'no')],
            [(payload.order_id, payload.state, payload.error) for payload in
             map(announcer.make_payload, news_repo.take(self.engine, 10))])

    def test_old_ones(self):
        self.add(1, 2)
        self.make_older(models.Order, 'created_at', 1000, id='order1')
        self.assertEqual(1, order_repo.delete_old(self.engine, 900))
        self.assertEqual(['order2'], self.ids())
