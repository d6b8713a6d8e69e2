import java.util.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.common.config.ConfigResource;

/**
 * Makes topics of one partition with two replicas, the first on broker 1, or changes their configs.
 *
 * <p>Arguments: host:port, create or alter, then TOPIC or TOPIC:NAME=VALUE[,NAME=VALUE] each. For
 * clients from 0.11 on.
 */
public final class Topics {
    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        try (AdminClient admin = AdminClient.create(p)) {
            while (admin.describeCluster().nodes().get().size() < 2) {
                Thread.sleep(200);
            }
            List<NewTopic> topics = new ArrayList<>();
            Map<ConfigResource, Config> altered = new HashMap<>();
            for (String arg : Arrays.asList(args).subList(2, args.length)) {
                String[] named = arg.split(":", 2);
                Map<String, String> configs = new HashMap<>();
                List<ConfigEntry> entries = new ArrayList<>();
                for (String pair : named.length > 1 ? named[1].split(",") : new String[0]) {
                    String[] parts = pair.split("=", 2);
                    configs.put(parts[0], parts[1]);
                    entries.add(new ConfigEntry(parts[0], parts[1]));
                }
                Map<Integer, List<Integer>> replicas = Collections.singletonMap(0, Arrays.asList(1, 2));
                topics.add(new NewTopic(named[0], replicas).configs(configs));
                altered.put(new ConfigResource(ConfigResource.Type.TOPIC, named[0]), new Config(entries));
            }
            if (args[1].equals("create")) {
                admin.createTopics(topics).all().get();
            } else {
                admin.alterConfigs(altered).all().get();
            }
        }
    }
}
