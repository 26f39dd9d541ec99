# SPDX-License-Identifier: Apache-2.0

from sqlalchemy import exc as sa_exc

from octavia_hmsync.db import api
from tests.db_cases.cluster import cluster
from tests.db_cases.cluster import distributor
from tests.db_cases.cluster import due as cluster_due
from tests.db_cases.cluster import figures as cluster_figures
from tests.db_cases.cluster import instance as distributor_instance
from tests.db_cases.cluster import lock as cluster_lock
from tests.db_cases.cluster import manager
from tests.db_cases.cluster import member_facts as cluster_member_facts
from tests.db_cases.cluster import member_health
from tests.db_cases.cluster import member_load
from tests.db_cases.cluster import news as cluster_news
from tests.db_cases.cluster import restore as cluster_restore
from tests.db_cases.image import aftermath as image_aftermath
from tests.db_cases.image import figures as image_figures
from tests.db_cases.image import history as image_history
from tests.db_cases.image import inventory as image_inventory
from tests.db_cases.image import leak as image_leak
from tests.db_cases.image import lock as image_lock
from tests.db_cases.image import news as image_news
from tests.db_cases.image import restore as image_restore
from tests.db_cases.image import rollout as image_rollout
from tests.db_cases.network import network
from tests.db_cases.network import port
from tests.db_cases import order
from tests.db_cases.sync import admission
from tests.db_cases.sync import amphora
from tests.db_cases.sync import amphora_page
from tests.db_cases.sync import amphora_view
from tests.db_cases.sync import announced
from tests.db_cases.sync import attempt
from tests.db_cases.sync import doubt
from tests.db_cases.sync import due
from tests.db_cases.sync import health_manager
from tests.db_cases.sync import heartbeat
from tests.db_cases.sync import hold
from tests.db_cases.sync import host_hold
from tests.db_cases.sync import pause
from tests.db_cases.sync import progress
from tests.db_cases.sync import published
from tests.db_cases.sync import replaced
from tests.db_cases.sync import uncounted
from tests.db_cases.sync import zone_drain
from tests.functional.db import mariadb


class TestHealthManager(mariadb.MariaDBMixin,
                        health_manager.HealthManagerCases):

    def test_on_mariadb(self):
        """What octavia.conf has is what the cases run on."""
        self.assertEqual('mysql', self.engine.dialect.name)
        conf = self.make_conf(database={
            'connection': self.database.connection.replace(':octavia@',
                                                           ':wrong@')})
        engine = api.create_engine(conf)
        error = self.assertRaises(sa_exc.SQLAlchemyError, engine.connect)
        self.assertTrue(api.is_database_error(error))
        self.assertIn('Access denied', api.describe(error))


class TestFurtherAddresses(mariadb.MariaDBMixin,
                           health_manager.FurtherAddressCases):
    pass


class TestLeftAddresses(mariadb.MariaDBMixin, health_manager.LeftAddressCases):
    pass


class TestMissingAmphorae(mariadb.MariaDBMixin, amphora.MissingCases):
    pass


class TestClaims(mariadb.MariaDBMixin, amphora.ClaimCases):
    pass


class TestRecords(mariadb.MariaDBMixin, amphora.RecordCases):
    pass


class TestCounts(mariadb.MariaDBMixin, amphora.CountCases):
    pass


class TestAmphoraPages(mariadb.MariaDBMixin, amphora_page.AmphoraPageCases):
    pass


class TestHold(mariadb.MariaDBMixin, hold.HoldCases):
    pass


class TestGeneration(mariadb.MariaDBMixin, published.GenerationCases):
    pass


class TestTrial(mariadb.MariaDBMixin, published.TrialCases):
    pass


class TestHouseKeeper(mariadb.MariaDBMixin, published.HouseKeeperCases):
    pass


class TestTransactions(mariadb.MariaDBMixin, published.TransactionCases):
    pass


class TestPrevious(mariadb.MariaDBMixin, doubt.PreviousCases):
    pass


class TestAdopted(mariadb.MariaDBMixin, doubt.AdoptedCases):
    pass


class TestHeartbeats(mariadb.MariaDBMixin, heartbeat.HeartbeatCases):
    pass


class TestAdmission(mariadb.MariaDBMixin, admission.AdmissionCases):
    pass


class TestNetwork(mariadb.MariaDBMixin, network.NetworkCases):
    pass


class TestHostHold(mariadb.MariaDBMixin, host_hold.HostHoldCases):
    pass


class TestZoneDrain(mariadb.MariaDBMixin, zone_drain.ZoneDrainCases):
    pass


class TestPause(mariadb.MariaDBMixin, pause.PauseCases):
    pass


class TestProgress(mariadb.MariaDBMixin, progress.ProgressCases):
    pass


class TestAnnouncedHealthManagers(mariadb.MariaDBMixin,
                                  announced.HealthManagerCases):
    pass


class TestAnnouncedAdoption(mariadb.MariaDBMixin, announced.AdoptionCases):
    pass


class TestDue(mariadb.MariaDBMixin, due.DueCases):
    pass


class TestPort(mariadb.MariaDBMixin, port.PortCases):
    pass


class TestSender(mariadb.MariaDBMixin, port.SenderCases):
    pass


class TestAttempt(mariadb.MariaDBMixin, attempt.AttemptCases):
    pass


class TestImageInventory(mariadb.MariaDBMixin, image_inventory.InventoryCases):
    pass


class TestImageNeeds(mariadb.MariaDBMixin, image_inventory.NeedsCases):
    pass


class TestImageRollout(mariadb.MariaDBMixin, image_rollout.RolloutCases):
    pass


class TestImageReplacement(mariadb.MariaDBMixin,
                           image_rollout.ReplacementCases):
    pass


class TestImageAftermath(mariadb.MariaDBMixin, image_aftermath.AftermathCases):
    pass


class TestImageFigures(mariadb.MariaDBMixin, image_figures.FiguresCases):
    pass


class TestImageLock(mariadb.MariaDBMixin, image_lock.ImageLockCases):
    pass


class TestImageEvidence(mariadb.MariaDBMixin, image_lock.ImageEvidenceCases):
    pass


class TestAmphoraView(mariadb.MariaDBMixin, amphora_view.AmphoraViewCases):
    pass


class TestUncounted(mariadb.MariaDBMixin, uncounted.UncountedCases):
    pass


class TestImageNews(mariadb.MariaDBMixin, image_news.NewsCases):
    pass


class TestImageHistory(mariadb.MariaDBMixin, image_history.HistoryCases):
    pass


class TestImageExclusion(mariadb.MariaDBMixin, image_rollout.ExclusionCases):
    pass


class TestReplaced(mariadb.MariaDBMixin, replaced.ReplacedCases):
    pass


class TestImageRestore(mariadb.MariaDBMixin, image_restore.RestoreCases):
    pass


class TestImageLeaks(mariadb.MariaDBMixin, image_leak.LeakCases):
    pass


class TestCluster(mariadb.MariaDBMixin, cluster.ClusterCases):
    pass


class TestClusterClaim(mariadb.MariaDBMixin, cluster.ClusterClaimCases):
    pass


class TestClusterMember(mariadb.MariaDBMixin, cluster.ClusterMemberCases):
    pass


class TestClusterSequence(mariadb.MariaDBMixin, cluster.ClusterSequenceCases):
    # Each commit waits for a disk here.
    examples = 5


class TestDistributor(mariadb.MariaDBMixin, distributor.DistributorCases):
    pass


class TestDistributorVIP(mariadb.MariaDBMixin,
                         distributor.DistributorVIPCases):
    pass


class TestClusterFigures(mariadb.MariaDBMixin,
                         cluster_figures.ClusterFiguresCases):
    pass


class TestClusterLock(mariadb.MariaDBMixin, cluster_lock.ClusterLockCases):
    pass


class TestClusterRestore(mariadb.MariaDBMixin,
                         cluster_restore.ClusterRestoreCases):
    pass


class TestMemberLoad(mariadb.MariaDBMixin, member_load.LoadCases):
    pass


class TestClusterSizes(mariadb.MariaDBMixin, manager.SizeCases):
    pass


class TestMemberOrders(mariadb.MariaDBMixin, manager.OrderCases):
    pass


class TestDistributorInstances(
        mariadb.MariaDBMixin, distributor_instance.DistributorInstanceCases):
    pass


class TestLooks(mariadb.MariaDBMixin, cluster_member_facts.MemberFactsCases):
    pass


class TestMemberProbes(mariadb.MariaDBMixin, manager.ProbeCases):
    pass


class TestMemberSilence(mariadb.MariaDBMixin,
                        member_health.MemberSilenceCases):
    pass


class TestNoFailover(mariadb.MariaDBMixin,
                     member_health.NoFailoverCases):
    pass


class TestShownStatus(mariadb.MariaDBMixin,
                      member_health.ShownStatusCases):
    pass


class TestStatusFloor(mariadb.MariaDBMixin,
                      member_health.StatusFloorCases):
    pass


class TestClusterNews(mariadb.MariaDBMixin, cluster_news.ClusterNewsCases):
    pass


class TestClusterDue(mariadb.MariaDBMixin, cluster_due.ClusterDueCases):
    pass


class TestOrder(mariadb.MariaDBMixin, order.OrderCases):
    pass
