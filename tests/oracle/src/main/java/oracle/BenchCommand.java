package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.UnifiedLog;

import java.io.File;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

/** Times Kafka's cleaning alone: the input is copied and opened first, and copied afresh for every round. */
final class BenchCommand {
    private BenchCommand() {
    }

    /** What one thread did over its log, in one or more passes. */
    private record Work(long passes, long logBytes, long mapBytes, long bytesRead, long bytesWritten, long messagesRead,
                        long messagesWritten, double indexSeconds, double seconds, double cpuSeconds, long startNanos, long endNanos) {
    }

    static int run(List<String> argv) throws Exception {
        Args args = new Args(argv, Set.of("log-dir", "topic-partition", "config", "now", "threads", "rounds", "warmup",
                "dedupe-buffer", "io-buffer", "load-factor", "work", "case"));
        File source = new File(args.get("log-dir"));
        TopicPartition from = LogDir.parse(args.get("topic-partition"));
        Map<String, String> settings = new LinkedHashMap<>();
        long now = 0;
        if (new File(source, "case.json").exists()) {
            JsonNode described = Json.read(new File(source, "case.json"));
            described.path("topicConfig").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
            now = described.path("now").asLong();
        }
        settings.putAll(args.pairs("config"));
        now = args.getLong("now", now);
        int threads = args.getInt("threads", 1);
        int rounds = args.getInt("rounds", 1);
        int warmup = args.getInt("warmup", 1);
        long dedupe = args.getLong("dedupe-buffer", Cleaning.DEFAULT_DEDUPE_BUFFER);
        int io = args.getInt("io-buffer", Cleaning.DEFAULT_IO_BUFFER);
        double load = args.getDouble("load-factor", Cleaning.DEFAULT_LOAD_FACTOR);
        File work = new File(args.get("work"), "bench-" + ProcessHandle.current().pid());
        LogConfig config = LogDir.config(settings);

        try {
            for (int round = -warmup; round < rounds; round++) {
                Files2.delete(work);
                ObjectNode result = round(source, from, config, now, threads, dedupe, io, load, work);
                result.put("round", round);
                if (round >= 0) {
                    System.out.println(Json.line(result));
                }
            }
        } finally {
            Files2.delete(work);
        }
        return 0;
    }

    private static ObjectNode round(File source, TopicPartition from, LogConfig config, long now, int threads, long dedupe, int io,
                                    double load, File work) throws Exception {
        Map<TopicPartition, Long> cleaned = new HashMap<>();
        Long checkpoint = null;
        File cleanerFile = new File(source, LogDir.CLEANER_OFFSETS);
        if (cleanerFile.exists()) {
            checkpoint = new OffsetCheckpointFile(cleanerFile, null).read().get(from);
        }
        List<TopicPartition> copies = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            TopicPartition copy = new TopicPartition(from.topic(), i);
            Files2.copy(source.toPath().resolve(from.topic() + "-" + from.partition()), work.toPath().resolve(copy.topic() + "-" + i));
            Files2.flush(work.toPath().resolve(copy.topic() + "-" + i));
            copies.add(copy);
            if (checkpoint != null) {
                cleaned.put(copy, checkpoint);
            }
        }
        LogDir dir = new LogDir(work, now, true);
        List<Callable<Work>> tasks = new ArrayList<>();
        CyclicBarrier start = new CyclicBarrier(threads);
        ThreadMXBean beans = ManagementFactory.getThreadMXBean();
        for (int i = 0; i < threads; i++) {
            UnifiedLog log = dir.open(copies.get(i), config);
            Cleaner cleaner = Cleaning.cleaner(i, dedupe, io, load, threads, Time.SYSTEM);
            Optional<Long> first = Optional.ofNullable(cleaned.get(copies.get(i)));
            tasks.add(() -> {
                start.await();
                long cpu = beans.getCurrentThreadCpuTime();
                long begin = System.nanoTime();
                long passes = 0;
                long logBytes = 0;
                long[] sums = new long[5];
                double index = 0;
                Optional<Long> dirty = first;
                while (true) {
                    LogToClean toClean = Manager.view(log, dirty, now, Manager.OptionalUncleanable.NONE).toClean;
                    if (toClean.cleanableBytes() == 0) {
                        break;
                    }
                    if (passes == 0) {
                        logBytes = toClean.totalBytes();
                    }
                    Map.Entry<Long, CleanerStats> done = cleaner.doClean(toClean, now);
                    ObjectNode stats = Cleaning.stats(toClean, done);
                    sums[0] += stats.get("mapBytesRead").asLong();
                    sums[1] += stats.get("bytesRead").asLong();
                    sums[2] += stats.get("bytesWritten").asLong();
                    sums[3] += stats.get("messagesRead").asLong();
                    sums[4] += stats.get("messagesWritten").asLong();
                    index += stats.get("elapsedIndexSeconds").asDouble();
                    passes++;
                    dirty = Optional.of(done.getKey());
                }
                long end = System.nanoTime();
                return new Work(passes, logBytes, sums[0], sums[1], sums[2], sums[3], sums[4], index,
                        (end - begin) / 1e9, (beans.getCurrentThreadCpuTime() - cpu) / 1e9, begin, end);
            });
        }
        com.sun.management.OperatingSystemMXBean os =
                (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        List<Work> works = new ArrayList<>();
        long processCpu = os.getProcessCpuTime();
        try {
            for (Future<Work> future : pool.invokeAll(tasks)) {
                works.add(future.get());
            }
        } finally {
            pool.shutdown();
        }
        double processCpuSeconds = (os.getProcessCpuTime() - processCpu) / 1e9;
        long begin = works.stream().mapToLong(Work::startNanos).min().orElseThrow();
        long end = works.stream().mapToLong(Work::endNanos).max().orElseThrow();
        double wall = (end - begin) / 1e9;
        long logBytes = works.stream().mapToLong(Work::logBytes).sum();
        double threadCpu = works.stream().mapToDouble(Work::cpuSeconds).sum();
        long readBytes = works.stream().mapToLong(w -> w.mapBytes() + w.bytesRead()).sum();
        ObjectNode node = Json.object();
        node.put("logDir", source.getName());
        node.put("threads", threads);
        node.put("logBytes", logBytes);
        node.put("wallSeconds", wall);
        node.put("threadCpuSeconds", threadCpu);
        node.put("processCpuSeconds", processCpuSeconds);
        node.put("logMBPerSecond", logBytes / 1e6 / wall);
        node.put("readMBPerSecond", readBytes / 1e6 / wall);
        node.put("threadCpuSecondsPerGB", threadCpu / (logBytes / 1e9));
        node.put("processCpuSecondsPerGB", processCpuSeconds / (logBytes / 1e9));
        ArrayNode list = node.putArray("logs");
        for (Work w : works) {
            ObjectNode one = list.addObject();
            one.put("passes", w.passes());
            one.put("seconds", w.seconds());
            one.put("indexSeconds", w.indexSeconds());
            one.put("cpuSeconds", w.cpuSeconds());
            one.put("mapBytesRead", w.mapBytes());
            one.put("bytesRead", w.bytesRead());
            one.put("bytesWritten", w.bytesWritten());
            one.put("messagesRead", w.messagesRead());
            one.put("messagesWritten", w.messagesWritten());
        }
        dir.scheduler.runDelayed();
        dir.close();
        return node;
    }
}
