package oracle;

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Writes cases: {@code all} for every small one, or one by name; the names of the big logs are in {@link BigLogs}. */
final class GenerateCommand {
    private GenerateCommand() {
    }

    static int run(List<String> argv) throws Exception {
        Args args = new Args(argv, Set.of("case", "out", "seed", "scale", "batch-bytes", "partitions", "segment-bytes", "port"));
        String name = args.get("case");
        File out = new File(args.get("out"));
        long seed = args.getLong("seed", 1);
        double scale = args.getDouble("scale", 1.0);
        RetainCommand.logReasons();
        Quiet.install();
        BigLogs big = BigLogs.named(name);
        if (big != null) {
            big.write(out, seed, (long) (scale * 1_000_000_000L), args.getInt("batch-bytes", 16 * 1024), args.getInt("partitions", 1),
                    args.getInt("segment-bytes", 128 * 1024 * 1024));
            return 0;
        }
        if (name.equals("demo")) {
            DemoLogs.write(out, seed, scale);
            return 0;
        }
        if (name.equals("real-broker")) {
            BrokerCase.write(out, seed, scale, args.getInt("port", 19192));
            return 0;
        }
        if (!name.equals("all") && !Cases.ALL.containsKey(name)) {
            throw new Args.UsageException("no case " + name + "; there are all, demo, real-broker, " + String.join(", ", Cases.ALL.keySet()));
        }
        int failed = 0;
        for (Map.Entry<String, Cases.Recipe> entry : Cases.ALL.entrySet()) {
            if (name.equals("all") || name.equals(entry.getKey())) {
                try {
                    entry.getValue().write(out, seed, scale);
                } catch (Exception e) {
                    System.err.println("oracle: case " + entry.getKey());
                    e.printStackTrace();
                    failed++;
                }
            }
        }
        return failed == 0 ? 0 : 1;
    }
}
