package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;

/**
 * Opens states of a log directory with Kafka's loader and says what it sees in each; the judging is the caller's.
 *
 * <p>Each argument is a directory: {@code job.json} names a case and the states, each a log directory beside it. One
 * JSON line comes out for each state and mode; of a state with a deleted log only whether that opens.
 */
public final class LogStates {
    private LogStates() {
    }

    public static void main(String[] argv) throws Exception {
        for (String directory : argv) {
            look(new File(directory));
        }
        System.out.flush();
        System.exit(0);
    }

    private static void look(File directory) throws Exception {
        JsonNode job = Json.read(new File(directory, "job.json"));
        File root = new File(job.get("case").asText());
        JsonNode described = Json.read(new File(root, "case.json"));
        String name = described.get("topic").asText() + "-" + described.get("partition").asInt();
        long base = first(new File(root, "before/" + name));
        List<Long> bases = List.of(base);
        SwapCheck check = new SwapCheck(root, described, described, base, bases, bases, bases);
        Path work = directory.toPath().resolve("work");
        for (JsonNode state : job.get("states")) {
            File found = new File(directory, state.asText());
            for (SwapCheck.Mode mode : SwapCheck.Mode.values()) {
                ObjectNode line = Json.object();
                line.put("job", directory.getName());
                line.put("state", state.asText());
                line.put("mode", mode.name());
                if (new File(found, name).isDirectory()) {
                    see(check, work, found, name, mode, line);
                } else {
                    openDeleted(check, work, found, mode, line);
                }
                System.out.println(Json.line(line));
            }
        }
        Files2.delete(work.toFile());
    }

    private static void see(SwapCheck check, Path work, File state, String name, SwapCheck.Mode mode, ObjectNode line)
            throws Exception {
        check.rootFiles.clear();
        check.rootFiles.putAll(SwapCheck.files(state));
        SwapCheck.View view = check.load(work, SwapCheck.files(new File(state, name)), mode, false);
        if (!view.segs.isEmpty() && view.start > view.segs.get(0)) {
            view.problems.remove("READ-SEQ"); // it counts what lies below the start in the first segment
        }
        ArrayNode problems = line.putArray("problems");
        view.problems.forEach(problems::add);
        line.put("exception", view.exc);
        line.put("start", view.start);
        line.put("end", view.leo);
        ObjectNode records = line.putObject("records");
        view.all.tailMap(view.start).forEach((offset, record) -> records.put(offset.toString(), record.hash()));
        ArrayNode committed = line.putArray("committed");
        view.rc.tailMap(view.start).keySet().forEach(committed::add);
        line.put("producers", view.producers);
        Path epochs = work.resolve(name).resolve("leader-epoch-checkpoint");
        line.put("epochs", Files.exists(epochs) ? Files.readString(epochs) : "");
    }

    private static void openDeleted(SwapCheck check, Path work, File state, SwapCheck.Mode mode, ObjectNode line)
            throws Exception {
        Files2.delete(work.toFile());
        Files2.copy(state.toPath(), work);
        line.put("deleted", true);
        File[] left = work.toFile().listFiles(file -> file.getName().endsWith("-delete"));
        LogDir dir = new LogDir(work.toFile(), check.now, mode == SwapCheck.Mode.CLEAN);
        try {
            for (File one : left) {
                UnifiedLog.create(one, check.config, 0, 0, dir.scheduler, new BrokerTopicStats(), dir.time, 900_000,
                        new ProducerStateManagerConfig(check.exp, false), 600_000, dir.failures, dir.cleanShutdown,
                        Optional.empty()).closeHandlers();
            }
        } catch (Throwable t) {
            line.put("exception", t.toString());
        }
        line.put("directories", left.length);
    }

    private static long first(File directory) {
        return Arrays.stream(directory.list()).filter(file -> file.endsWith(".log"))
                .mapToLong(file -> Long.parseLong(file.substring(0, 20))).min().getAsLong();
    }
}
