import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.leader.Participant;

/** A candidate by Curator: it holds while it leads, and is asked whom it takes for the leader. */
interface Candidate extends Contender {
    /** Whom Curator takes for the leader: its id, or nothing. */
    String leader() throws Exception;

    /** A LeaderSelector for each campaign; the thread that it calls leads until it is released. */
    final class Selector implements Candidate {
        private final CuratorFramework client;
        private final String path;
        private final String id;
        private ExecutorService thread;
        private LeaderSelector selector;
        private CountDownLatch leads;
        private CountDownLatch resigned;

        Selector(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        @Override
        public void acquire() throws Exception {
            campaign();
            leads.await();
        }

        @Override
        public boolean acquire(long patienceMs) throws Exception {
            campaign();
            if (leads.await(patienceMs, TimeUnit.MILLISECONDS)) {
                return true;
            }
            selector.close(); // interrupts the campaign
            end();
            return false;
        }

        @Override
        public void release() throws Exception {
            resigned.countDown();
            end();
            selector.close();
        }

        @Override
        public String leader() throws Exception {
            return new LeaderSelector(client, path, listener()).getLeader().getId();
        }

        private void campaign() {
            leads = new CountDownLatch(1);
            resigned = new CountDownLatch(1);
            thread = Executors.newSingleThreadExecutor();
            selector = new LeaderSelector(client, path, thread, listener());
            selector.setId(id);
            selector.start();
        }

        private LeaderSelectorListenerAdapter listener() {
            return new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework client) throws Exception {
                    leads.countDown();
                    resigned.await();
                }
            };
        }

        private void end() throws Exception {
            thread.shutdown();
            if (!thread.awaitTermination(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the campaign should have ended");
            }
        }
    }

    /** A LeaderLatch for each campaign. */
    final class Latch implements Candidate {
        private final CuratorFramework client;
        private final String path;
        private final String id;
        private LeaderLatch latch;

        Latch(CuratorFramework client, String path, String id) {
            this.client = client;
            this.path = path;
            this.id = id;
        }

        @Override
        public void acquire() throws Exception {
            campaign();
            latch.await();
        }

        @Override
        public boolean acquire(long patienceMs) throws Exception {
            campaign();
            if (latch.await(patienceMs, TimeUnit.MILLISECONDS)) {
                return true;
            }
            latch.close();
            return false;
        }

        @Override
        public void release() throws Exception {
            latch.close();
        }

        @Override
        public String leader() throws Exception {
            Participant leader = new LeaderLatch(client, path, id).getLeader();
            return leader.getId();
        }

        private void campaign() throws Exception {
            latch = new LeaderLatch(client, path, id);
            latch.start();
        }
    }
}
