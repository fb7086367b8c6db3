import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public final class BesideCurator {
    public static void main(String[] args) throws Exception {
        var retry = new ExponentialBackoffRetry(100, 3);
        try (var client = CuratorFrameworkFactory.newClient("127.0.0.1:2181", retry)) {
            client.start();

            var lock = new InterProcessMutex(client, "/app/reports%2Fnightly");
            lock.acquire();
            try {
                String own = lock.getParticipantNodes().iterator().next(); // the holder
                long token = client.checkExists().forPath(own).getCzxid();
                System.out.println("held by Curator under token " + token);
            } finally {
                lock.release();
            }
        }
    }
}
