import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import org.apache.zookeeper.server.DataNode;
import org.apache.zookeeper.server.ServerCnxn;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ServerConfig;
import org.apache.zookeeper.server.ZooKeeperServer;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;

/**
 * A ZooKeeper server in this process, and a port on loopback where it is told what no client can ask.
 *
 * <p>Run with the configuration file and the control port. Each line gets one in answer: {@code ok}, or
 * what went wrong.
 */
public final class Embedded {
    private static ZooKeeperServer server;

    public static void main(String[] arguments) throws Exception {
        ServerConfig config = new ServerConfig();
        config.parse(arguments[0]);
        FileTxnSnapLog log = new FileTxnSnapLog(config.getDataLogDir(), config.getDataDir());
        server =
                new ZooKeeperServer(
                        log,
                        config.getTickTime(),
                        config.getMinSessionTimeout(),
                        config.getMaxSessionTimeout(),
                        config.getClientPortListenBacklog(),
                        null,
                        "");
        ServerSocket control =
                new ServerSocket(Integer.parseInt(arguments[1]), 10, InetAddress.getLoopbackAddress());
        ServerCnxnFactory factory = ServerCnxnFactory.createFactory();
        factory.configure(
                config.getClientPortAddress(), config.getMaxClientCnxns(), config.getClientPortListenBacklog(), false);
        factory.startup(server);
        while (true) {
            try (Socket caller = control.accept()) {
                serve(caller);
            }
        }
    }

    private static void serve(Socket caller) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(caller.getInputStream()));
        PrintWriter answers = new PrintWriter(caller.getOutputStream(), true);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String answer = "ok";
            try {
                carryOut(line.split(" "));
            } catch (Exception error) {
                answer = error.toString();
            }
            answers.println(answer);
        }
    }

    private static void carryOut(String[] words) throws Exception {
        switch (words[0]) {
            case "expire": // a session, as when its time is up
                server.closeSession(session(words[1]));
                break;
            case "move": // a session to another owner: requests of its connection are refused, and it is cut
                server.setOwner(session(words[1]), new Object());
                break;
            case "return": // a session to this server
                server.setOwner(session(words[1]), ServerCnxn.me);
                break;
            case "cversion": // of a node: the number of its next sequential child
                DataNode node = server.getZKDatabase().getDataTree().getNode(words[1]);
                synchronized (node) {
                    node.stat.setCversion(Integer.parseInt(words[2]));
                }
                break;
            default:
                throw new IllegalArgumentException("not a command: " + words[0]);
        }
    }

    private static long session(String hexadecimal) {
        return Long.parseUnsignedLong(hexadecimal, 16);
    }
}
