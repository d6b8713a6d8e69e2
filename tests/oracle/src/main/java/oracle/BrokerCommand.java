package oracle;

import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

import java.io.File;
import java.util.List;
import java.util.Set;

/** Runs a broker until a file appears or the time is up, then stops it cleanly. */
final class BrokerCommand {
    private BrokerCommand() {
    }

    static int run(List<String> argv) throws Exception {
        Args args = new Args(argv, Set.of("dir", "port", "server-config", "seconds", "until-file", "create", "partitions"));
        long seconds = args.getLong("seconds", 600);
        File until = args.has("until-file") ? new File(args.get("until-file")) : null;
        try (Broker broker = new Broker(new File(args.get("dir")), args.getInt("port", 19092), args.pairs("server-config"))) {
            Runtime.getRuntime().addShutdownHook(new Thread(broker::stop));
            broker.start();
            if (args.has("create")) {
                int partitions = args.getInt("partitions", 1);
                try (Admin admin = broker.admin()) {
                    admin.createTopics(args.all("create").stream().map(name -> new NewTopic(name, partitions, (short) 1)).toList()).all().get();
                }
                for (String name : args.all("create")) {
                    for (int partition = 0; partition < partitions; partition++) {
                        while (!new File(broker.logs, name + "-" + partition + "/partition.metadata").exists()) {
                            Thread.sleep(50);
                        }
                    }
                }
                Thread.sleep(500);
            }
            ObjectNode node = Json.object();
            node.put("bootstrap", broker.bootstrap());
            node.put("logDir", broker.logs.getPath());
            System.out.println(Json.line(node));
            System.out.flush();
            long end = System.nanoTime() + seconds * 1_000_000_000L;
            while (System.nanoTime() < end && (until == null || !until.exists())) {
                Thread.sleep(200);
            }
        }
        return 0;
    }
}
