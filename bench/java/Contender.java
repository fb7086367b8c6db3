import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.retry.RetryOneTime;

/**
 * A contender by Curator, told what to do on its standard input, line by line (see ../worker.py).
 *
 * <p>{@code System.nanoTime()} is CLOCK_MONOTONIC on Linux.
 */
public final class Contender {
    public static void main(String[] args) throws Exception {
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], 10_000, 10_000, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            Taking lock = null;
            System.out.println("\"hello\"");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                switch (words[0]) {
                    case "use":
                        lock = lockOf(client, "/bench/" + words[1], words[2]);
                        System.out.println("\"ready\"");
                        break;
                    case "cycles":
                        System.out.println(cycles(lock, Integer.parseInt(words[1]), Long.parseLong(words[2])));
                        break;
                    default:
                        long start = Long.parseLong(words[1]);
                        long end = Long.parseLong(words[2]);
                        System.out.println(contend(lock, start, end, Long.parseLong(words[3])));
                }
            }
        }
    }

    private static Taking lockOf(CuratorFramework client, String path, String side) {
        switch (side) {
            case "reader":
                return taking(new InterProcessReadWriteLock(client, path).readLock());
            case "writer":
                return taking(new InterProcessReadWriteLock(client, path).writeLock());
            case "counter":
                return new Adding(new DistributedAtomicLong(client, path, new RetryNTimes(100_000, 0)));
            default:
                return taking(new InterProcessMutex(client, path));
        }
    }

    private static Taking taking(InterProcessMutex lock) {
        return new Taking() {
            @Override
            public void acquire() throws Exception {
                lock.acquire();
            }

            @Override
            public void release() throws Exception {
                lock.release();
            }
        };
    }

    /** What is taken and given back. */
    private interface Taking {
        void acquire() throws Exception;

        void release() throws Exception;
    }

    /** A counter: one is added, and there is nothing to give back. */
    private static final class Adding implements Taking {
        private final DistributedAtomicLong counter;

        Adding(DistributedAtomicLong counter) {
            this.counter = counter;
        }

        @Override
        public void acquire() throws Exception {
            if (!counter.increment().succeeded()) {
                throw new IllegalStateException("it should be added");
            }
        }

        @Override
        public void release() {}
    }

    private static String cycles(Taking lock, int count, long pause) throws Exception {
        StringBuilder said = new StringBuilder();
        for (int done = 0; done < count; done++) {
            if (pause > 0) {
                TimeUnit.NANOSECONDS.sleep(pause);
            }
            long began = System.nanoTime();
            lock.acquire();
            lock.release();
            said.append(done > 0 ? "," : "").append(System.nanoTime() - began);
        }
        return "[" + said + "]";
    }

    private static String contend(Taking lock, long start, long end, long hold) throws Exception {
        StringBuilder said = new StringBuilder();
        TimeUnit.NANOSECONDS.sleep(start - System.nanoTime());
        while (System.nanoTime() < end) {
            lock.acquire();
            long got = System.nanoTime();
            if (hold > 0) {
                TimeUnit.NANOSECONDS.sleep(hold);
            }
            said.append(said.length() > 0 ? "," : "").append("[" + got + "," + System.nanoTime() + "]");
            lock.release();
        }
        return "[" + said + "]";
    }
}
