# SPDX-License-Identifier: Apache-2.0

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
from tests.unit.db import sqlite


class TestHealthManager(sqlite.SqliteMixin, health_manager.HealthManagerCases):
    pass


class TestFurtherAddresses(sqlite.SqliteMixin,
                           health_manager.FurtherAddressCases):
    pass


class TestLeftAddresses(sqlite.SqliteMixin, health_manager.LeftAddressCases):
    pass


class TestMissingAmphorae(sqlite.SqliteMixin, amphora.MissingCases):
    pass


class TestClaims(sqlite.SqliteMixin, amphora.ClaimCases):
    pass


class TestRecords(sqlite.SqliteMixin, amphora.RecordCases):
    pass


class TestCounts(sqlite.SqliteMixin, amphora.CountCases):
    pass


class TestAmphoraPages(sqlite.SqliteMixin, amphora_page.AmphoraPageCases):
    pass


class TestHold(sqlite.SqliteMixin, hold.HoldCases):
    pass


class TestGeneration(sqlite.SqliteMixin, published.GenerationCases):
    pass


class TestTrial(sqlite.SqliteMixin, published.TrialCases):
    pass


class TestHouseKeeper(sqlite.SqliteMixin, published.HouseKeeperCases):
    pass


class TestTransactions(sqlite.SqliteMixin, published.TransactionCases):
    pass


class TestPrevious(sqlite.SqliteMixin, doubt.PreviousCases):
    pass


class TestAdopted(sqlite.SqliteMixin, doubt.AdoptedCases):
    pass


class TestHeartbeats(sqlite.SqliteMixin, heartbeat.HeartbeatCases):
    pass


class TestAdmission(sqlite.SqliteMixin, admission.AdmissionCases):
    pass


class TestNetwork(sqlite.SqliteMixin, network.NetworkCases):
    pass


class TestHostHold(sqlite.SqliteMixin, host_hold.HostHoldCases):
    pass


class TestZoneDrain(sqlite.SqliteMixin, zone_drain.ZoneDrainCases):
    pass


class TestPause(sqlite.SqliteMixin, pause.PauseCases):
    pass


class TestProgress(sqlite.SqliteMixin, progress.ProgressCases):
    pass


class TestAnnouncedHealthManagers(sqlite.SqliteMixin,
                                  announced.HealthManagerCases):
    pass


class TestAnnouncedAdoption(sqlite.SqliteMixin, announced.AdoptionCases):
    pass


class TestDue(sqlite.SqliteMixin, due.DueCases):
    pass


class TestPort(sqlite.SqliteMixin, port.PortCases):
    pass


class TestSender(sqlite.SqliteMixin, port.SenderCases):
    pass


class TestAttempt(sqlite.SqliteMixin, attempt.AttemptCases):
    pass


class TestImageInventory(sqlite.SqliteMixin, image_inventory.InventoryCases):
    pass


class TestImageNeeds(sqlite.SqliteMixin, image_inventory.NeedsCases):
    pass


class TestImageRollout(sqlite.SqliteMixin, image_rollout.RolloutCases):
    pass


class TestImageReplacement(sqlite.SqliteMixin, image_rollout.ReplacementCases):
    pass


class TestImageAftermath(sqlite.SqliteMixin, image_aftermath.AftermathCases):
    pass


class TestImageFigures(sqlite.SqliteMixin, image_figures.FiguresCases):
    pass


class TestImageLock(sqlite.SqliteMixin, image_lock.ImageLockCases):
    pass


class TestImageEvidence(sqlite.SqliteMixin, image_lock.ImageEvidenceCases):
    pass


class TestAmphoraView(sqlite.SqliteMixin, amphora_view.AmphoraViewCases):
    pass


class TestUncounted(sqlite.SqliteMixin, uncounted.UncountedCases):
    pass


class TestImageNews(sqlite.SqliteMixin, image_news.NewsCases):
    pass


class TestImageHistory(sqlite.SqliteMixin, image_history.HistoryCases):
    pass


class TestImageExclusion(sqlite.SqliteMixin, image_rollout.ExclusionCases):
    pass


class TestReplaced(sqlite.SqliteMixin, replaced.ReplacedCases):
    pass


class TestImageRestore(sqlite.SqliteMixin, image_restore.RestoreCases):
    pass


class TestImageLeaks(sqlite.SqliteMixin, image_leak.LeakCases):
    pass


class TestCluster(sqlite.SqliteMixin, cluster.ClusterCases):
    pass


class TestClusterClaim(sqlite.SqliteMixin, cluster.ClusterClaimCases):
    pass


class TestClusterMember(sqlite.SqliteMixin, cluster.ClusterMemberCases):
    pass


class TestClusterSequence(sqlite.SqliteMixin, cluster.ClusterSequenceCases):
    pass


class TestDistributor(sqlite.SqliteMixin, distributor.DistributorCases):
    pass


class TestDistributorVIP(sqlite.SqliteMixin, distributor.DistributorVIPCases):
    pass


class TestClusterFigures(sqlite.SqliteMixin,
                         cluster_figures.ClusterFiguresCases):
    pass


class TestClusterLock(sqlite.SqliteMixin, cluster_lock.ClusterLockCases):
    pass


class TestClusterRestore(sqlite.SqliteMixin,
                         cluster_restore.ClusterRestoreCases):
    pass


class TestMemberLoad(sqlite.SqliteMixin, member_load.LoadCases):
    pass


class TestClusterSizes(sqlite.SqliteMixin, manager.SizeCases):
    pass


class TestMemberOrders(sqlite.SqliteMixin, manager.OrderCases):
    pass


class TestDistributorInstances(
        sqlite.SqliteMixin, distributor_instance.DistributorInstanceCases):
    pass


class TestLooks(sqlite.SqliteMixin, cluster_member_facts.MemberFactsCases):
    pass


class TestMemberProbes(sqlite.SqliteMixin, manager.ProbeCases):
    pass


class TestMemberSilence(sqlite.SqliteMixin,
                        member_health.MemberSilenceCases):
    pass


class TestNoFailover(sqlite.SqliteMixin,
                     member_health.NoFailoverCases):
    pass


class TestShownStatus(sqlite.SqliteMixin,
                      member_health.ShownStatusCases):
    pass


class TestStatusFloor(sqlite.SqliteMixin,
                      member_health.StatusFloorCases):
    pass


class TestClusterNews(sqlite.SqliteMixin, cluster_news.ClusterNewsCases):
    pass


class TestClusterDue(sqlite.SqliteMixin, cluster_due.ClusterDueCases):
    pass


class TestOrder(sqlite.SqliteMixin, order.OrderCases):
    pass
