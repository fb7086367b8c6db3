import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
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
            InterProcessMutex lock = null;
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

    private static InterProcessMutex lockOf(CuratorFramework client, String path, String side) {
        switch (side) {
            case "reader":
                return new InterProcessReadWriteLock(client, path).readLock();
            case "writer":
                return new InterProcessReadWriteLock(client, path).writeLock();
            default:
                return new InterProcessMutex(client, path);
        }
    }

    private static String cycles(InterProcessMutex lock, int count, long pause) throws Exception {
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

    private static String contend(InterProcessMutex lock, long start, long end, long hold) throws Exception {
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
