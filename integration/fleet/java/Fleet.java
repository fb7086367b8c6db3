import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.retry.RetryOneTime;

/**
 * A contender by Curator, told what to do on its standard input, line by line (see ../peers.py).
 *
 * <p>Run as {@code Fleet ADDRESS [SECONDS]}; all locks that are used share one session, of so many seconds.
 */
public final class Fleet {
    private static final long PATIENCE_MS = 3_000; // one that does not wait may be on a machine that stands still
    private static final long UNOPPOSED_MS = 30_000;

    private final CuratorFramework client;
    private Contender lock;
    private String path;

    private Fleet(CuratorFramework client) {
        this.client = client;
    }

    public static void main(String[] args) throws Exception {
        int session = args.length > 1 ? 1_000 * Integer.parseInt(args[1]) : 40_000; // a selector that was cut off gives up
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(args[0], session, 10_000, new RetryOneTime(100))) {
            client.start();
            client.blockUntilConnected();
            Fleet fleet = new Fleet(client);
            System.out.println("hello");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                System.out.println(fleet.answer(line.split(" ")));
            }
        }
    }

    private String answer(String[] words) {
        try {
            return carryOut(words);
        } catch (Exception error) {
            return "error " + error;
        }
    }

    private String carryOut(String[] words) throws Exception {
        switch (words[0]) {
            case "use":
                path = words[2];
                lock = words.length > 3 ? candidateOf(words[1], words[3]) : lockOf(words[1]);
                return "ready";
            case "acquire":
                lock.acquire();
                return held();
            case "try":
                return lock.acquire(opposed() ? PATIENCE_MS : UNOPPOSED_MS) ? held() : "busy";
            case "release":
                lock.release();
                return "released";
            case "count":
                return count(Path.of(words[1]), Integer.parseInt(words[2]));
            case "leader":
                String leader = ((Candidate) lock).leader();
                return leader.isEmpty() ? "nobody" : "leader " + leader;
            default:
                throw new IllegalArgumentException("no command: " + words[0]);
        }
    }

    private Contender lockOf(String kind) {
        switch (kind) {
            case "mutex":
                return new Contender.Mutex(new InterProcessMutex(client, path));
            case "read":
                return new Contender.Mutex(new InterProcessReadWriteLock(client, path).readLock());
            case "write":
                return new Contender.Mutex(new InterProcessReadWriteLock(client, path).writeLock());
            case "shared":
                return new Contender.Mutex(new InterProcessMutex(client, path, new SharedLockDriver()));
            default:
                throw new IllegalArgumentException("no kind of lock: " + kind);
        }
    }

    private Candidate candidateOf(String kind, String value) {
        switch (kind) {
            case "selector":
                return new Candidate.Selector(client, path, value);
            case "latch":
                return new Candidate.Latch(client, path, value);
            default:
                throw new IllegalArgumentException("no kind of candidate: " + kind);
        }
    }

    private boolean opposed() throws Exception {
        var stat = client.checkExists().forPath(path);
        return stat != null && stat.getNumChildren() > 0;
    }

    /** The fencing token: the transaction that created the one node of this session. */
    private String held() throws Exception {
        long session = client.getZookeeperClient().getZooKeeper().getSessionId();
        for (String child : client.getChildren().forPath(path)) {
            var stat = client.checkExists().forPath(path + "/" + child);
            if (stat != null && stat.getEphemeralOwner() == session) {
                return "held " + stat.getCzxid();
            }
        }
        throw new IllegalStateException("no node of this session below " + path);
    }

    /** Adds one to the number in a file, times over; only the lock protects it. */
    private String count(Path file, int times) throws Exception {
        for (int done = 0; done < times; done++) {
            lock.acquire();
            int number = Integer.parseInt(Files.readString(file));
            Thread.sleep(1); // wide enough for another to fall in between
            Files.writeString(file, Integer.toString(number + 1));
            lock.release();
        }
        return "counted";
    }
}
