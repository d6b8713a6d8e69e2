package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.TreeSet;

/**
 * Opens states of a partition directory with Kafka's loader and judges them as SwapCheck does.
 *
 * <p>Each argument is a directory: {@code job.json} names a case, the base of the group and, for each state, a
 * directory beside it with the partition's plain files. One JSON line comes out for each state and mode.
 */
public final class StepStates {
    private StepStates() {
    }

    public static void main(String[] argv) throws Exception {
        for (String directory : argv) {
            judge(new File(directory));
        }
        System.out.flush();
        System.exit(0);
    }

    private static void judge(File directory) throws Exception {
        JsonNode job = Json.read(new File(directory, "job.json"));
        SwapCheck check = check(new File(job.get("case").asText()), job.get("base").asLong());
        Path work = directory.toPath().resolve("work");
        String[] last = check.start();
        for (int i = 0; i < check.inodes.size(); i++) {
            SwapCheck.Inode file = check.inodes.get(i);
            if (file.isNew) {
                last[i] = SwapCheck.nm(file.base, file.suf);
            } else if (file.suf != null && check.group.contains(file.base)) {
                last[i] = null;
            }
        }
        for (SwapCheck.Mode mode : SwapCheck.Mode.values()) {
            check.refOld.put(mode, check.load(work, check.content(check.start()), mode, false));
            check.refNew.put(mode, check.load(work, check.content(last), mode, false));
        }
        for (JsonNode state : job.get("states")) {
            for (SwapCheck.Mode mode : SwapCheck.Mode.values()) {
                SwapCheck.View seen = check.load(work, SwapCheck.files(new File(directory, state.asText())), mode, false);
                TreeSet<String> problems = check.judge(seen, mode);
                ObjectNode line = Json.object();
                line.put("job", directory.getName());
                line.put("state", state.asText());
                line.put("mode", mode.name());
                ArrayNode list = line.putArray("problems");
                problems.forEach(list::add);
                line.put("exception", seen.exc);
                line.put("old", check.refOld.get(mode).all.keySet().equals(seen.all.keySet()));
                line.put("new", check.refNew.get(mode).all.keySet().equals(seen.all.keySet()));
                System.out.println(Json.line(line));
            }
        }
        Files2.delete(work.toFile());
    }

    private static SwapCheck check(File root, long base) throws Exception {
        JsonNode described = Json.read(new File(root, "case.json"));
        String name = described.get("topic").asText() + "-" + described.get("partition").asInt();
        List<Long> before = bases(new File(root, "before/" + name));
        List<Long> after = bases(new File(root, "after/" + name));
        int at = after.indexOf(base);
        long end = at + 1 < after.size() ? after.get(at + 1) : Long.MAX_VALUE;
        List<Long> group = before.stream().filter(one -> one >= base && one < end).toList();
        return new SwapCheck(root, described, described, base, group, before, after);
    }

    private static List<Long> bases(File directory) {
        List<Long> found = new ArrayList<>();
        for (String name : directory.list()) {
            if (name.endsWith(".log")) {
                found.add(Long.parseLong(name.substring(0, 20)));
            }
        }
        Long[] sorted = found.toArray(new Long[0]);
        Arrays.sort(sorted);
        return List.of(sorted);
    }
}
