import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.AtomicValue;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;

/**
 * Adds by Curator's counter, told what to do on its standard input, line by line (see ../worker.py).
 *
 * <p>Run as {@code Adder ADDRESS NAME SECONDS}.
 */
public final class Adder {
    private static final AtomicInteger IDS = new AtomicInteger();

    private final CuratorFramework client;
    private final String path;

    private Adder(CuratorFramework client, String path) {
        this.client = client;
        this.path = path;
    }

    public static void main(String[] args) throws Exception {
        int session = (int) (1_000 * Double.parseDouble(args[2]));
        try (CuratorFramework client =
                CuratorFrameworkFactory.newClient(
                        args[0], session, 10_000, new ExponentialBackoffRetry(20, 20, 500))) {
            client.start();
            client.blockUntilConnected();
            Adder adder = new Adder(client, "/" + args[1]);
            say("hello");
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                String[] words = line.split(" ");
                if (words[0].equals("get")) {
                    say("found " + adder.counter().get().postValue());
                } else {
                    adder.spread(Integer.parseInt(words[1]), Integer.parseInt(words[2]));
                    say("over");
                }
            }
        }
    }

    private DistributedAtomicLong counter() {
        return new DistributedAtomicLong(client, path, new RetryNTimes(1_000, 2));
    }

    private void spread(int count, int lanes) throws InterruptedException {
        List<Thread> threads = new ArrayList<>();
        for (int lane = 0; lane < lanes; lane++) {
            int share = count / lanes + (lane < count % lanes ? 1 : 0);
            threads.add(new Thread(() -> lane(share)));
        }
        for (Thread thread : threads) {
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private void lane(int count) {
        DistributedAtomicLong counter = counter();
        for (int done = 0; done < count; done++) {
            int id = IDS.getAndIncrement();
            say("asked " + id);
            try {
                AtomicValue<Long> result = counter.increment();
                say(result.succeeded() ? "done " + id + " " + result.postValue() : "unknown " + id + " failed");
            } catch (Exception error) {
                say("unknown " + id + " " + error);
            }
        }
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
