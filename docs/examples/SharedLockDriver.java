import java.util.List;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.PredicateResults;
import org.apache.curator.framework.recipes.locks.StandardLockInternalsDriver;
import org.apache.zookeeper.KeeperException;

/**
 * Makes an InterProcessMutex a reader beside ours: new InterProcessMutex(client, path, new SharedLockDriver()).
 *
 * <p>Its node is named as our readers' nodes are, and it waits for the nearest node ahead that is none of those.
 */
public final class SharedLockDriver extends StandardLockInternalsDriver {
    @Override
    public String createsTheLock(CuratorFramework client, String path, byte[] data) throws Exception {
        return super.createsTheLock(client, path.replaceFirst("lock-$", "R-lock-"), data);
    }

    @Override
    public PredicateResults getsTheLock(CuratorFramework client, List<String> queue, String own, int most)
            throws Exception {
        int mine = queue.indexOf(own);
        if (mine < 0) {
            throw new KeeperException.NoNodeException(own); // the session was lost: queue again, do not hold
        }
        for (int ahead = mine - 1; ahead >= 0; ahead--) {
            if (!queue.get(ahead).contains("-R-lock-")) {
                return new PredicateResults(queue.get(ahead), false);
            }
        }
        return new PredicateResults(null, true);
    }
}
