import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** What is acquired and released, of whatever kind. */
interface Contender {
    void acquire() throws Exception;

    /** Acquires if that needs no waiting; one that cannot look without queueing queues for so long. */
    boolean acquire(long patienceMs) throws Exception;

    void release() throws Exception;

    /** One of Curator's locks. */
    final class Mutex implements Contender {
        private final InterProcessMutex lock;

        Mutex(InterProcessMutex lock) {
            this.lock = lock;
        }

        @Override
        public void acquire() throws Exception {
            lock.acquire();
        }

        @Override
        public boolean acquire(long patienceMs) throws Exception {
            return lock.acquire(0, TimeUnit.SECONDS);
        }

        @Override
        public void release() throws Exception {
            lock.release();
        }
    }
}
